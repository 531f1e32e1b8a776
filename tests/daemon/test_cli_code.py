"""What a person types and is shown of code and vectors, and that all of it is harmless."""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated import protocol
from collated.cli import render_code
from collated.cli.arguments import client_parser
from collated.cli.code_commands import place_of, vector_of
from collated.cli.line import Line, plain
from collated.errors import CollatedError
from collated.protocol import Answered

NASTY = "\x1b[2Jx\u202ey\x9b\x07"
FINE = Answered(1, 1)


def text(lines: Iterable[Line]) -> list[str]:
    return [plain(line) for line in lines]


def symbol(store: str = "box", **changed: Any) -> protocol.Symbol:
    fields: dict[str, Any] = {
        "name": "get",
        "qualified": "Box.get",
        "kind": "method",
        "path": "src/box.py",
        "line_start": 12,
        "line_end": 14,
        "sha256": "5ha",
        "signature": "def get(self):",
    }
    return protocol.Symbol(store, **{**fields, **changed})


def symbols(*found: protocol.Symbol, how: Any = "exact", **changed: Any) -> protocol.SymbolsResult:
    fields: dict[str, Any] = {"more": 0, "truncated": False, "complete": True, "stores": FINE}
    return protocol.SymbolsResult(list(found), how, **{**fields, **changed})


def references(*found: protocol.Reference, **changed: Any) -> protocol.ReferencesResult:
    fields: dict[str, Any] = {"coverage": [], "truncated": False, "complete": True, "stores": FINE}
    return protocol.ReferencesResult(list(found), **{**fields, **changed})


def impact(*found: protocol.Node, **changed: Any) -> protocol.ImpactResult:
    fields: dict[str, Any] = {
        "files": [],
        "known_in": ["box"],
        "coverage": [],
        "truncated": False,
        "complete": True,
        "stores": FINE,
    }
    return protocol.ImpactResult(list(found), **{**fields, **changed})


def reference(**changed: Any) -> protocol.Reference:
    fields: dict[str, Any] = {
        "path": "src/main.py",
        "line": 3,
        "kind": "call",
        "confidence": "extracted",
        "target": "Box.get",
        "receiver": "box",
        "caller": "main",
        "sha256": "5ha",
    }
    return protocol.Reference(changed.pop("store", "box"), **{**fields, **changed})


def node(**changed: Any) -> protocol.Node:
    fields: dict[str, Any] = {
        "store": "box",
        "kind": "symbol",
        "path": "src/main.py",
        "name": "main",
        "line_start": 3,
        "distance": 1,
        "via_edge": "call",
        "via_confidence": "extracted",
        "sha256": "5ha",
    }
    return protocol.Node(**{**fields, **changed})


def chunk(**changed: Any) -> protocol.ChunkResult:
    fields: dict[str, Any] = {
        "store": "box",
        "id": "src/box.py#12",
        "ref": "box:src/box.py#12",
        "path": "src/box.py",
        "line_start": 12,
        "line_end": 14,
        "kind": "symbol_body",
        "text": "def get(self):\n\treturn 1\n",
        "sha256": "5ha",
        "symbol": symbol(),
    }
    return protocol.ChunkResult([protocol.Chunk(**{**fields, **changed})], False, True, FINE)


def similar(order: Any = "score", **changed: Any) -> protocol.VectorsSearchResult:
    fields: dict[str, Any] = {
        "store": "book",
        "id": "7",
        "ref": "book:7",
        "doc": "book.md",
        "heading_path": "Book > One",
        "kind": "passage",
        "text": "The first\n  words. " + "x" * 999,
        "score": 0.123456,
        "metric": "cosine",
        "direction": "higher",
        "model": "small",
    }
    return protocol.VectorsSearchResult([protocol.Similar(**{**fields, **changed})], order, False, True, FINE)


# --------------------------------------------------------------------------- what is shown


def test_symbols_are_a_table_of_places() -> None:
    other = symbol("longer-name", path="a.py", line_start=1, kind="class", qualified=None, signature=None)

    assert text(render_code.symbols(symbols(symbol(), other))) == [
        "box          src/box.py:12  method  Box.get  def get(self):",
        "longer-name  a.py:1         class   get",
    ]
    assert text(render_code.symbols(symbols())) == []


def test_references_say_what_is_meant_and_by_whom() -> None:
    vague = reference(line=40, kind="possible_call", confidence=None, target=None, caller=None)

    assert text(render_code.references(references(reference(), vague))) == [
        "box  src/main.py:3   call           extracted  Box.get  in main",
        "box  src/main.py:40  possible_call             box",
    ]


