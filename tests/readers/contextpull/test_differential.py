"""The contextpull reader beside the reference itself, on corpora that hypothesis makes up."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from contextpull.ops import Ops, OpsError, _glob_clause  # type: ignore[import-untyped]  # the package has no types
from contextpull.store import Store  # type: ignore[import-untyped]  # the package has no types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collated_readers import Budget
from collated_readers.opening import StoreConnection, open_store

MakeStore = Callable[..., Path]
Call = Callable[..., Any]

TOOLS: Any = import_module("contextpull.tools")
UNCHECKED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
HINTS = {
    "no searchable words in query": "no searchable words",
    "no embeddings in store; ran lexical": "no embeddings in store",
}

# Words that tokenisers, cases and separators are known to trip over, and few enough to tie often.
WORDS = (
    *("zebra", "Zebra", "ZEBRA", "needle", "tx-4419", "TX-4501", "--no-cache", "cache.", "e.g.", "3.12"),
    *(
        "tool.uv.sources",
        "a__b",
        "_p_",
        "-x-",
        "don't",
        "C++",
        "-",
        "---",
        "|",
        "**",
        "`code`",
        "\x0b",
        "\x1c",
    ),
    *("Äpfel", "äpfel", "ÄPFEL", "résumé", "re\u0301sume\u0301", "300\u212a", "Kelvin", "İstanbul"),
    *("ΣΊΣΥΦΟΣ", "Σίσυφος", "日本語", "これは日本語です。", "ﬁle", "½", "x²", "Ⅷ", "🤖bot", "😀", "ᏣᎳᎩ"),
    *("\x0b", "\x1c", "\u200b", "a\u200bb", "\ue000", "\u2028"),
)
NAMES = ("a.md", "b.txt", "dir/a.md", "dir/sub/c.md", "dir2/d.md", "x#1.md", "[d].md", "q?.md", "ünder/ä.md")
FILTERS = (
    *NAMES,
    "dir",
    "dir/",
    "dir//",
    "*",
    "*.md",
    "dir/*",
    "[a-d]*",
    "[^a]*",
    "d?r",
    "nope",
    "[",
    "",
    "DIR",
)


def _table(parts: tuple[str, int, bool]) -> str:
    cell, rows, has_bars = parts
    lines = ["Code | Meaning", "--- | ---", *(f"{cell} {row} | value {row}" for row in range(rows))]
    return "\n".join(f"| {line} |" if has_bars else line for line in lines)


table = st.tuples(st.sampled_from(["zebra", "TX-45"]), st.integers(0, 40), st.booleans()).map(_table)


def _corpus(words: tuple[str, ...]) -> st.SearchStrategy[dict[str, str]]:
    word = st.sampled_from(words)
    sentence = st.lists(word, min_size=1, max_size=12).map(" ".join)
    paragraph = st.lists(sentence, min_size=1, max_size=4).map("\n".join)
    heading = st.tuples(st.integers(1, 4), sentence).map(lambda parts: f"{'#' * parts[0]} {parts[1]}")
    fence = sentence.map(lambda text: f"```\n{text}\n```")
    block = heading | heading | paragraph | table | fence
    document = st.lists(block, min_size=1, max_size=10).map("\n\n".join)
    # One text under several names makes whole documents tie.
    return st.tuples(st.lists(document, min_size=1, max_size=3), st.permutations(NAMES)).flatmap(
        lambda made: st.fixed_dictionaries({name: st.sampled_from(made[0]) for name in made[1][:5]})
    )


corpora = _corpus(WORDS) | _corpus(tuple(word for word in WORDS if word.isascii()))
word = st.sampled_from(WORDS)
query = st.lists(word, max_size=4).map(" ".join) | st.text(max_size=12)
within = st.none() | st.lists(st.sampled_from(FILTERS), max_size=3)
search_args = st.fixed_dictionaries(
    {
        "query": query,
        "limit": st.sampled_from([-1, 0, 1, 2, 3, 5, 10, 49, 50, 51]),
        "in": within,
        "mode": st.sampled_from(["lexical", "lexical", "hybrid"]),
    }
)
pattern = (
    word
    | st.sampled_from(["e", "E", "tx-45", "value 1", " ", "\n", "a\nb", "%", "_", "z" * 200])
    | st.text(min_size=1, max_size=3)
)
limit = st.sampled_from([0, 1, 3, 20, 100, 101])
regexes = st.sampled_from(["z.bra", "^Code", r"\d+$", "[a-c]+", r"(?:tx|TX)-\d", "^$", ""])
grep_args = st.fixed_dictionaries({"pattern": pattern, "limit": limit, "in": within}) | st.fixed_dictionaries(
    {"pattern": regexes, "limit": limit, "in": within, "regex": st.just(True)}
)


class Pair(NamedTuple):
    """One store, open in both."""

    ours: StoreConnection
    reference: Ops


@contextmanager
def _pair(folder: Path, make_store: MakeStore, documents: Mapping[str, str]) -> Generator[Pair, None, None]:
    path = make_store(folder / "store.sqlite", documents, rollback=True, max_chars=300, min_chars=20)
    budget = Budget.lasting(60)
    ours = open_store(path, copies=folder / "copies", copy_limit_bytes=0, budget=budget)
    with closing(ours), Store.open(path) as store:
        yield Pair(ours, Ops(store))
    path.unlink()


def _reference(ops: Ops, tool: str, args: dict[str, Any]) -> Any:
    answer: Any
    try:
        answer = TOOLS.call(ops, tool, args)
    except OpsError as error:
        return {"error": error.message, "suggestion": error.suggestion}
    return {**answer, "hint": HINTS.get(answer["hint"], answer["hint"])} if tool == "search" else answer


def _check_search(pair: Pair, call: Call, args: dict[str, Any]) -> None:
    assert call(pair.ours, "search", args) == _reference(pair.reference, "search", args), args


def _check_grep(pair: Pair, call: Call, args: dict[str, Any]) -> None:
    answer = call(pair.ours, "grep", args)
    reference = _reference(pair.reference, "grep", args)
    if "error" in reference or args.get("regex"):
        assert answer == reference, args
        return
    expected = list(_grepped(pair.ours, args["pattern"], args["in"]))
    limit = max(1, min(args["limit"], 100))
    assert answer == {"matches": expected[:limit], "truncated": len(expected) > limit}, args
    texts = [text for (text,) in pair.ours.execute("SELECT text FROM sections")]
    if all(text.isascii() for text in (args["pattern"], *texts)):  # else it goes by Python's letters
        assert answer == reference, args


def _grepped(db: StoreConnection, pattern: str, within: list[str] | None) -> Iterator[dict[str, str]]:
    """The seed's letter, left to SQLite: lower() on both sides, for the section and for its line."""
    holds = "instr(lower({}), lower(?)) > 0"
    clause, arguments = _glob_clause(within)
    sql = f"SELECT s.id, d.path, s.heading_path, s.text FROM sections s JOIN documents d USING (doc_id) WHERE {holds.format('s.text')} {clause} ORDER BY s.id"  # noqa: E501, S608 - a test's own text
    for record_id, doc, heading_path, text in db.execute(sql, (pattern, *arguments)):
        for line in text.splitlines():
            if db.execute(f"SELECT {holds.format('?')}", (line, pattern)).fetchone()[0]:
                yield {"id": record_id, "doc": doc, "heading_path": heading_path, "line": line.strip()}
                break


