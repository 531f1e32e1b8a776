"""Messages over pipes: a body behind four bytes of length, no body over 64 MiB. Bytes only, no I/O."""

__all__ = ["LIMIT_BYTES", "FrameError", "Frames", "framed"]

LIMIT_BYTES = 64 << 20
_HEAD_BYTES = 4


class FrameError(Exception):
    """A body over the limit."""


def framed(body: bytes, limit_bytes: int = LIMIT_BYTES) -> bytes:
    """Return *body* as it goes over the pipe.

    Raises:
        FrameError: it is over the limit.
    """
    if len(body) > limit_bytes:
        raise FrameError(f"a message of {len(body)} bytes, {limit_bytes} at most")
    return len(body).to_bytes(_HEAD_BYTES, "big") + body


class Frames:
    """Takes apart what comes in, however it was cut; holds no more than one body and what was fed last."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        """Refuse bodies over the limit, before any of their bytes."""
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is left of what was fed."""
        return not self._buffer

    def feed(self, data: bytes) -> None:
        """Add *data*; after it, `take` until there is no more."""
        self._buffer += data

    def take(self) -> bytes | None:
        """Return the next body, None while it is not whole.

        Raises:
            FrameError: it is over the limit.
        """
        if len(self._buffer) < _HEAD_BYTES:
            return None
        length = int.from_bytes(self._buffer[:_HEAD_BYTES], "big")
        if length > self._limit_bytes:
            raise FrameError(f"a message of {length} bytes, {self._limit_bytes} at most")
        end = _HEAD_BYTES + length
        if len(self._buffer) < end:
            return None
        with memoryview(self._buffer) as view:
            body = bytes(view[_HEAD_BYTES:end])
        del self._buffer[:end]
        return body
