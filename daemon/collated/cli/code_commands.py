"""The commands that ask code stores and vector stores."""

import sys
from array import array
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from collated import protocol
from collated.errors import CollatedError

from . import render, render_code
from .line import Line
from .outcome import of_result
from .session import Session

__all__ = ["CODE_COMMANDS", "place_of", "vector_of"]

_FLOAT32_BYTES = 4
_DIGITS = 15  # of a number that the wire can carry
_FILE_BYTES = 32 * protocol.VECTOR_NUMBERS  # of the longest vector, with every digit and a line for each


class TypedError(CollatedError):
    """What was typed, or the file that it names, means nothing; the message says what is expected."""

    code = "invalid_argument"


def _symbols(session: Session) -> int:
    given = session.arguments
    params = protocol.SymbolsParams(given.name, given.exact, given.limit, **_scope(session))
    return _show(session, session.ask("symbols", params), render_code.symbols)


def _refs(session: Session) -> int:
    given = session.arguments
    params = protocol.ReferencesParams(given.name, given.kind, given.path, given.limit, **_scope(session))
    return _show(session, session.ask("references", params), render_code.references)


def _impact(session: Session) -> int:
    given = session.arguments
    params = protocol.ImpactParams(given.target, given.direction, given.depth, given.limit, **_scope(session))
    return _show(session, session.ask("impact", params), render_code.impact)


def _chunk(session: Session) -> int:
    given = session.arguments
    path, number = place_of(given.place)
    params = protocol.ChunkParams(path, number, given.store, given.deadline_ms, given.sync)
    return _show(session, session.ask("chunk", params), render_code.chunks)


def _architecture(session: Session) -> int:
    given = session.arguments
    params = protocol.ArchitectureParams(given.store, given.deadline_ms, given.sync)
    return _show(session, session.ask("architecture", params), render_code.architecture)


def _similar(session: Session) -> int:
    given = session.arguments
    params = protocol.VectorsSearchParams(
        vector_of(_content(given.vector)), given.model, given.limit, **_scope(session)
    )
    return _show(session, session.ask("vectors.search", params), render_code.similar)


def place_of(typed: str) -> tuple[str, int]:
    """Return the path and the line of `FILE:LINE`; of `FILE:LINE:COLUMN` too, as compilers print it.

    Raises:
        TypedError: it is neither.
    """
    path, _, number = typed.rpartition(":")
    before, _, earlier = path.rpartition(":")
    if before and _is_number(earlier) and _is_number(number):
        path, number = before, earlier
    if not path or not _is_number(number):
        raise TypedError(f"{typed!r} is not FILE:LINE, such as src/main.py:12")
    return path, int(number)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def vector_of(content: bytes) -> list[float]:
    """Return the vector in *content*: a JSON array of numbers, or raw little-endian float32.

    Raises:
        TypedError: it is neither, or longer than the daemon takes.
    """
    if len(content) > _FILE_BYTES:
        raise TypedError(f"the file has more than {_FILE_BYTES} bytes, which no vector takes")
    vector = _numbers_of(content)
    if vector is None:
        raise TypedError("the vector is neither a JSON array of numbers nor raw little-endian float32")
    if len(vector) > protocol.VECTOR_NUMBERS:
        raise TypedError(f"the vector has {len(vector)} numbers, and {protocol.VECTOR_NUMBERS} are the most")
    return vector


def _numbers_of(content: bytes) -> list[float] | None:
    if content.isascii() and content.translate(None, b"\t\r\n").decode().isprintable():  # else it is no text
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(content, type=list[float])
    elif content and len(content) % _FLOAT32_BYTES == 0:
        numbers = array("f", content)
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers.tolist()
    return None


def _content(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(_FILE_BYTES + 1)
    try:
        with Path(name).open("rb") as file:
            return file.read(_FILE_BYTES + 1)
    except OSError as error:
        raise TypedError(f"{name}: {error.strerror}") from error


def _scope(session: Session) -> dict[str, Any]:
    given = session.arguments
    return {
        "stores": given.stores,
        "formats": given.formats,
        "deadline_ms": given.deadline_ms,
        "sync": given.sync,
    }


def _show(session: Session, result: Struct, lines: Callable[[Any], Iterable[Line]]) -> int:
    stores: protocol.Answered | None = getattr(result, "stores", None)
    if session.arguments.json:
        session.show_json(result)
    else:
        session.show(lines(result))
        session.note(render_code.notes(result))
    if stores is not None:
        session.note(render.failures(stores))
    return of_result(result)


CODE_COMMANDS: Mapping[str, Callable[[Session], int]] = {
    "symbols": _symbols,
    "refs": _refs,
    "impact": _impact,
    "chunk": _chunk,
    "architecture": _architecture,
    "similar": _similar,
}
