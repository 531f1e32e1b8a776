"""How long a question may take, wherever it is asked; part of the promises of `contract`."""

from __future__ import annotations

import time

from .codes import StoreError

__all__ = ["Budget"]


class Budget:
    """A deadline and a cancellation that travel to the worker thread as a value (DESIGN §8).

    Set on the event loop, read by the SQLite progress handler and by a reader's own loops.
    Assigning a bool is atomic, so no lock is needed.
    """

    __slots__ = ("cancelled", "deadline")

    def __init__(self, deadline: float) -> None:
        """Take the *deadline* in seconds of `time.monotonic()`."""
        self.deadline = deadline
        self.cancelled = False

    @classmethod
    def lasting(cls, seconds: float) -> Budget:
        """Return a budget that ends *seconds* from now."""
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Return the seconds left, 0.0 when spent or cancelled."""
        return 0.0 if self.cancelled else max(0.0, self.deadline - time.monotonic())

    def is_spent(self) -> bool:
        """Tell whether to stop now."""
        return self.cancelled or time.monotonic() >= self.deadline

    def check(self) -> None:
        """Return while there is time left.

        Raises:
            StoreError: `deadline_exceeded` once the budget is spent or cancelled.
        """
        if self.is_spent():
            raise StoreError("deadline_exceeded", "the store did not answer in time")
