"""Bytes to messages and back, for the three framings of one socket (DESIGN §6). No I/O.

A connection's first byte decides: `0x00` is a length (the frame limit stays below 2^24, so a first
length always begins with it), `{` or white space is JSON by the line, `C` is a `Content-Length` header.
"""

from typing import Literal

__all__ = ["Framer", "Framing", "FramingError", "frame"]

Framing = Literal["msgpack", "lines", "headers"]

_PREFIX_BYTES = 4
_HEADER_LIMIT_BYTES = 4_096
_LONGEST_LENGTH = 19  # decimal digits; more cannot be a size, and int() refuses thousands of them
_FIRST_BYTE: dict[int, Framing] = {
    0x00: "msgpack",
    **dict.fromkeys(b"{ \t\r\n", "lines"),
    **dict.fromkeys(b"Cc", "headers"),
}


class FramingError(Exception):
    """The stream cannot go on; `code` is `frame_too_large` or `parse_error`."""

    def __init__(self, code: str, message: str) -> None:
        """Keep the stable *code* of DESIGN §6 and the *message*."""
        super().__init__(message)
        self.code = code
        self.message = message


class Framer:
    """Cuts one connection's incoming bytes into message bodies; the work is linear in the bytes.

    `framing` is None until the first byte came (or as given), `error` is set once the stream cannot
    go on. A body may have up to *max_frame_bytes*; for lines that counts all but the line feed.
    """

    def __init__(self, max_frame_bytes: int, framing: Framing | None = None) -> None:
        """Take the limit in bytes, and the framing where it is known already."""
        self.framing: Framing | None = framing
        self.error: FramingError | None = None
        self._limit = max_frame_bytes
        self._rest = bytearray()
        self._scanned = 0  # bytes of `_rest` known to hold no line feed
        self._header_bytes = 0  # of the header block that has begun
        self._length: int | None = None  # what it said
        self._is_in_body = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bodies that *data* completes, in order; after an error nothing more."""
        if self.framing == "msgpack" and not self._rest and self._is_one_frame(data):
            return [data[_PREFIX_BYTES:]]
        bodies: list[bytes] = []
        if self.error is not None or not data:
            return bodies
        # Whole frames in one piece are cut from `data` without a buffer.
        stream: bytes | bytearray = data
        if self._rest:
            self._rest += data
            stream = self._rest
        try:
            end = self._cut(stream, bodies)
        except FramingError as error:
            self._stop(error)
            return bodies
        if stream is data:
            self._rest += data[end:]
        else:
            del self._rest[:end]
        self._scanned = len(self._rest)
        return bodies

    def finish(self) -> list[bytes]:
        """Return what the end of the file completes: a last line without its line feed.

        Half a frame sets `error` to `parse_error`.
        """
        rest, self._rest = bytes(self._rest), bytearray()
        if self.error is not None:
            return []
        if self.framing == "lines":
            line = rest.strip()
            return [line] if line else []
        if rest or self._header_bytes or self._is_in_body:
            self._stop(FramingError("parse_error", "the stream ended inside a frame"))
        return []

    def _stop(self, error: FramingError) -> None:
        self.error = error
        self._rest = bytearray()

    def _is_one_frame(self, data: bytes) -> bool:
        """Tell whether *data* is exactly one frame of allowed length: what a client sends that waits."""
        length = len(data) - _PREFIX_BYTES
        return (
            0 <= length <= self._limit
            and int.from_bytes(data[:_PREFIX_BYTES], "big") == length
            and self.error is None
        )

    def _cut(self, stream: bytes | bytearray, bodies: list[bytes]) -> int:
        """Append the complete bodies of *stream* and return where the incomplete rest begins."""
        if self.framing is None:
            self.framing = _FIRST_BYTE.get(stream[0])
        match self.framing:
            case "msgpack":
                return self._cut_lengths(stream, bodies)
            case "lines":
                return self._cut_lines(stream, bodies)
            case "headers":
                return self._cut_headers(stream, bodies)
            case None:
                raise FramingError(
                    "parse_error",
                    f"a connection cannot begin with the byte 0x{stream[0]:02x}; send a 4-byte length and "
                    "MessagePack, JSON by the line, or Content-Length headers",
                )

    def _cut_lengths(self, stream: bytes | bytearray, bodies: list[bytes]) -> int:
        start = 0
        while len(stream) >= (begin := start + _PREFIX_BYTES):
            end = begin + self._accept(int.from_bytes(stream[start:begin], "big"))
            if len(stream) < end:
                break
            bodies.append(_copy(stream, begin, end))
            start = end
        return start

    def _cut_lines(self, stream: bytes | bytearray, bodies: list[bytes]) -> int:
        end = stream.rfind(b"\n", self._scanned)
        if end >= 0:
            lines = _copy(stream, 0, end).split(b"\n")
            if end <= self._limit:  # none can be too long: cut in C, however many there are
                bodies.extend(filter(None, map(bytes.strip, lines)))
            else:
                self._take_lines(lines, bodies)
        self._accept(len(stream) - (end + 1))
        return end + 1

    def _take_lines(self, lines: list[bytes], bodies: list[bytes]) -> None:
        for line in lines:
            self._accept(len(line))
            if body := line.strip():
                bodies.append(body)

    def _cut_headers(self, stream: bytes | bytearray, bodies: list[bytes]) -> int:
        start = 0
        while True:
            if self._is_in_body:
                end = start + (self._length or 0)
                if len(stream) < end:
                    return start
                bodies.append(_copy(stream, start, end))
                self._is_in_body, self._length = False, None
            else:
                end = stream.find(b"\n", start) + 1
                if self._header_bytes + (end or len(stream)) - start > _HEADER_LIMIT_BYTES:
                    raise FramingError("parse_error", f"a header block over {_HEADER_LIMIT_BYTES} bytes")
                if not end:
                    return start
                self._header_bytes += end - start
                self._take_header(bytes(stream[start:end]).strip())
            start = end

    def _take_header(self, line: bytes) -> None:
        if not line:
            if self._length is None:
                raise FramingError("parse_error", "a header block without Content-Length")
            self._is_in_body, self._header_bytes = True, 0
            return
        name, colon, value = line.partition(b":")
        if not colon:
            raise FramingError("parse_error", "a header line without a colon")
        if name.strip().lower() != b"content-length":
            return  # Content-Type, which can only say what we assume
        digits = value.strip()
        if self._length is not None or not digits.isdigit():
            raise FramingError("parse_error", "Content-Length must be one number of bytes, given once")
        self._length = self._accept(int(digits) if len(digits) <= _LONGEST_LENGTH else self._limit + 1)

    def _accept(self, length: int) -> int:
        if length > self._limit:
            raise FramingError("frame_too_large", f"a frame may have at most {self._limit} bytes")
        return length


def _copy(stream: bytes | bytearray, start: int, end: int) -> bytes:
    if isinstance(stream, bytes):
        return stream[start:end]
    with memoryview(stream) as view:  # slicing a bytearray would copy a large body twice
        return bytes(view[start:end])


def frame(framing: Framing, *parts: bytes) -> bytes:
    """Return one message as it goes over the wire: *parts*, put together and copied once.

    For lines no part has a line feed.
    """
    match framing:
        case "msgpack":
            return b"".join((sum(map(len, parts)).to_bytes(_PREFIX_BYTES, "big"), *parts))
        case "lines":
            return b"".join((*parts, b"\n"))
        case "headers":
            return b"".join((b"Content-Length: %d\r\n\r\n" % sum(map(len, parts)), *parts))
