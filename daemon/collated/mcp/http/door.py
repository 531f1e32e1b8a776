"""Who is let in: at most so many connections at once, and none any more when the server stops."""

import anyio

__all__ = ["Door"]


class Door:
    """Counts the connections that hold a slot: from their accept until their answer is written."""

    def __init__(self, slots: int) -> None:
        """Have so many *slots*."""
        self._slots = slots
        self._is_closed = False
        self._emptied = anyio.Event()
        self.held = 0

    def enter(self) -> bool:
        """Take a slot; False when none is free or the door is closed."""
        if self._is_closed or self.held >= self._slots:
            return False
        self.held += 1
        return True

    def leave(self) -> None:
        """Give a slot back."""
        self.held -= 1
        self._tell()

    def close(self) -> None:
        """Let nobody in from now on."""
        self._is_closed = True
        self._tell()

    async def emptied(self) -> None:
        """Wait until the door is closed and no slot is held."""
        await self._emptied.wait()

    def _tell(self) -> None:
        if self._is_closed and not self.held:
            self._emptied.set()
