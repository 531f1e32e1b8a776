"""Questions about code over stores that answer, and fail, as they are told."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from collated.coding import inside
from collated.errors import RequestFailed
from collated.protocol import METHODS, SymbolsParams, SymbolsResult
from collated_readers import RequestError, StoreError
from collated_readers.code import (
    Chunk,
    Coverage,
    Impact,
    Node,
    Reference,
    References,
    Symbol,
    Symbols,
    SymbolTable,
)
from collated_readers.opening import StoreConnection

if TYPE_CHECKING:
    from tests.daemon.conftest import OpenCode, PutStore
    from tests.daemon.worlds import Assemble, CodeWorld

pytestmark = pytest.mark.anyio

ASKING: dict[str, dict[str, object]] = {
    "symbols": {"name": "get"},
    "references": {"name": "get"},
    "impact": {"target": "get"},
    "chunk": {"path": "a.py", "line": 3},
}
each_method = pytest.mark.parametrize("method", ASKING)


def symbol(name: str = "get", path: str = "a.py", line: int = 1) -> Symbol:
    return Symbol(name, f"Box.{name}", "method", path, line, line + 2, "5ha", f"def {name}(self):")


def reference(line: int = 4, path: str = "a.py") -> Reference:
    return Reference(path, line, "call", "extracted", "Box.get", "box", "main", "5ha")


def node(name: str = "main", distance: int = 1) -> Node:
    return Node("symbol", "a.py", name, 9, distance, "call", "extracted", "5ha")


CHUNK = Chunk("a.py#1", "a.py", 1, 3, "symbol_body", "def get(self):\n    ...\n", "5ha", symbol())
COVERAGE = Coverage(True, ("go",), "no grammar")
ANSWER: dict[str, Any] = {
    "symbols": Symbols((symbol(),), more=2),
    "references": References((reference(),), COVERAGE),
    "impact": Impact((node(),), ("a.py",), COVERAGE),
    "chunk": CHUNK,
}


async def ask(world: CodeWorld, method: str, **params: object) -> Any:
    """Ask as a session does, params by their names on the wire, and return the decoded result."""
    methods = world.parts.methods
    typed = msgspec.convert({**ASKING.get(method, {}), **params}, METHODS[method].params)
    encoded = await methods.answer(methods.codec("lines"), method, typed, None)
    return msgspec.json.decode(encoded, type=METHODS[method].result)


async def refused(world: CodeWorld, method: str, **params: object) -> RequestFailed:
    with pytest.raises(RequestFailed) as caught:
        await ask(world, method, **params)
    return caught.value


def rows(result: Any) -> list[Any]:
    """Return the list of a result, which is its first field."""
    found: list[Any] = getattr(result, result.__struct_fields__[0])
    return found


def failures(result: Any) -> dict[str, str]:
    return {failure.store: failure.code for failure in result.stores.failed}


# --------------------------------------------------------------------------- an answer


async def test_symbols_are_places_in_the_stores_that_have_them(code_world: OpenCode) -> None:
    opened = await code_world(
        {"a": ANSWER, "b": {}, "c": {"symbols": Symbols((symbol("get_all"),), "prefix")}}
    )

    result = await ask(opened, "symbols")

    (found,) = result.symbols
    assert (found.store, found.path, found.line_start, found.line_end, found.sha256) == (
        "a",
        "a.py",
        1,
        3,
        "5ha",
    )
    assert (found.name, found.qualified, found.kind, found.signature) == (
        *("get", "Box.get", "method"),
        "def get(self):",
    )
    assert (result.how, result.more, result.truncated, result.complete) == ("exact", 2, False, True)
    assert (result.stores.asked, result.stores.answered) == (3, 3)


async def test_symbols_are_those_of_the_bytes_that_lie_there_now(
    shared: Path, stores: Path, assemble: Assemble
) -> None:
    sources = shared / "data" / "codebase-index"
    shutil.copyfile(sources / "typer" / "index.sqlite", stores / "one.sqlite")
    parts = assemble()

    async def found(name: str) -> list[str]:
        await parts.look()
        await parts.inventory.all_opened()
        typed = SymbolsParams(name, exact=True)
        encoded = await parts.methods.answer(parts.methods.codec("lines"), "symbols", typed, None)
        return [each.path for each in msgspec.json.decode(encoded, type=SymbolsResult).symbols]

    for _ in range(2):
        assert (await found("Typer"), await found("BaseModel")) == (["typer/main.py"], [])

    shutil.copyfile(sources / "pydantic" / "index.sqlite", stores.parent / "other")
    (stores.parent / "other").rename(stores / "one.sqlite")

    assert (await found("Typer"), await found("BaseModel")) == (
        [],
        ["pydantic/main.py", "pydantic/v1/main.py"],
    )


class Table(SymbolTable, frozen=True):
    """Has one symbol, called as the thread that looks it up."""

    many: int

    @property
    def size(self) -> int:
        """Say how many there are."""
        return self.many

    def find(self, name: str, limit: int, *, exact: bool) -> Symbols:
        """Find the one."""
        return Symbols((symbol(threading.current_thread().name),))


@pytest.mark.parametrize(
    ("symbols", "limit", "is_here"), [(99, 50, True), (99_999, 50, False), (99, 1_000, False)]
)
async def test_the_loop_looks_up_no_more_symbols_than_it_has_time_for(
    code_world: OpenCode, symbols: int, limit: int, is_here: bool
) -> None:
    opened = await code_world({"a": {}, "b": {}, "c": {}})
    table = Table(symbols)

    def symbol_table(_: object) -> SymbolTable:
        return table

    vars(opened.coded)["symbol_table"] = symbol_table  # which makes it a `TabledReader`

    result = await ask(opened, "symbols", limit=limit)

    assert [each.name == threading.current_thread().name for each in result.symbols] == [is_here] * 3


async def test_references_say_by_whom_and_which_stores_know_but_a_part(code_world: OpenCode) -> None:
    nothing = References((), Coverage(True, (), "the store knows nothing called so"))
    opened = await code_world(
        {"b": ANSWER, "a": {"references": References((reference(2),))}, "c": {"references": nothing}}
    )

    result = await ask(opened, "references")

    assert [(each.store, each.path, each.line) for each in result.references] == [
        *[("a", "a.py", 2), ("b", "a.py", 4)]
    ]
    last = result.references[1]
    assert (last.kind, last.confidence, last.target, last.receiver, last.caller, last.sha256) == (
        *("call", "extracted", "Box.get"),
        *("box", "main", "5ha"),
    )
    assert [(each.store, each.languages, each.reason) for each in result.coverage] == [
        ("b", ["go"], "no grammar")
    ]


async def test_impact_says_which_stores_know_the_target(code_world: OpenCode) -> None:
    opened = await code_world(
        {"a": ANSWER, "b": {}, "c": {"impact": Impact((node("x"), node("run", 2)), ("a.py", "b.py"))}}
    )

    result = await ask(opened, "impact")

    assert [(each.store, each.name, each.distance) for each in result.nodes] == [
        *[("a", "main", 1), ("c", "x", 1), ("c", "run", 2)]
    ]
    assert [(each.store, each.path) for each in result.files] == [
        *[("a", "a.py"), ("c", "a.py"), ("c", "b.py")]
    ]
    assert result.known_in == ["a", "c"]
    assert [each.store for each in result.coverage] == ["a"]
    assert len((await ask(opened, "impact", limit=1)).nodes) == 1
    assert (await ask(opened, "impact", limit=1)).truncated


async def test_a_chunk_comes_from_each_store_that_has_the_place(code_world: OpenCode) -> None:
    opened = await code_world({"a": ANSWER, "b": {}, "c": ANSWER})

    result = await ask(opened, "chunk")

    assert [(each.ref, each.line_start, each.line_end) for each in result.chunks] == [
        *[("a:a.py#1", 1, 3), ("c:a.py#1", 1, 3)]
    ]
    (first, _) = result.chunks
    assert (first.text, first.kind, first.symbol.store, first.symbol.qualified) == (
        *(CHUNK.text, "symbol_body", "a", "Box.get"),
    )
    assert (result.complete, result.stores.asked, result.stores.answered) == (True, 3, 3)


async def test_a_store_that_is_named_must_have_the_place(code_world: OpenCode) -> None:
    opened = await code_world({"a": ANSWER, "b": {}})

    assert [each.ref for each in (await ask(opened, "chunk", store="a")).chunks] == ["a:a.py#1"]
    assert (await refused(opened, "chunk", store="b")).code == "unknown_id"
    assert (await refused(opened, "chunk", store="c")).code == "unknown_store"
    opened.coded.answers["a"] = {"chunk": StoreError("damaged", "it is broken")}
    assert (await refused(opened, "chunk", store="a")).code == "store_unavailable"


async def test_the_report_on_the_architecture_comes_as_it_is(code_world: OpenCode) -> None:
    report = {"modularity": 0.5, "god_nodes": [{"name": "get"}]}
    opened = await code_world({"a": {"architecture": report}, "b": {}})

    assert (await ask(opened, "architecture", store="a")).report == report
    assert (await ask(opened, "architecture", store="b")).report is None
    assert (await refused(opened, "architecture", store="c")).code == "unknown_store"


@pytest.mark.parametrize(
    "report", [{"n": 1 << 70}, {"text": "x" * (5 * 1024 * 1024)}, {"text": "half of a pair: \ud800"}]
)
async def test_a_report_that_cannot_be_sent_is_damage(code_world: OpenCode, report: dict[str, Any]) -> None:
    opened = await code_world({"a": {"architecture": report}})

    failed = await refused(opened, "architecture", store="a")

    assert (failed.code, "damaged" in failed.message) == ("store_unavailable", True)


# --------------------------------------------------------------------------- what is asked


async def test_what_is_asked_reaches_the_reader_within_its_limits(code_world: OpenCode) -> None:
    opened = await code_world({"a": {}})

    await ask(opened, "symbols", name="Box.get", exact=True, limit=9_999)
    await ask(opened, "references", kind="callers", path="a.py", limit=-1)
    await ask(opened, "references", path="")
    await ask(opened, "impact", direction="both", depth=99)
    await ask(opened, "chunk", path="b.py", line=7)

    assert opened.coded.asked == [
        ("symbols", ("Box.get", 1_000, True)),
        ("references", ("get", "callers", "a.py", 1)),
        ("references", ("get", "all", None, 50)),
        ("impact", ("get", "both", 10)),
        ("chunk", ("b.py", 7)),
    ]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("symbols", {"name": ""}),
        ("references", {"name": ""}),
        ("impact", {"target": ""}),
        ("chunk", {"path": ""}),
        ("chunk", {"line": 0}),
        ("symbols", {"formats": ["pdf"]}),
    ],
)
async def test_what_means_nothing_is_refused(
    code_world: OpenCode, method: str, params: dict[str, object]
) -> None:
    assert (await refused(await code_world({"a": {}}), method, **params)).code == "invalid_params"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("symbols", {"name": "n" * 5_000}),
        ("references", {"name": "n" * 5_000}),
        ("references", {"name": "n", "path": "p" * 5_000}),
        ("impact", {"target": "n" * 5_000}),
        ("chunk", {"path": "p" * 5_000, "line": 1}),
        ("vectors.search", {"vector": [1.0] * 65_537}),
        ("vectors.search", {"vector": [1.0], "model": "m" * 5_000}),
    ],
)
def test_what_is_too_long_to_be_looked_for_on_the_loop_is_refused(
    method: str, params: dict[str, object]
) -> None:
    with pytest.raises(msgspec.ValidationError, match="of length <="):
        msgspec.convert(params, METHODS[method].params)


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/home/me/box/src/a.py", "/home/me/box", "src/a.py"),
        ("/home/me/box/src/a.py", "/home/me/bo", "/home/me/box/src/a.py"),
        ("/home/me/box/src/a.py", None, "/home/me/box/src/a.py"),
        ("src/a.py", "/home/me/box", "src/a.py"),
        ("/a.py", "/", "a.py"),
    ],
)
def test_an_absolute_path_is_taken_as_one_of_its_project(path: str, root: str | None, expected: str) -> None:
    assert inside(path, root) == expected


async def test_only_the_stores_that_are_named_are_asked(code_world: OpenCode) -> None:
    opened = await code_world({"a": ANSWER, "b": ANSWER})

    for method in ("symbols", "references", "impact"):
        assert {each.store for each in rows(await ask(opened, method, stores=["b"]))} == {"b"}
        assert opened.coded.calls["a", method] == 0


async def test_stores_of_other_formats_are_skipped(
    assemble: Assemble, stores: Path, put_store: PutStore
) -> None:
    put_store(stores / "fruit.sqlite", "fruit")
    parts = assemble()
    await parts.look()
    methods = parts.methods

    for method, params in ASKING.items():
        typed = msgspec.convert(params, METHODS[method].params)
        encoded = await methods.answer(methods.codec("lines"), method, typed, None)
        result = msgspec.json.decode(encoded, type=METHODS[method].result)
        assert (rows(result), result.complete) == ([], True)
        assert (result.stores.asked, result.stores.answered, result.stores.skipped) == (1, 0, 1)
    typed = msgspec.convert({**ASKING["chunk"], "store": "fruit"}, METHODS["chunk"].params)
    with pytest.raises(RequestFailed) as caught:
        await methods.answer(methods.codec("lines"), "chunk", typed, None)
    assert caught.value.code == "unsupported"


# --------------------------------------------------------------------------- stores that fail


@each_method
async def test_a_store_that_fails_is_named_and_hides_no_other(code_world: OpenCode, method: str) -> None:
    opened = await code_world({"a": ANSWER, "b": {method: StoreError("damaged", "it is broken")}})

    result = await ask(opened, method)

    assert [each.store for each in rows(result)] == ["a"]
    assert (result.complete, failures(result)) == (False, {"b": "damaged"})


async def test_a_store_without_symbols_says_so_however_often_and_is_asked_all_else(
    code_world: OpenCode,
) -> None:
    missing = StoreError("symbols_missing", "it was made without symbols")
    opened = await code_world({"a": {"symbols": missing, "chunk": CHUNK}, "b": ANSWER})

    for limit in range(1, 9):
        result = await ask(opened, "symbols", limit=limit)
        assert (failures(result), result.complete) == ({"a": "symbols_missing"}, False)
        assert result.stores.failed[0].message == "it was made without symbols"

    assert [each.store for each in (await ask(opened, "chunk")).chunks] == ["a", "b"]


@each_method
async def test_what_a_reader_finds_wrong_with_the_request_is_its_error(
    code_world: OpenCode, method: str
) -> None:
    opened = await code_world({"a": {method: RequestError("invalid_params", "no")}, "b": ANSWER})

    assert (await refused(opened, method)).code == "invalid_params"


@each_method
async def test_a_store_that_changes_while_it_is_asked_is_asked_again(
    code_world: OpenCode, method: str
) -> None:
    def change(db: StoreConnection) -> None:
        if opened.coded.calls["a", method] == 1:
            opened.coded.answers["a"] = ANSWER
            opened.touch("a")

    opened = await code_world({"a": {}})
    opened.coded.acts["a", method] = change

    result = await ask(opened, method)

    assert [each.store for each in rows(result)] == ["a"]
    assert (result.complete, opened.coded.calls["a", method]) == (True, 2)


@each_method
async def test_a_store_that_turns_into_one_of_another_format_does_not_answer(
    code_world: OpenCode, method: str
) -> None:
    def change(db: StoreConnection) -> None:
        opened.coded.recognises = lambda *_: False  # type: ignore[method-assign]  # it is plain from now on
        opened.touch("a")

    opened = await code_world({"a": ANSWER})
    opened.coded.acts["a", method] = change

    assert failures(await ask(opened, method)) == {"a": "vanished"}


@pytest.mark.parametrize("method", ["chunk", "architecture"])
async def test_a_store_that_is_named_and_turns_into_another_format_is_the_failure(
    code_world: OpenCode, method: str
) -> None:
    def change(db: StoreConnection) -> None:
        opened.coded.recognises = lambda *_: False  # type: ignore[method-assign]  # it is plain from now on
        opened.touch("a")

    opened = await code_world({"a": ANSWER})
    opened.coded.acts["a", method] = change

    failed = await refused(opened, method, store="a")

    assert (failed.code, "vanished" in failed.message) == ("store_unavailable", True)


# --------------------------------------------------------------------------- what is remembered


@pytest.mark.parametrize("method", ["symbols", "references", "impact"])
async def test_a_store_that_did_not_change_is_not_asked_the_same_again(
    code_world: OpenCode, method: str
) -> None:
    opened = await code_world({"a": ANSWER, "b": ANSWER})
    before = await ask(opened, method)

    opened.touch("b")
    await opened.parts.inventory.look(now=True)
    after = await ask(opened, method)

    assert after == before
    assert [opened.coded.calls[store, method] for store in "ab"] == [1, 2]
    await ask(opened, method, limit=3) if method != "impact" else await ask(opened, method, depth=3)
    assert opened.coded.calls["a", method] == 2


@each_method
async def test_an_answer_is_remembered_until_a_store_changes(code_world: OpenCode, method: str) -> None:
    opened = await code_world({"a": ANSWER})
    methods = opened.parts.methods
    codec, typed = methods.codec("lines"), msgspec.convert(ASKING[method], METHODS[method].params)
    assert methods.remembered(codec, method, typed) is None

    encoded = await methods.answer(codec, method, typed, None)

    assert methods.remembered(codec, method, typed) == encoded
    opened.touch("a")
    await opened.parts.inventory.look(now=True)
    assert methods.remembered(codec, method, typed) is None


# --------------------------------------------------------------------------- sizes


def long_chunk(characters: int) -> Chunk:
    return msgspec.structs.replace(CHUNK, text="x" * characters)


async def test_an_answer_is_cut_before_it_grows_beyond_all_bounds(code_world: OpenCode) -> None:
    large = 3 * 1024 * 1024
    opened = await code_world({"a": {"chunk": long_chunk(large)}, "b": {"chunk": long_chunk(large)}})

    result = await ask(opened, "chunk")

    assert ([each.store for each in result.chunks], result.truncated) == (["a"], True)
    assert not (await ask(opened, "chunk", store="b")).truncated
