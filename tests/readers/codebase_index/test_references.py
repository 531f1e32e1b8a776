"""Where names are used, beside the real program's recorded answers, and where an update left edges behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from collated_readers import Budget, StoreError
from collated_readers.code import Coverage, Reference, ReferenceKind, References
from collated_readers.codebase_index.references import references_of
from collated_readers.opening import StoreConnection, ask

CodeStore = Callable[[str], StoreConnection]
Recorded = Callable[[str, str], list[tuple[list[str], Any]]]
ALL = 1_000
SPOILT = "UPDATE edges SET {} = {} WHERE dst_name = 'echo'"
FIELDS = ("path", "line", "kind", "confidence", "target", "receiver", "caller")


def _references(
    db: StoreConnection, name: str, kind: ReferenceKind = "all", path: str | None = None, limit: int = ALL
) -> References:
    return ask(db, lambda db: references_of(db, name, kind, path, limit), Budget.lasting(30))


def _columns(reference: Reference) -> dict[str, Any]:
    return {name: getattr(reference, name) for name in FIELDS}


def _places(found: References) -> list[tuple[str, int, str]]:
    return [(one.path, one.line, one.kind) for one in found.references]


# ---------------------------------------------------------------- the real program's answers


@pytest.mark.parametrize("store", ["typer", "pydantic"])
def test_what_the_program_recorded_is_found_in_its_order(
    code_store: CodeStore, recorded: Recorded, store: str
) -> None:
    db = code_store(f"{store}/index.sqlite")
    for (name, *options), answer in recorded(store, "refs"):
        kind: ReferenceKind = "callers" if "callers" in options else "all"
        path = options[options.index("--path") + 1] if "--path" in options else None
        found = _references(db, name, kind, path)
        assert [_columns(one) for one in found.references] == answer["sites"], name
        assert found.coverage.is_partial == answer["coverage"]["partial"], name
        assert list(found.coverage.languages) == answer["coverage"]["languages"], name
        assert (found.coverage.reason is None) == (answer["coverage"]["reason"] is None), name
        assert not found.is_truncated, name


@pytest.mark.parametrize("name", ["echo", "Typer.command", "get_command"])
def test_a_limit_cuts_the_list_and_says_so(code_store: CodeStore, name: str) -> None:
    db = code_store("typer/index.sqlite")
    every = _references(db, name).references
    for limit in (1, 2, len(every) - 1, len(every), len(every) + 1):
        found = _references(db, name, limit=limit)
        assert found.references == every[:limit]
        assert found.is_truncated == (len(every) > limit)


def test_each_reference_has_the_hash_of_its_file(code_store: CodeStore) -> None:
    db = code_store("typer/index.sqlite")
    hashes = dict(db.execute("SELECT path, sha256 FROM files").fetchall())
    found = _references(db, "echo").references
    assert [one.sha256 for one in found] == [hashes[one.path] for one in found]


# ---------------------------------------------------------------- what is asked for


KINDS: dict[ReferenceKind, str] = {"definitions": "definition", "callers": "call"}


@pytest.mark.parametrize("kind", KINDS)
def test_definitions_and_callers_are_what_all_has_of_them(code_store: CodeStore, kind: ReferenceKind) -> None:
    db = code_store("typer/index.sqlite")
    every = _references(db, "get_command").references
    found = _references(db, "get_command", kind).references
    assert found == tuple(one for one in every if one.kind == KINDS[kind])
    assert found


@pytest.mark.parametrize(
    "path", ["typer", "typer/main.py", "typer/_click", "main.py", "typer/mai", "typer/_clic_"]
)
def test_a_path_is_a_file_or_a_folder_of_that_very_name(code_store: CodeStore, path: str) -> None:
    db = code_store("typer/index.sqlite")
    every = _references(db, "get_command").references
    found = _references(db, "get_command", path=path).references
    assert found == tuple(one for one in every if one.path == path or one.path.startswith(path + "/"))


def test_what_is_not_known_is_said_not_to_be(code_store: CodeStore) -> None:
    found = _references(code_store("typer/index.sqlite"), "nosuchname")
    assert found.references == ()
    assert found.coverage.is_partial
    assert "nosuchname" in (found.coverage.reason or "")


def test_a_language_that_is_known_in_part_is_named(small_store: Callable[[], Any]) -> None:
    store = small_store()
    file = store.file("a.lua", "lua")
    store.edge(file, store.symbol(file, "caller"), "called", store.symbol(file, "called"))
    assert references_of(store.db, "called", "all", None, 9).coverage.languages == ("lua",)
    store.symbol(store.file("a.md", "markdown", "line"), "heading")
    assert references_of(store.db, "heading", "all", None, 9).coverage == Coverage()


# ---------------------------------------------------------------- Owner.member


@pytest.fixture
def towns(small_store: Callable[[], Any]) -> Any:
    """A store with two types that have a member `refresh`, and calls of it on all sorts of things."""
    store = small_store()
    town, shop = store.file("src/town/Town.py"), store.file("src/Shop.py")
    mine = store.symbol(town, "refresh", 3, qualified="Town.refresh")
    other = store.symbol(shop, "refresh", 3, qualified="Shop.refresh")
    for path, lang in (
        ("z.py", "python"),
        ("src/town/near.py", "python"),
        ("src/far.py", "python"),
        ("a.go", "go"),
    ):
        file = store.file(path, lang)
        caller = store.symbol(file, "caller", 1, 90)
        store.edge(file, caller, "refresh", mine, line=10)
        store.edge(file, caller, "refresh", other, line=20)
        for line, receiver in enumerate(["Town", "town", "Shop", "TOWN", "Self", None], start=30):
            store.edge(file, caller, "refresh", line=line, dst_qualifier=receiver)
    return store


def test_calls_of_a_member_are_those_resolved_to_it_or_made_on_its_owner(towns: Any) -> None:
    found = references_of(towns.db, "Town.refresh", "all", None, ALL)
    sure = [place for place in _places(found) if place[2] != "possible_call"]
    assert sure == sorted(
        [
            ("src/town/Town.py", 3, "definition"),
            *(
                (path, line, "call")
                for path in ("a.go", "src/far.py", "src/town/near.py", "z.py")
                for line in (10, 30)
            ),
        ]
    )


def test_calls_on_what_nobody_knows_come_last_and_nearest_first(towns: Any) -> None:
    found = references_of(towns.db, "Town.refresh", "callers", None, ALL)
    possible = [place for place in _places(found) if place[2] == "possible_call"]
    # Not those on another type, nor in a language that does not call this one.
    assert possible == [
        (path, line, "possible_call")
        for path in ("src/town/near.py", "src/far.py", "z.py")
        for line in (31, 33, 34, 35)
    ]
    assert _places(found)[-len(possible) :] == possible
    assert found.coverage.is_partial
    assert "12 calls" in (found.coverage.reason or "")


@pytest.mark.parametrize("path", ["", "/", "/z.py", "..", "z.py/", "//z"])
def test_a_path_that_is_none_is_far_from_everything(towns: Any, path: str) -> None:
    towns.db.execute("UPDATE files SET path = ? WHERE path = 'z.py'", (path,))
    found = references_of(towns.db, "Town.refresh", "callers", None, ALL)
    assert found.references[-1].path == path


def test_a_limit_keeps_the_nearest_of_the_possible_calls(towns: Any) -> None:
    every = references_of(towns.db, "Town.refresh", "all", None, ALL).references
    for limit in range(1, len(every) + 2):
        found = references_of(towns.db, "Town.refresh", "all", None, limit)
        assert found.references == every[:limit]
        assert found.is_truncated == (limit < len(every))


# ---------------------------------------------------------------- edges that an update left behind (T2)


@pytest.mark.parametrize(("store", "lost"), [("typer_after_update", 20), ("typer_after_update_id_reuse", 65)])
def test_no_reference_names_another_target_than_its_edge_recorded(
    code_store: CodeStore, store: str, lost: int
) -> None:
    db = code_store(f"after_update/{store}.sqlite")
    stale = db.execute(
        "SELECT count(*) FROM edges AS e LEFT JOIN symbols AS s ON s.id = e.dst_id "
        "WHERE e.resolved = 1 AND e.dst_kind = 'symbol' AND s.name IS NOT e.dst_name"
    ).fetchone()
    assert stale == (lost,)
    names = [name for (name,) in db.execute("SELECT DISTINCT dst_name FROM edges WHERE dst_name IS NOT NULL")]
    for name in names:
        for one in _references(db, name, "callers").references:
            assert one.target is None or one.target.rpartition(".")[2] == name


def test_an_edge_that_lost_its_target_means_the_only_symbol_of_its_name(
    small_store: Callable[[], Any],
) -> None:
    store = small_store()
    file = store.file("a.py")
    caller, wrong = store.symbol(file, "caller"), store.symbol(file, "wrong")
    store.edge(file, caller, "called", wrong, line=1)
    store.edge(file, caller, "called", 999, line=2)

    def found(name: str) -> list[tuple[str | None, str | None]]:
        references = references_of(store.db, name, "callers", None, 9).references
        return [(one.target, one.confidence) for one in references]

    assert found("called") == [(None, "ambiguous")] * 2
    store.symbol(file, "called", qualified="Owner.called")
    assert found("called") == [("Owner.called", "inferred")] * 2
    assert found("Owner.called") == [("Owner.called", "inferred")] * 2
    store.symbol(file, "called", qualified="Other.called")
    assert found("called") == [(None, "ambiguous")] * 2
    assert found("wrong") == []


# ---------------------------------------------------------------- stores of other kinds


@pytest.mark.parametrize(
    ("store", "has_confidence", "has_receivers"),
    [
        ("typer_v1.2.1", False, False),
        ("typer_v1.2.1_vec64", False, False),
        ("typer_v1.4.0", False, False),
        ("typer_883d37c", False, False),
        ("typer_v1.5.0", True, False),
        ("typer_pypi-1.7.0", True, False),
        ("typer_pypi-2.0.0", True, False),
        ("typer_pypi-2.1.0", True, True),
        ("typer_v4_vec64_forced", True, True),
    ],
)
def test_old_stores_say_what_they_know(
    code_store: CodeStore, store: str, has_confidence: bool, has_receivers: bool
) -> None:
    newest = _places(_references(code_store("typer/index.sqlite"), "get_command"))
    found = _references(code_store(f"schema_versions/{store}.sqlite"), "get_command")
    assert _places(found) == newest
    calls = [one for one in found.references if one.kind == "call"]
    assert all((one.confidence is not None) == has_confidence for one in calls)
    assert any(one.receiver is not None for one in calls) == has_receivers


def test_what_a_writer_has_just_committed_is_found(code_store: CodeStore) -> None:
    db = code_store("live_wal/index.sqlite")
    name = db.execute("SELECT name FROM symbols ORDER BY id DESC LIMIT 1").fetchone()[0]
    assert any(one.kind == "definition" for one in _references(db, name).references)


@pytest.mark.parametrize("name", ["Typer", "Typer.command"])
def test_a_store_without_symbols_does_not_say_that_there_is_none(code_store: CodeStore, name: str) -> None:
    with pytest.raises(StoreError) as raised:
        _references(code_store("degraded_no_grammar/typer_no_symbols.sqlite"), name)
    assert raised.value.code == "symbols_missing"


@pytest.mark.parametrize(
    ("column", "value"),
    [("line", "NULL"), ("line", "'a'"), ("confidence", "x'00'"), ("dst_qualifier", "x'00'")],
)
def test_a_value_of_another_type_is_damage(
    altered_store: Callable[..., StoreConnection], column: str, value: str
) -> None:
    db = altered_store(SPOILT.format(column, value))
    with pytest.raises(StoreError) as raised:
        _references(db, "echo")
    assert raised.value.code == "damaged"


@pytest.mark.slow
def test_a_name_with_endless_edges_is_cut(small_store: Callable[[], Any]) -> None:
    store = small_store()
    file = store.file("a.py")
    store.symbol(file, "hub", qualified="Owner.hub")
    store.db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) "
        "INSERT INTO edges (edge_type, src_kind, src_id, dst_name, file_id, line) "
        "SELECT 'call', 'symbol', 1, 'hub', 1, i FROM n"
    )
    for name in ("hub", "Owner.hub"):
        found = references_of(store.db, name, "all", None, 10)
        assert len(found.references) == 10
        assert found.is_truncated
