"""Secrets are taken out of whatever is sent: `redacted`. Pure.

A secret is known by its own form (`TOKENS`: the prefixes that services give their tokens;
`FORMS_BEHIND`: what stands behind `Bearer` or in a connection string), or by its name
(`assigned_secrets`: `client_secret=`, `"password": …`). Placeholders (`<your-token>`, `${TOKEN}`,
`changeme`, `xxxx`) stay.

A text is to be redacted before it is cut: half a token is not known for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .forms import FORMS_BEHIND, SHORTEST_TOKEN, TOKENS, Form
from .names import assigned_secrets
from .private_keys import without_private_keys

__all__ = ["redacted", "redacted_each"]


def redacted(text: str) -> str:
    """Return *text* with each secret replaced by `<<redacted:KIND>>`, all else and the lines as they were."""
    text = without_private_keys(text)
    lowered = text.lower()
    for form in (*_tokens(lowered), *_found(FORMS_BEHIND, lowered)):
        text = _replaced(text, form.kind, form.places(text))
    return _replaced(text, "secret", assigned_secrets(text))


def redacted_each(texts: Sequence[str]) -> Sequence[str]:
    """Return `redacted` of each of many short *texts*, nearly all of which hold no secret.

    To ask once is several times faster than one by one.
    """
    together = _APART.join(texts)
    return texts if redacted(together) == together else list(map(redacted, texts))


_APART = "\n\0\n"  # a line that is part of no key
_TOKEN_NEEDLES = tuple(needle for form in TOKENS for needle in form.needles)


def _found(forms: Iterable[Form], lowered: str) -> list[Form]:
    return [form for form in forms if any(map(lowered.__contains__, form.needles))]


def _tokens(lowered: str) -> list[Form]:
    words = _long_words(lowered)
    # Nearly never, and this is the fastest way to know.
    return _found(TOKENS, words) if any(map(words.__contains__, _TOKEN_NEEDLES)) else []


def _long_words(lowered: str) -> str:
    # A token is one word and a long one; most of a text is then not looked through for its many beginnings.
    return " ".join([word for word in lowered.split() if len(word) >= SHORTEST_TOKEN])


def _replaced(text: str, kind: str, places: Iterable[tuple[int, int]]) -> str:
    parts: list[str] = []
    done = 0
    for start, end in places:
        parts += (text[done:start], f"<<redacted:{kind}>>")
        done = end
    return "".join((*parts, text[done:])) if parts else text
