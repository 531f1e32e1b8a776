"""Who is admitted: bearer credentials with an audience, an end, and the stores they open. No I/O, no clock.

A file of credentials is TOML, and holds digests of tokens, never a token:

    [[credential]]
    id = "laptop"
    sha256 = "<64 hexadecimal digits>"
    audience = "https://collated.example"
    expires = 2030-01-01T00:00:00Z
    stores = ["docs"]  # left out: every store
"""

import hashlib
import hmac
import tomllib
from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from collated.errors import ConfigError

__all__ = [
    "IDENTIFIERS",
    "Credential",
    "NotAdmitted",
    "admit",
    "bearer",
    "digest",
    "entry",
    "parse",
    "revoked",
]

# identifier -> when. Part of the API: never reworded or reused. The first is the seed's; it names no other.
IDENTIFIERS: Mapping[str, str] = {
    "HttpCredentialMissing": "a request without an `Authorization: Bearer` credential",
    "CredentialSchemeUnsupported": "another scheme than Bearer; proofs of possession (DPoP) are not built",
    "CredentialUnknown": "a token that no entry of the credentials file has the digest of",
    "CredentialRevoked": "a credential whose id is in the denylist",
    "CredentialExpired": "a credential whose end has come",
    "CredentialAudienceMismatch": "a credential for another audience than the one served here",
    "CredentialsUnreadable": "a file of credentials that cannot be read any more: nobody is admitted",
    "DenylistUnreadable": "a denylist that cannot be read: nobody is admitted",
}
_UNREADABLE = frozenset({"CredentialsUnreadable", "DenylistUnreadable"})

_Id = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,100}\Z")]
_Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Time = Annotated[datetime, Meta(tz=True)]


class Credential(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of the file; *stores* None opens every store."""

    id: _Id
    sha256: _Digest
    audience: Annotated[str, Meta(min_length=1)]
    expires: _Time
    stores: frozenset[str] | None = None


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    credential: tuple[Credential, ...] = ()


class NotAdmitted(Exception):
    """A request that is not admitted; *identifier* is a key of `IDENTIFIERS`."""

    def __init__(self, identifier: str, message: str) -> None:
        """Keep the stable *identifier* and the *message* that says what to do."""
        super().__init__(f"{identifier}: {message}")
        self.identifier = identifier

    @property
    def status(self) -> HTTPStatus:
        """Return the HTTP status: a caller's own fault, or the server's."""
        is_ours = self.identifier in _UNREADABLE
        return HTTPStatus.SERVICE_UNAVAILABLE if is_ours else HTTPStatus.UNAUTHORIZED


def parse(text: str) -> tuple[Credential, ...]:
    """Return the credentials of a file's *text*.

    Raises:
        ConfigError: not TOML, a field that is missing, unknown or wrong, or an id that is there twice.
    """
    try:
        found = msgspec.convert(tomllib.loads(text), _File).credential
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"the credentials are refused: {error}") from error
    ids = [each.id for each in found]
    if twice := sorted({each for each in ids if ids.count(each) > 1}):
        raise ConfigError(f"the credentials are refused: the id {twice[0]} is there twice")
    return found


def revoked(text: str) -> frozenset[str]:
    """Return the ids of a denylist's *text*: one a line, `#` begins a comment."""
    return frozenset(line.partition("#")[0].strip() for line in text.splitlines()) - {""}


def digest(token: str) -> str:
    """Return what the file holds of a *token*. Tokens are made of random bits, so a plain hash is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def admit(
    token: str, credentials: Sequence[Credential], denied: frozenset[str], audience: str, now: datetime
) -> Credential:
    """Return the credential that *token* is of.

    Raises:
        NotAdmitted: `CredentialUnknown`, `CredentialRevoked`, `CredentialExpired`,
            `CredentialAudienceMismatch`.
    """
    wanted = digest(token)
    # Every entry is compared, whole, so that the time tells nothing of them.
    matching = [each for each in credentials if hmac.compare_digest(each.sha256, wanted)]
    if not matching:
        raise NotAdmitted("CredentialUnknown", "ask whoever runs this server for a credential")
    found = matching[0]
    if found.id in denied:
        raise NotAdmitted("CredentialRevoked", f"the credential {found.id} was revoked")
    if found.expires <= now:
        raise NotAdmitted(
            "CredentialExpired", f"the credential {found.id} ended at {found.expires.isoformat()}"
        )
    if found.audience != audience:
        raise NotAdmitted(
            "CredentialAudienceMismatch", f"the credential {found.id} is not for this server's audience"
        )
    return found


def bearer(authorization: Sequence[str]) -> str:
    """Return the token of a request's `Authorization` headers.

    Raises:
        NotAdmitted: `HttpCredentialMissing`, `CredentialSchemeUnsupported`.
    """
    scheme, _, token = (authorization[0] if authorization else "").strip().partition(" ")
    if scheme.lower() == "dpop":
        raise NotAdmitted("CredentialSchemeUnsupported", "DPoP is not built here; send a Bearer credential")
    if scheme and scheme.lower() != "bearer":
        raise NotAdmitted("CredentialSchemeUnsupported", "send `Authorization: Bearer <credential>`")
    if len(authorization) != 1 or not token.strip():
        raise NotAdmitted("HttpCredentialMissing", "send one header `Authorization: Bearer <credential>`")
    return token.strip()


def entry(credential: Credential) -> str:
    """Return the TOML of a new entry, to be appended to a file.

    Raises:
        ConfigError: the id, the audience or a store's name is no plain text.
    """
    texts = (credential.audience, *(credential.stores or ()))
    if unprintable := [text for text in texts if not text.isprintable()]:
        raise ConfigError(f"{unprintable[0]!r} has characters that cannot be printed")
    lines = [
        "[[credential]]",
        f"id = {_quoted(credential.id)}",
        f"sha256 = {_quoted(credential.sha256)}",
        f"audience = {_quoted(credential.audience)}",
        f"expires = {credential.expires.isoformat(timespec='seconds').replace('+00:00', 'Z')}",
    ]
    if credential.stores is not None:
        lines.append(f"stores = [{', '.join(_quoted(name) for name in sorted(credential.stores))}]")
    text = "\n".join((*lines, ""))
    parse(text)  # holds the id to its pattern
    return text


def _quoted(text: str) -> str:
    # A JSON string of printable characters is one of TOML.
    return msgspec.json.encode(text).decode()
