"""Who is let in: at most so many at once, and none any more when the server stops."""

from collections.abc import Callable
from typing import Self

import anyio

__all__ = ["Door", "Visit"]


class Visit:
    """A slot that is held until its holder leaves, or the `with` ends; who left may leave again."""

    def __init__(self, left: Callable[[], None]) -> None:
        """Hold a slot; *left* is called once, when it is given back."""
        self._left = left
        self._is_over = False

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave."""
        self.leave()

    def leave(self) -> None:
        """Give the slot back."""
        if not self._is_over:
            self._is_over = True
            self._left()


class Door:
    """Counts the slots that are held: for connections, and for the streams of those who listen."""

    def __init__(self, slots: int) -> None:
        """Have so many *slots*."""
        self._slots = slots
        self._is_closed = False
        self._emptied = anyio.Event()
        self.held = 0

    def enter(self) -> Visit | None:
        """Take a slot; None when none is free or the door is closed."""
        if self._is_closed or self.held >= self._slots:
            return None
        self.held += 1
        return Visit(self._left)

    def close(self) -> None:
        """Let nobody in from now on."""
        self._is_closed = True
        self._tell()

    async def emptied(self) -> None:
        """Wait until the door is closed and no slot is held."""
        await self._emptied.wait()

    def _left(self) -> None:
        self.held -= 1
        self._tell()

    def _tell(self) -> None:
        if self._is_closed and not self.held:
            self._emptied.set()
