"""The calls that are being answered, so that who made one may take it back."""

from collections.abc import Generator
from contextlib import contextmanager

import anyio

__all__ = ["Calls"]

_Id = str | int


class Calls:
    """Calls by the credential that was shown and the id that the client gave it."""

    def __init__(self) -> None:
        """Hold no call."""
        self._answering: dict[tuple[str, _Id], list[anyio.CancelScope]] = {}

    @contextmanager
    def under(self, credential: str, request: _Id | None) -> Generator[anyio.CancelScope]:
        """Give the scope in which a call is answered, which `cancel` cancels."""
        with anyio.CancelScope() as scope:
            if request is None:
                yield scope
                return
            scopes = self._answering.setdefault((credential, request), [])
            scopes.append(scope)
            try:
                yield scope
            finally:
                scopes.remove(scope)
                if not scopes:
                    del self._answering[credential, request]

    def cancel(self, credential: str, request: _Id) -> None:
        """Cancel the one call of that id; of two, which two clients of a credential made, neither."""
        scopes = self._answering.get((credential, request), [])
        if len(scopes) == 1:
            scopes[0].cancel()