def _check_by_id(pair: Pair, call: Call, steps: int) -> None:
    for record_id, text in pair.ours.execute("SELECT id, text FROM sections").fetchall():
        args = {"id": record_id, "context": steps, "before": steps, "after": steps - 1}
        # The writer gives every part of a table its header; the reference adds another one's to some.
        expected = {**_reference(pair.reference, "read", args), "text": text}
        assert call(pair.ours, "read", args) == expected, args
        assert call(pair.ours, "neighbours", args) == _reference(pair.reference, "neighbours", args), args


def _check_index(pair: Pair, call: Call) -> None:
    for prefix in (None, "", "dir", "dir/", "x#1.md", "[d", "q?", "ünd", "%", "nope"):
        args = {"prefix": prefix}
        assert call(pair.ours, "index", args) == _reference(pair.reference, "index", args), args


def _compare(folder: Path, make_store: MakeStore, call: Call, data: st.DataObject) -> None:
    documents = data.draw(corpora)
    if not any(text.strip() for text in documents.values()):
        return
    with _pair(folder, make_store, documents) as pair:
        for args in data.draw(st.lists(search_args, min_size=10, max_size=20)):
            _check_search(pair, call, args)
        for args in data.draw(st.lists(grep_args, min_size=5, max_size=10)):
            _check_grep(pair, call, args)
        _check_by_id(pair, call, data.draw(st.integers(0, 6)))
        _check_index(pair, call)


@given(data=st.data())
@settings(max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=UNCHECKED)
def test_every_operation_answers_as_the_reference_does(
    tmp_path_factory: pytest.TempPathFactory, make_store: MakeStore, call: Call, data: st.DataObject
) -> None:
    _compare(tmp_path_factory.mktemp("pair"), make_store, call, data)


@pytest.mark.slow
@pytest.mark.timeout(600)
@given(data=st.data())
@settings(max_examples=200, deadline=None, database=None, suppress_health_check=UNCHECKED)
def test_every_operation_answers_as_the_reference_does_at_length(
    tmp_path_factory: pytest.TempPathFactory, make_store: MakeStore, call: Call, data: st.DataObject
) -> None:
    _compare(tmp_path_factory.mktemp("pair"), make_store, call, data)
