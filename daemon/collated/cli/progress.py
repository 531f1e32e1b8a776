"""One line on a person's standard error while an answer takes long, wiped once it is there."""

import shutil
import time
from typing import TextIO

from collated.protocol import Partial

__all__ = ["ProgressLine"]

_PATIENCE_S = 0.5
_WIPE = "\r\x1b[K"


class ProgressLine:
    """An `on_wait` callback of the blocking client; silent unless *stream* is a terminal."""

    def __init__(self, stream: TextIO, *, patience_s: float = _PATIENCE_S) -> None:
        """Start the clock; nothing is shown before *patience_s*."""
        self._stream = stream
        self._patience_s = patience_s
        self._began = time.monotonic()
        self._is_shown = False

    def __call__(self, partial: Partial | None) -> None:
        """Show how far the answer is, once it has taken long."""
        elapsed_s = time.monotonic() - self._began
        if elapsed_s < self._patience_s:
            return
        columns = shutil.get_terminal_size().columns
        self._stream.write(_WIPE + told(partial, elapsed_s)[: columns - 1])
        self._stream.flush()
        self._is_shown = True

    def wipe(self) -> None:
        """Remove the line."""
        if self._is_shown:
            self._stream.write(_WIPE)
            self._stream.flush()
            self._is_shown = False


def told(partial: Partial | None, elapsed_s: float) -> str:
    """Return how far an answer is, in words."""
    if partial is None:
        return f"waiting for the daemon, {elapsed_s:.0f} s"
    failed = f", {len(partial.failed)} failed" if partial.failed else ""
    return f"asked {partial.asked} stores, {partial.answered} answered{failed}, {elapsed_s:.0f} s"
