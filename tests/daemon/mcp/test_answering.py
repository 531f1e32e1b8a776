"""Answers have the wire's own fields, a size, and what to do next; their schemas tell no lies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from jsonschema import Draft202012Validator
from msgspec import inspect

from collated.client import DaemonUnreachable
from collated.errors import CODES, RequestFailed
from collated.mcp.answering import answered, refused
from collated.mcp.tools import METHOD_OF, TOOLS
from collated.protocol import (
    METHODS,
    Answered,
    ArchitectureResult,
    ContextRecord,
    ContextTable,
    Failure,
    GrepResult,
    Hit,
    IndexResult,
    Match,
    NeighboursResult,
    ReadResult,
    Record,
    SearchResult,
    StoresResult,
    StoreStatus,
    SymbolsResult,
)
from collated_readers import RequestError

MakeStatus = Callable[..., StoreStatus]
IsPlain = Callable[[str], bool]

NOW = 1_796_126_400.0  # 2026-12-01T12:00:00Z
NASTY = "\x1b[2J\x85\u202eevil\u2028"
ALL = Answered(asked=2, answered=2)


def record(kind: type[Any] = Record, text: str = "text", number: int = 1, **more: Any) -> Any:
    about = ("docs", f"a.md#{number}", f"docs:a.md#{number}", "contextpull", "a.md", "A > B", "text", text)
    return kind(*about, None, None, **more)


def hit(store: str = "docs", snippet: str = "a **word**") -> Hit:
    return Hit(store, "a.md#1", f"{store}:a.md#1", "contextpull", "a.md", "A", snippet, 1.5, "text", "all")


def match(line: str = "a line") -> Match:
    return Match("docs", "a.md#1", "docs:a.md#1", "a.md", "A", line)


def found(*hits: Hit, stores: Answered = ALL, hint: str | None = None) -> SearchResult:
    return SearchResult(list(hits), "lexical", hint, not stores.failed, stores)


# ------------------------------------------------------------------- what is in an answer


def test_a_hit_is_the_wires_own_and_its_store_says_how_fresh_it_is(status: MakeStatus) -> None:
    known = {"docs": status("docs", ingested_at="2026-11-28T12:00:00Z"), "notes": status("notes")}
    answer = answered("search", found(hit(), hit("notes")), known, NOW)

    assert not answer.is_error
    assert answer.structured == {
        **msgspec.to_builtins(found(hit(), hit("notes"))),
        "freshness": {"docs": "ingested 3 days ago"},
        "next": 'read(id="docs:a.md#1") gives the text of a hit; cite its ref.',
    }
    assert json.loads(answer.text) == answer.structured


def test_only_stores_in_the_answer_are_said_to_be_fresh(status: MakeStatus) -> None:
    known = {name: status(name, ingested_at="2026-11-28T12:00:00Z") for name in ("docs", "notes", "late")}
    failed = Answered(asked=2, answered=1, failed=[Failure("late", "busy", "locked")])

    assert set(answered("search", found(hit(), stores=failed), known, NOW).structured["freshness"]) == {
        "docs"
    }
    assert "freshness" not in answered("search", found(), known, NOW).structured
    assert "freshness" not in answered("search", found(hit("gone")), known, NOW).structured


def test_who_did_not_answer_is_named() -> None:
    failures = [Failure(f"s{number}", "busy", "locked") for number in range(7)]
    some = found(hit(), stores=Answered(asked=8, answered=1, failed=failures))
    structured = answered("search", some, {}, NOW).structured

    assert structured["complete"] is False
    assert len(structured["stores"]["failed"]) == 7
    assert structured["next"].startswith("Not all stores answered: s0 (busy), s1 (busy)")
    assert "s4 (busy) and 2 more; ask again" in structured["next"]


@pytest.mark.parametrize(
    ("name", "result", "said"),
    [
        ("search", found(), "Nothing matched"),
        ("search", found(stores=Answered(0, 0)), "There is no store to ask: call stores."),
        ("grep", GrepResult([], False, True, ALL), "No line matched"),
        ("grep", GrepResult([match()], False, True, ALL), 'read(id="docs:a.md#1")'),
        ("grep", GrepResult([match()], True, True, ALL), "More match"),
        ("read", record(ReadResult, context=[]), "Cite it as [docs:a.md#1]"),
        ("neighbours", NeighboursResult([record()], None), "Cite a record by its ref"),
        ("symbols", SymbolsResult([], None, 0, False, True, ALL), "No such definition"),
        ("architecture", ArchitectureResult("code", None), "no report"),
        ("tables", {"tables": []}, "query(store, sql)"),
    ],
)
def test_it_says_what_to_do_next(name: str, result: Any, said: str) -> None:
    assert said in answered(name, result, {}, NOW).structured["next"]


def test_a_store_that_cannot_match_was_asked_all_the_same() -> None:
    structured = answered("search", found(stores=Answered(0, 0, skipped=3)), {}, NOW).structured

    assert structured["next"].startswith("Nothing matched")


def test_a_very_long_ref_is_not_repeated() -> None:
    long = msgspec.structs.replace(hit(), ref="docs:" + "x" * 10_000)

    assert len(answered("search", found(long), {}, NOW).structured["next"]) < 200


def test_the_contents_of_a_store_are_text_and_of_several_a_line_each(status: MakeStatus) -> None:
    answer = answered("index", IndexResult("head\na.md  (1)"), {}, NOW)
    assert (answer.structured, answer.text) == ({"text": "head\na.md  (1)"}, "head\na.md  (1)")

    lines = answered("index", StoresResult([status("docs"), status("old", reason="torn")]), {}, NOW).text
    assert lines.splitlines() == [
        f"{'docs':<30}  contextpull  2 documents · 7 records",
        f"{'old':<30}  contextpull  refused: torn",
    ]
    assert answered("index", StoresResult([]), {}, NOW).text == "no stores"


def test_a_store_that_a_result_does_not_name_is_as_fresh_as_the_one_that_was_asked(
    status: MakeStatus,
) -> None:
    known = {"docs": status("docs", ingested_at="2026-11-28T12:00:00Z")}
    contents = answered("index", IndexResult("a.md  (1)"), known, NOW, "docs")
    rows = answered("query", ContextTable(columns=["n"], rows=[[1]], truncated=True), known, NOW, "docs")

    assert contents.structured == {"text": "a.md  (1)", "freshness": {"docs": "ingested 3 days ago"}}
    assert contents.text == "a.md  (1)"
    assert rows.structured["freshness"] == {"docs": "ingested 3 days ago"}
    assert "count and sum in SQL" in rows.structured["next"]


def test_stores_are_listed_with_the_tools_that_they_answer(status: MakeStatus) -> None:
    docs = status("docs", "search", "context.query", "context.file", ingested_at="2026-12-01T12:00:00Z")
    old = status("old", reason="torn")
    structured = answered("stores", StoresResult([docs, old]), {}, NOW).structured

    assert structured["stores"][0] == {
        "name": "docs",
        "format": "contextpull",
        "state": "open",
        "freshness": "ingested just now",
        "documents": 2,
        "records": 7,
        "capabilities": ["query", "search"],
        "reason": None,
    }
    assert structured["stores"][1]["reason"] == {"code": "damaged", "message": "torn"}
    assert "/p/" not in json.dumps(structured)


# --------------------------------------------------------------------------------- sizes


def test_a_record_of_ten_megabytes_is_cut_and_says_how_to_get_on() -> None:
    context = [record(ContextRecord, "after", 2)]
    answer = answered("read", record(ReadResult, "é" * 10_000_000, context=context), {}, NOW)

    assert answer.structured["text"] == "é" * 100_000
    assert answer.structured["context"][0]["text"] == ""
    assert answer.structured["cut"] == [
        {"ref": "docs:a.md#1", "shown": 100_000, "characters": 10_000_000},
        {"ref": "docs:a.md#2", "shown": 0, "characters": 5},
    ]
    assert "cut after 100,000 characters: grep(pattern, in=[doc])" in answer.structured["next"]
    assert len(answer.text) < 102_000


def test_a_record_that_just_fits_is_whole() -> None:
    answer = answered("read", record(ReadResult, "x" * 100_000, context=[]), {}, NOW)

    assert len(answer.structured["text"]) == 100_000
    assert "cut" not in answer.structured


def test_neighbours_share_the_room_in_their_order() -> None:
    texts = NeighboursResult([record(text="x" * 60_000, number=n) for n in (1, 2)], record(text="head"))
    structured = answered("neighbours", texts, {}, NOW).structured

    assert [len(each["text"]) for each in structured["records"]] == [60_000, 40_000]
    assert [each["ref"] for each in structured["cut"]] == ["docs:a.md#2", "docs:a.md#1"]


def test_a_long_line_and_a_long_snippet_are_cut() -> None:
    lines = answered("grep", GrepResult([match("y" * 50_000)], False, True, ALL), {}, NOW).structured
    hits = answered("search", found(hit(snippet="z" * 50_000)), {}, NOW).structured

    assert lines["matches"][0]["line"] == "y" * 999 + "…"
    assert hits["hits"][0]["snippet"] == "z" * 999 + "…"


def test_of_a_large_report_the_parts_that_fit_are_shown() -> None:
    report = {"modules": ["m"], "files": ["f" * 1_000] * 1_000, "hubs": ["h"]}
    structured = answered("architecture", ArchitectureResult("code", report), {}, NOW).structured

    assert structured["report"] == {"modules": ["m"], "hubs": ["h"]}
    assert [each["part"] for each in structured["cut"]] == ["files"]


def test_contents_that_are_too_long_say_how_to_see_the_rest() -> None:
    answer = answered("index", IndexResult("a.md\n" * 100_000), {}, NOW)

    assert len(answer.structured["text"]) == 100_000
    assert answer.structured["cut"] == [{"shown": 100_000, "characters": 500_000}]
    assert answer.text.splitlines()[-1] == answer.structured["next"]
    assert "index(prefix, stores=[NAME])" in answer.structured["next"]


# ------------------------------------------------------------------------------ hostility


def test_what_a_terminal_would_obey_is_escaped_in_the_text_and_kept_in_the_data() -> None:
    answer = answered("search", found(hit(snippet=NASTY)), {}, NOW)

    assert answer.structured["hits"][0]["snippet"] == NASTY
    assert answer.text.isprintable()
    assert json.loads(answer.text) == answer.structured

    contents = answered("index", IndexResult(f"a\n{NASTY}\n"), {}, NOW)
    assert contents.structured == {"text": f"a\n{NASTY}\n"}
    assert contents.text == "a\n[2Jevil\n"


def test_half_a_surrogate_pair_is_replaced() -> None:
    answer = answered("read", record(ReadResult, "a\ud800b\udfff", context=[]), {}, NOW)

    assert answer.structured["text"] == "a\ufffdb\ufffd"
    assert json.dumps(answer.structured, ensure_ascii=False).encode()
    assert answered("index", IndexResult("\ud800"), {}, NOW).structured == {"text": "\ufffd"}
    assert refused(RequestError("invalid_params", "\ud800")).text.encode()


# -------------------------------------------------------------------------------- errors


def test_an_error_is_its_message_its_code_and_what_to_do() -> None:
    answer = refused(RequestFailed("unknown_id", "no record 'x'", "search for it first"))

    assert answer.is_error
    assert answer.structured == {
        "error": "no record 'x'",
        "code": "unknown_id",
        "suggestion": "search for it first",
    }
    assert json.loads(answer.text) == answer.structured


@pytest.mark.parametrize(
    ("code", "suggestion", "instead"),
    [
        ("unknown_store", "`collate stores` lists them", "stores lists those that there are"),
        ("deadline_exceeded", "raise deadline_ms", "ask again, or narrow with stores= or in="),
        ("ReadResponseTooLarge", "raise max_response_bytes", "ask for fewer columns, or for one table"),
        ("internal", "`collate doctor` says why", "`collate doctor` says why"),
    ],
)
def test_what_only_a_person_can_do_is_not_suggested_where_a_model_can_help_itself(
    code: str, suggestion: str, instead: str
) -> None:
    assert refused(RequestFailed(code, "no", suggestion)).structured["suggestion"] == instead


@pytest.mark.parametrize("code", [code for code in CODES if CODES[code].is_retryable])
def test_what_may_pass_is_to_be_asked_again(code: str) -> None:
    assert "ask again" in refused(RequestFailed(code, "no")).structured["suggestion"]


def test_a_daemon_that_is_gone_is_an_error_too() -> None:
    answer = refused(DaemonUnreachable("nothing listens"))

    assert (answer.is_error, answer.structured["error"]) == (True, "nothing listens")
    assert answer.structured["suggestion"]


# ------------------------------------------------------------------------------- schemas

TEXT = st.text(st.characters(), max_size=8)  # halves of surrogate pairs among them
LEAVES: dict[type[Any], SearchStrategy[Any]] = {
    inspect.StrType: TEXT,
    inspect.IntType: st.integers(-(2**53) + 1, 2**53 - 1),
    inspect.FloatType: st.floats(allow_nan=False, allow_infinity=False),
    inspect.BoolType: st.booleans(),
    inspect.NoneType: st.none(),
    inspect.AnyType: st.none() | st.integers(0, 9) | TEXT | st.lists(st.booleans(), max_size=2),
}


def made(kind: inspect.Type) -> SearchStrategy[Any]:
    """Return what JSON of the wire's type *kind* may be."""
    if isinstance(kind, inspect.StructType):
        return made_struct(kind)
    if isinstance(kind, inspect.UnionType):
        return st.one_of(*map(made, kind.types))
    if isinstance(kind, inspect.ListType):
        return st.lists(made(kind.item_type), max_size=3)
    if isinstance(kind, inspect.DictType):
        return st.dictionaries(TEXT, made(kind.value_type), max_size=3)
    return st.sampled_from(kind.values) if isinstance(kind, inspect.LiteralType) else LEAVES[type(kind)]


