"""Who is admitted: every refusal has its identifier, and a new entry is read as it was written."""

from __future__ import annotations

import string
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.errors import ConfigError
from collated.mcp.http.credentials import (
    IDENTIFIERS,
    Credential,
    NotAdmitted,
    admit,
    bearer,
    digest,
    entry,
    parse,
    revoked,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(days=30)
LAPTOP = Credential("laptop", digest("secret"), "here", LATER, frozenset({"docs"}))
WHOLE = Credential("whole", digest("other"), "here", LATER)
TEXT = f"""
[[credential]]
id = "laptop"
sha256 = "{digest("secret")}"
audience = "here"
expires = 2026-01-31T00:00:00Z
stores = ["docs"]

[[credential]]
id = "whole"
sha256 = "{digest("other")}"
audience = "here"
expires = "2026-01-31T02:00:00+02:00"
"""


def refused(
    identifier: str, token: str, *, denied: str = "", audience: str = "here", now: datetime = NOW
) -> None:
    with pytest.raises(NotAdmitted) as error:
        admit(token, [LAPTOP, WHOLE], frozenset({denied}), audience, now)
    assert error.value.identifier == identifier
    assert str(error.value).startswith(f"{identifier}: ")
    assert error.value.status == 401


def test_a_file_is_read_with_its_entries_in_order() -> None:
    assert parse(TEXT) == (LAPTOP, WHOLE)
    assert parse("") == ()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ((digest("secret"), "secret"), "sha256"),
        (('"here"', '""'), "audience"),
        (("2026-01-31T00:00:00Z", "2026-01-31T00:00:00"), "timezone"),
        (("2026-01-31T00:00:00Z", "2026-01-31"), "expires"),
        (('id = "laptop"', 'id = "my laptop"'), "id"),
        (('id = "laptop"', 'id = "whole"'), "twice"),
        (('stores = ["docs"]', 'stores = "docs"'), "stores"),
        (('stores = ["docs"]', 'token = "secret"'), "token"),
        (('stores = ["docs"]', "stores = ["), "line 9"),
        (("[[credential]]", "[[credentials]]"), "credentials"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(changed: tuple[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(TEXT.replace(*changed, 1))


def test_a_token_opens_what_its_entry_says() -> None:
    assert admit("secret", [LAPTOP, WHOLE], frozenset({"another"}), "here", NOW) is LAPTOP
    assert admit("other", [LAPTOP, WHOLE], frozenset(), "here", LATER - timedelta(seconds=1)) is WHOLE


def test_each_refusal_has_its_identifier() -> None:
    refused("CredentialUnknown", "guess")
    refused("CredentialUnknown", "")
    refused("CredentialUnknown", digest("secret"))
    refused("CredentialRevoked", "secret", denied="laptop", now=LATER)
    refused("CredentialExpired", "secret", now=LATER)
    refused("CredentialExpired", "secret", now=LATER.astimezone(timezone(timedelta(hours=-8))))
    refused("CredentialAudienceMismatch", "secret", audience="there")
    refused("CredentialAudienceMismatch", "secret", audience="Here")


@pytest.mark.parametrize(
    ("headers", "identifier"),
    [
        ([], "HttpCredentialMissing"),
        ([""], "HttpCredentialMissing"),
        (["Bearer"], "HttpCredentialMissing"),
        (["Bearer  "], "HttpCredentialMissing"),
        (["Bearer a", "Bearer b"], "HttpCredentialMissing"),
        (["DPoP secret"], "CredentialSchemeUnsupported"),
        (["dpop"], "CredentialSchemeUnsupported"),
        (["Basic c2VjcmV0"], "CredentialSchemeUnsupported"),
        (["secret"], "CredentialSchemeUnsupported"),
    ],
)
def test_a_request_without_one_bearer_credential_is_not_admitted(headers: list[str], identifier: str) -> None:
    with pytest.raises(NotAdmitted) as error:
        bearer(headers)
    assert error.value.identifier == identifier


def test_a_bearer_credential_is_taken_from_its_header() -> None:
    assert bearer(["Bearer secret"]) == bearer([" bearer  secret "]) == "secret"


def test_what_the_server_cannot_read_is_not_the_callers_fault() -> None:
    for identifier in IDENTIFIERS:
        status = 503 if identifier.endswith("Unreadable") else 401
        assert NotAdmitted(identifier, "").status == status


def test_a_denylist_has_ids_and_comments() -> None:
    assert revoked("# gone\nlaptop\r\n  whole  # lost\n\n#\n") == {"laptop", "whole"}
    assert revoked("") == frozenset()


_ids = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=100)
_texts = st.text(min_size=1).filter(str.isprintable)
_times = st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))


@given(_ids, st.text(), _texts, _times, st.none() | st.frozensets(_texts))
def test_a_new_entry_is_read_as_it_was_written(
    name: str, token: str, audience: str, ends: datetime, stores: frozenset[str] | None
) -> None:
    made = Credential(name, digest(token), audience, ends.replace(microsecond=0), stores)
    assert parse(entry(made)) == (made,)


@pytest.mark.parametrize(
    "made",
    [
        Credential("two words", digest(""), "here", NOW),
        Credential("", digest(""), "here", NOW),
        Credential("laptop\n", digest(""), "here", NOW),
        Credential("laptop", digest("") + "\n", "here", NOW),
        Credential("laptop", digest(""), "", NOW),
        Credential("laptop", digest(""), "a\x7fb", NOW),
        Credential("laptop", digest(""), "a\udc80b", NOW),
        Credential("laptop", digest(""), "here", NOW, frozenset({"a\nb"})),
    ],
)
def test_an_entry_of_no_plain_text_is_refused(made: Credential) -> None:
    with pytest.raises(ConfigError):
        entry(made)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        parse(text)
    assert all(name == name.strip() != "" for name in revoked(text))