def test_impact_says_how_far_and_by_which_edge() -> None:
    file = node(
        kind="file", name="main.py", line_start=None, distance=2, via_edge="import", via_confidence=None
    )

    assert text(render_code.impact(impact(node(), file))) == [
        "box  src/main.py:3  1  main     call extracted",
        "box  src/main.py    2  main.py  import",
    ]


def test_a_chunk_is_shown_word_for_word_below_its_place() -> None:
    assert text(render_code.chunks(chunk())) == [
        "box  src/box.py:12-14  method Box.get",
        "def get(self):",
        "\treturn 1",
        "",
    ]
    assert text(render_code.chunks(chunk(symbol=None)))[0] == "box  src/box.py:12-14  symbol_body"


def test_a_near_record_is_shown_with_its_score_and_how_it_begins() -> None:
    first, second = text(render_code.similar(similar()))

    assert first == "book:7  Book > One  cosine 0.1235"
    assert second.startswith("    The first words. xxx")
    assert len(second) <= 4 + 200


def test_a_report_is_an_outline() -> None:
    report = {
        "node_count": 3,
        "communities": [{"id": 0, "top_nodes": [{"name": "get", "degree": 2}]}],
        "questions": ["How does it work?"],
    }

    assert text(render_code.architecture(protocol.ArchitectureResult("box", report))) == [
        "node count  3",
        "communities",
        "  id  0",
        "  top nodes",
        "    name get  degree 2",
        "questions",
        "  How does it work?",
    ]
    assert text(render_code.architecture(protocol.ArchitectureResult("box", None))) == []


def test_a_report_without_an_end_is_not_shown_to_its_end() -> None:
    deep: Any = 1
    for _ in range(99):
        deep = {"deeper": deep}
    shown = text(
        render_code.architecture(protocol.ArchitectureResult("box", {"deep": deep, "long": [1] * 99}))
    )

    assert len(shown) < 40
    assert "  and 79 more" in shown


# --------------------------------------------------------------------------- what is noted

PARTIAL = [protocol.PartialGraph("box", ["go", "c"], "no grammar")]


@pytest.mark.parametrize(
    ("result", "noted"),
    [
        (symbols(symbol()), []),
        (symbols(symbol(), more=2), ["2 more names begin so"]),
        (symbols(symbol(), how="prefix"), ["these names begin so"]),
        (symbols(symbol(), how="member"), []),
        (symbols(symbol(), how="parts"), ["the same parts"]),
        (symbols(symbol(), truncated=True), ["raise --limit"]),
        (symbols(stores=Answered(2, 0, 2), how=None), ["none of these stores can be asked this"]),
        (symbols(stores=Answered(0, 0), how=None), ["no stores are open"]),
        (symbols(how=None), ["no store has a definition of that name"]),
        (symbols(how=None, complete=False), []),
        (references(reference(), coverage=PARTIAL), ["box knows go, c in part only: no grammar"]),
        (references(), ["no store knows such a name"]),
        (impact(node()), []),
        (impact(known_in=[]), ["no store knows such a file or symbol"]),
        (impact(known_in=[], complete=False), []),
        (impact(), ["nothing is tied to it"]),
        (impact(node(), coverage=PARTIAL, truncated=True), ["box knows", "there are more"]),
        (protocol.ArchitectureResult("box", None), ["holds no report"]),
        (protocol.ArchitectureResult("box", {"a": 1}), []),
        (similar(), []),
        (similar("rank"), ["models or metrics differ"]),
        (chunk(), []),
        (protocol.ChunkResult([], False, True, FINE), ["no store has text at this line"]),
        (protocol.ChunkResult([], True, True, FINE), ["no store has", "more; narrow with --store"]),
    ],
)
def test_a_person_is_told_what_the_answer_alone_does_not_say(result: Any, noted: list[str]) -> None:
    said = text(render_code.notes(result))

    assert len(said) == len(noted)
    assert all(part in whole for part, whole in zip(noted, said, strict=True))


# --------------------------------------------------------------------------- hostile stores

