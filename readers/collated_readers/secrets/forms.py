"""Secrets that are known by their form or by what stands before them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .looks import is_credentials, is_noise, is_placeholder, is_wordy

__all__ = ["FORMS_BEHIND", "SHORTEST_TOKEN", "TOKENS", "Form"]


class Form(NamedTuple):
    """One kind of secret: *pattern* finds it as its group `secret`.

    It is looked for only in texts that hold one of *needles* in lower case.
    """

    kind: str
    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    accepts: Callable[[str], bool]

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where such secrets of *text* begin and end, in order."""
        return (
            found.span("secret") for found in self.pattern.finditer(text) if self.accepts(found["secret"])
        )


def _always(_: str) -> bool:
    return True


def _is_password(value: str) -> bool:
    return not is_placeholder(value)


def _is_argument(value: str) -> bool:
    return not is_placeholder(value) and not is_wordy(value) and any(map(str.isdigit, value))


def _token(kind: str, needles: str, pattern: str) -> Form:
    """Return the form of a token that begins as no other word does."""
    whole = re.compile(rf"(?<![A-Za-z0-9])(?P<secret>{pattern})(?![A-Za-z0-9])", re.ASCII)
    return Form(kind, tuple(needles.split()), whole, _always)


def _behind(
    kind: str, needles: str, before: str, pattern: str, accepts: Callable[[str], bool] = _always
) -> Form:
    """Return the form of what matches *pattern* behind *before*, whose case does not matter."""
    whole = re.compile(rf"(?i:{before})(?P<secret>{pattern})", re.ASCII)
    return Form(kind, tuple(needles.split("|")), whole, accepts)


# Every quantifier is possessive or bounded, so that the time a text takes is in proportion to its length.
TOKENS: tuple[Form, ...] = (
    _token("aws_access_key", "akia asia abia acca", r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}"),
    _token("jwt", "eyj", r"eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]*+){0,3}"),
    _token("github_token", "ghp_ gho_ ghs_ ghu_ ghr_", r"gh[opsur]_[A-Za-z0-9_]{20,}+"),
    _token("github_token", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,}+"),
    _token(
        "gitlab_token",
        "glpat- gldt- glrt- glptt- glcbt- glsoat- glft- glimt- glagent-",
        r"gl(?:pat|dt|rt|ptt|cbt|soat|ft|imt|agent)-[A-Za-z0-9_.-]{20,}+",
    ),
    _token("slack_token", "xox xapp-", r"(?:xox[a-z](?:\.xox[a-z])?|xapp)-[A-Za-z0-9-]{10,}+"),
    _token("google_api_key", "aiza", r"AIza[A-Za-z0-9_-]{30,}+"),
    _token("google_token", "ya29. gocspx-", r"(?:ya29\.|GOCSPX-)[A-Za-z0-9_-]{20,}+"),
    _token(
        "stripe_key",
        "_live_ _test_ whsec_",
        r"(?:(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}+|whsec_[A-Za-z0-9]{20,}+)",
    ),
    _token("npm_token", "npm_", r"npm_[A-Za-z0-9]{30,}+"),
    _token("pypi_token", "pypi-", r"pypi-[A-Za-z0-9_-]{40,}+"),
    _token("openai_key", "sk-", r"sk-(?:(?:proj|svcacct|admin|or)-[A-Za-z0-9_-]{16,}+|[A-Za-z0-9]{32,}+)"),
    _token("anthropic_key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{16,}+"),
    _token("huggingface_token", "hf_", r"hf_[A-Za-z0-9]{30,}+"),
    _token("sendgrid_key", "sg.", r"SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"),
    _token(
        "api_token",
        "doo_v1_ dop_v1_ dor_v1_ dckr_ dapi shpat_ shpca_ shppa_ shpss_ hvs. hvb. hvr. "
        "lin_api_ nrak- pmak- glsa_ rubygems_ sbp_",
        r"(?:do[opr]_v1_[0-9a-f]{40,}+|dckr_[op]at_[A-Za-z0-9_-]{20,}+|dapi[0-9a-f]{32}(?:-[0-9])?"
        r"|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|hv[sbr]\.[A-Za-z0-9_-]{24,}+|lin_api_[A-Za-z0-9]{32,}+"
        r"|NRAK-[A-Z0-9]{24,}+|PMAK-[A-Za-z0-9-]{30,}+|glsa_[A-Za-z0-9_]{32,}+|rubygems_[0-9a-f]{48}"
        r"|sbp_[0-9a-f]{40})",
    ),
    _token("api_token", "atatt3 atctt3", r"AT[AC]TT3[A-Za-z0-9_=-]{20,}+"),
    _behind("telegram_token", ":aa", r"(?:bot|(?<![a-z0-9]))", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}+"),
    _token("private_key", "age-secret-key-1", r"AGE-SECRET-KEY-1[0-9A-Z]{50,}+"),
)
SHORTEST_TOKEN = 15
"""Characters of the shortest word that a token of `TOKENS` is in."""

FORMS_BEHIND: tuple[Form, ...] = (
    _behind(
        "slack_webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/",
        r"[A-Za-z0-9/_-]{10,}+",
    ),
    _behind(
        "discord_webhook",
        "/api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/[0-9]{5,25}/",
        r"[A-Za-z0-9_-]{20,}+",
    ),
    _behind(
        "azure_key",
        "accountkey=|sharedaccesskey=|sig=",
        r"(?:accountkey=|sharedaccesskey=|[?&;]sig=)",
        r"[A-Za-z0-9+/%]{20,}+={0,2}+",
    ),
    _behind("authorization", "bearer", r"\bbearer[ \t]{1,4}", r"[A-Za-z0-9._~+/-]{12,}+={0,2}+", is_noise),
    _behind("authorization", "basic", r"\bbasic[ \t]{1,4}", r"[A-Za-z0-9+/]{8,}+={0,2}+", is_credentials),
    _behind(
        "authorization",
        "authorization",
        r"authorization[\"'\]]{0,2}[ \t]{0,4}[:=,][ \t]{0,4}[\"']?(?:token|api-?key|key)[ \t=]{1,4}",
        r"[A-Za-z0-9._~+/-]{12,}+={0,2}+",
        is_noise,
    ),
    _behind("password", "://", r"://[^\s/:@\"'`<>]{0,100}+:", r"[^\s/\"'`<>]{1,200}(?=@)", _is_password),
    _behind(
        "secret",
        "--",
        r"--(?:[a-z]{1,12}-){0,3}(?:passw(?:or)?d|passphrase|token|secret|api-?key)[ \t]{1,4}[\"']?",
        r"[^\s\"'`<>()\[\]{}$-][^\s\"'`<>]{7,}+",
        _is_argument,
    ),
)