def made_struct(kind: inspect.StructType) -> SearchStrategy[Any]:
    needed = {field.encode_name: made(field.type) for field in kind.fields if field.required}
    optional = {field.encode_name: made(field.type) for field in kind.fields if not field.required}
    return st.fixed_dictionaries(needed, optional=optional)


RESULTS = st.sampled_from(sorted(TOOLS)).flatmap(
    lambda name: st.tuples(st.just(name), made(inspect.type_info(METHODS[METHOD_OF[name]].result)))
)


@given(RESULTS)
def test_whatever_the_daemon_answers_fits_the_schema_that_is_announced(
    status: MakeStatus, is_plain: IsPlain, answer: tuple[str, Any]
) -> None:
    name, value = answer
    result = msgspec.convert(value, METHODS[METHOD_OF[name]].result)
    known = {"": status("", ingested_at="2026-11-28T12:00:00Z")}

    given = answered(name, result, known, NOW)

    validator = Draft202012Validator(TOOLS[name].output_schema)
    validator.validate(given.structured)  # pyright: ignore[reportUnknownMemberType] - partial stubs
    assert json.dumps(given.structured, ensure_ascii=False).encode()
    if name == "index":
        assert all(map(is_plain, given.text.split("\n")))
    else:
        assert is_plain(given.text)
        assert json.loads(given.text) == given.structured


@given(message=TEXT, suggestion=st.none() | TEXT)
def test_every_error_can_be_sent(is_plain: IsPlain, message: str, suggestion: str | None) -> None:
    answer = refused(RequestError("invalid_params", message, suggestion))

    assert answer.structured.keys() == {"error", "code", "suggestion"}
    assert is_plain(answer.text)
    assert json.loads(answer.text.encode()) == answer.structured