NASTY_PLACE: dict[str, Any] = {"store": NASTY, "path": NASTY, "kind": NASTY}
RESULTS: list[tuple[Any, Any]] = [
    (render_code.symbols, symbols(symbol(**NASTY_PLACE, qualified=NASTY, signature=NASTY))),
    (
        render_code.references,
        references(reference(**NASTY_PLACE, target=NASTY, caller=NASTY, confidence=NASTY)),
    ),
    (render_code.impact, impact(node(**NASTY_PLACE, name=NASTY, via_edge=NASTY, via_confidence=NASTY))),
    (render_code.chunks, chunk(**NASTY_PLACE, text=NASTY, symbol=symbol(**NASTY_PLACE, qualified=NASTY))),
    (render_code.chunks, chunk(**NASTY_PLACE, text=f"{NASTY}\n{NASTY}", symbol=None)),
    (render_code.similar, similar(store=NASTY, id=NASTY, heading_path=NASTY, text=NASTY)),
    (render_code.architecture, protocol.ArchitectureResult("x", {NASTY: [NASTY, {NASTY: NASTY}]})),
    (render_code.notes, references(coverage=[protocol.PartialGraph(NASTY, [NASTY], NASTY)])),
]


@pytest.mark.parametrize(("shown", "result"), RESULTS)
def test_nothing_of_a_stores_text_reaches_a_terminal_as_it_is(shown: Any, result: Any) -> None:
    written = "".join(text(shown(result)))

    assert "\\x1b[2Jx\\u202ey\\x9b\\x07" in written
    assert {unicodedata.category(each) for each in written} & {"Cc", "Cf"} == set()


# --------------------------------------------------------------------------- what is typed


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        ("src/a.py:12", ("src/a.py", 12)),
        ("src/a.py:12:5", ("src/a.py", 12)),
        ("C:/a.py:12", ("C:/a.py", 12)),
        ("odd:name.py:7", ("odd:name.py", 7)),
        ("a.py:0", ("a.py", 0)),
    ],
)
def test_a_place_is_a_file_and_a_line(typed: str, place: tuple[str, int]) -> None:
    assert place_of(typed) == place


@pytest.mark.parametrize(
    "typed", ["", "a.py", "a.py:", ":12", "a.py:x", "a.py:-1", "a.py:²", "a:" + "9" * 20, "a:" + "9" * 5000]
)
def test_what_is_no_place_is_said_to_be_none(typed: str) -> None:
    with pytest.raises(CollatedError, match="is not FILE:LINE"):
        place_of(typed)


@pytest.mark.parametrize("content", [b"[1, -2.5, 1e3]", b" [1,\n-2.5,\r\n1000]\n"])
def test_a_vector_is_an_array_of_json(content: bytes) -> None:
    assert vector_of(content) == [1.0, -2.5, 1000.0]


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9))
def test_a_vector_is_raw_float32(numbers: list[float]) -> None:
    raw = struct.pack(f"<{len(numbers)}f", *numbers)

    if not raw.isascii():  # else it may be text
        assert vector_of(raw) == numbers


def test_raw_numbers_that_begin_like_an_array_are_numbers() -> None:
    raw = b"[\x00\x80\x3f" + b"\x00\x00\x80\x3f"

    assert vector_of(raw) == list(struct.unpack("<2f", raw))


@pytest.mark.parametrize(
    "content",
    [b"", b"123", b"[1, 2", b"[true, 1, 2]", b'["a"]', b"[[1, 2]]", b"[NaN, 1]", b'{"a": 1}', b"0.5 0.25"],
)
def test_what_is_no_vector_is_said_to_be_none(content: bytes) -> None:
    with pytest.raises(CollatedError, match="neither a JSON array"):
        vector_of(content)


def test_a_vector_longer_than_the_daemon_takes_is_not_sent() -> None:
    assert len(vector_of(b"[" + b"0," * (protocol.VECTOR_NUMBERS - 1) + b"1]")) == protocol.VECTOR_NUMBERS
    with pytest.raises(CollatedError, match="the vector has 65537 numbers, and 65536 are the most"):
        vector_of(b"[" + b"0," * protocol.VECTOR_NUMBERS + b"1]")
    with pytest.raises(CollatedError, match="no vector takes"):
        vector_of(bytes(1 << 22))


@pytest.mark.parametrize("typed", [["symbols", "get", "--limit"], ["read", "a:1", "--context"]])
def test_a_number_that_the_wire_cannot_carry_is_refused(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in ("9" * 20, "9" * 5_000, "x"):
        with pytest.raises(SystemExit) as ended:
            client_parser(typed[0]).parse_args([*typed, number])
        assert (ended.value.code, "Traceback" in capsys.readouterr().err) == (2, False)
