"""Walks over the ties of a program, beside the real program's recorded answers and a plain walk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collated_readers import Budget, StoreError
from collated_readers.code import Coverage, Direction, Impact, Node
from collated_readers.codebase_index.edges import confidence_rank, means_file
from collated_readers.codebase_index.impact import impact_of
from collated_readers.opening import StoreConnection, ask

CodeStore = Callable[[str], StoreConnection]
Recorded = Callable[[str, str], list[tuple[list[str], Any]]]
FIELDS = ("kind", "path", "name", "line_start", "distance", "via_edge", "via_confidence")
SPOILT = "UPDATE {} SET {} = x'00'"
MANY = (
    "CREATE TABLE n AS WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 120000) "
    "SELECT i FROM n",
    "INSERT INTO symbols (id, file_id, name, kind, line_start, line_end) SELECT i, 1, 'n', '', i, i FROM n",
    "INSERT INTO edges (edge_type, src_kind, src_id, dst_kind, dst_id, dst_name, file_id, resolved) "
    "SELECT 'call', 'symbol', i, 'symbol', 1, 'hub', 1, 1 FROM n",
)
IMPORTS = """
SELECT e.dst_name, f.path FROM edges AS e JOIN files AS f ON f.id = e.dst_id WHERE e.dst_kind = 'file'"""
DIRECTIONS: tuple[Direction, ...] = ("up", "down", "both")


def _impact(db: StoreConnection, target: str, direction: Direction = "up", depth: int = 2) -> Impact:
    budget = Budget.lasting(30)
    return ask(db, lambda db: impact_of(db, target, direction, depth, budget), budget)


def _columns(node: Node) -> dict[str, Any]:
    columns = {name: getattr(node, name) for name in FIELDS}
    return columns if node.kind == "symbol" else {**columns, "name": None}  # the program names no files


def _names(impact: Impact) -> list[tuple[str, int]]:
    return [(node.name, node.distance) for node in impact.nodes]


# ---------------------------------------------------------------- the real program's answers


@pytest.mark.parametrize("store", ["typer", "pydantic"])
def test_what_the_program_recorded_is_found_in_its_order(
    code_store: CodeStore, recorded: Recorded, store: str
) -> None:
    db = code_store(f"{store}/index.sqlite")
    for _, answer in recorded(store, "impact"):
        found = _impact(db, answer["target"], answer["direction"], answer["depth"])
        assert [_columns(node) for node in found.nodes] == answer["nodes"], answer["target"]
        assert list(found.files) == answer["files"], answer["target"]
        assert found.coverage.is_partial == answer["coverage"]["partial"], answer["target"]
        assert list(found.coverage.languages) == answer["coverage"]["languages"], answer["target"]
        assert found.is_known == (answer["target"] != "nosuch")
        assert not found.is_truncated


def test_each_node_has_the_hash_of_its_file_and_files_their_names(code_store: CodeStore) -> None:
    db = code_store("typer/index.sqlite")
    hashes = dict(db.execute("SELECT path, sha256 FROM files").fetchall())
    nodes = _impact(db, "typer/main.py", "both", 3).nodes
    assert [node.sha256 for node in nodes] == [hashes[node.path] for node in nodes]
    files = [node for node in nodes if node.kind == "file"]
    assert files
    assert all(node.name == Path(node.path).name and node.line_start is None for node in files)


# ---------------------------------------------------------------- where a walk begins


@pytest.mark.parametrize(
    ("target", "same_as"),
    [
        ("typer/main.py", "typer/main.py"),
        ("main.py", "typer/main.py"),
        ("MAIN.py", "typer/main.py"),
        ("_click/formatting.py", "typer/_click/formatting.py"),
    ],
)
def test_a_path_may_be_said_by_its_end(code_store: CodeStore, target: str, same_as: str) -> None:
    db = code_store("typer/index.sqlite")
    assert _impact(db, target) == _impact(db, same_as)


@pytest.mark.parametrize("target", ["core.py", "ain.py", "main_py", "%.py", "/main.py", ""])
def test_an_end_of_no_path_or_of_several_is_not_known(code_store: CodeStore, target: str) -> None:
    found = _impact(code_store("typer/index.sqlite"), target)
    assert not found.is_known
    assert found.nodes == ()
    assert found.coverage.is_partial


def test_a_file_comes_before_a_symbol_and_a_symbol_before_an_end(small_store: Callable[[], Any]) -> None:
    store = small_store()
    plain, folder = store.file("plain"), store.file("src/ending")
    symbol = store.symbol(plain, "ending")
    store.symbol(plain, "plain")
    user = store.file("user.py")
    store.edge(user, store.symbol(user, "uses_symbol"), "ending", symbol)
    store.edge(user, store.symbol(user, "uses_file"), "ending", folder, dst_kind="file")
    budget = Budget.lasting(30)
    assert _names(impact_of(store.db, "ending", "up", 1, budget)) == [("uses_symbol", 1)]
    assert _names(impact_of(store.db, "src/ending", "up", 1, budget)) == [("uses_file", 1)]
    assert _names(impact_of(store.db, "plain", "up", 1, budget)) == [("uses_symbol", 1)]


# ---------------------------------------------------------------- the walk

NODES = 6
CONFIDENCES = ("extracted", "inferred", "ambiguous", "unheard of", None)
edge = st.tuples(
    st.integers(1, NODES),
    st.integers(1, NODES),
    st.sampled_from(["call", "extends"]),
    st.sampled_from(CONFIDENCES),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edges=st.lists(edge, max_size=12), direction=st.sampled_from(DIRECTIONS), depth=st.integers(1, 4))
def test_a_walk_comes_to_what_is_near_by_the_best_of_its_last_edges(
    small_store: Callable[[], Any],
    edges: list[tuple[int, int, str, str | None]],
    direction: Direction,
    depth: int,
) -> None:
    store = small_store()
    file = store.file("a.py")
    for number in range(1, NODES + 1):
        assert store.symbol(file, f"n{number}", number) == number
    for source, target, kind, confidence in edges:
        store.edge(file, source, f"n{target}", target, edge_type=kind, confidence=confidence)
    up = [(target, source, kind, confidence) for source, target, kind, confidence in edges]
    ties = (up if direction != "down" else []) + (edges if direction != "up" else [])
    distances = {1: 0}
    for distance in range(1, depth + 1):
        for near, far, *_ in ties:
            if distances.get(near) == distance - 1:
                distances.setdefault(far, distance)
    found = impact_of(store.db, "n1", direction, depth, Budget.lasting(30))
    assert {int(node.name[1:]): node.distance for node in found.nodes} == {
        n: d for n, d in distances.items() if d
    }
    for node in found.nodes:
        last = [
            tie for tie in ties if f"n{tie[1]}" == node.name and distances.get(tie[0]) == node.distance - 1
        ]
        assert (node.via_edge, node.via_confidence) in [tie[2:] for tie in last]
        assert confidence_rank(node.via_confidence) == min(confidence_rank(tie[3]) for tie in last)
    order = [(node.distance, confidence_rank(node.via_confidence), node.name) for node in found.nodes]
    assert order == sorted(order)


def test_a_limit_of_depth_is_a_beginning_of_a_deeper_walk(code_store: CodeStore) -> None:
    db = code_store("pydantic/index.sqlite")
    deep = _impact(db, "FieldInfo", "both", 10)
    for depth in range(1, 10):
        wanted = tuple(node for node in deep.nodes if node.distance <= depth)
        assert _impact(db, "FieldInfo", "both", depth).nodes == wanted


# ---------------------------------------------------------------- edges that an update left behind (T2)


@pytest.mark.parametrize("store", ["typer_after_update", "typer_after_update_id_reuse"])
def test_a_walk_follows_names_and_never_ids_that_mean_another(code_store: CodeStore, store: str) -> None:
    db = code_store(f"after_update/{store}.sqlite")
    names = [name for (name,) in db.execute("SELECT name FROM symbols GROUP BY name HAVING count(*) = 1")]
    assert names
    for name in names:
        wanted = db.execute(
            "SELECT DISTINCT f.path, s.name FROM edges AS e LEFT JOIN symbols AS s "
            "ON e.src_kind = 'symbol' AND s.id = e.src_id JOIN files AS f ON f.id = e.file_id "
            "WHERE e.resolved = 1 AND e.dst_kind = 'symbol' AND e.dst_name = ? AND s.name IS NOT e.dst_name",
            (name,),
        )
        found = _impact(db, name, "up", 1)
        assert {(node.path, node.name if node.kind == "symbol" else None) for node in found.nodes} == set(
            wanted
        )


@pytest.mark.parametrize("store", ["typer_after_update", "typer_after_update_id_reuse"])
def test_what_is_up_from_one_end_is_down_from_the_other(code_store: CodeStore, store: str) -> None:
    db = code_store(f"after_update/{store}.sqlite")
    files = [path for (path,) in db.execute("SELECT path FROM files")]
    ups = {(node.path, file) for file in files for node in _impact(db, file, "up", 1).nodes}
    downs = {(file, node.path) for file in files for node in _impact(db, file, "down", 1).nodes}
    assert ups == downs


def test_an_edge_that_lost_its_target_leads_to_the_only_symbol_of_its_name(
    small_store: Callable[[], Any],
) -> None:
    store = small_store()
    file = store.file("a.py")
    caller, wrong = store.symbol(file, "caller"), store.symbol(file, "wrong")
    store.edge(file, caller, "called", wrong)
    store.edge(file, caller, "called", 999)
    budget = Budget.lasting(30)

    def found(target: str, direction: Direction) -> list[tuple[str, str | None]]:
        nodes = impact_of(store.db, target, direction, 1, budget).nodes
        return [(node.name, node.via_confidence) for node in nodes]

    assert found("caller", "down") == []
    store.symbol(file, "called", qualified="Owner.called")
    assert found("caller", "down") == [("called", "inferred")]
    assert found("called", "up") == [("caller", "inferred")]
    assert found("wrong", "up") == []
    store.symbol(file, "called", qualified="Other.called")
    assert found("caller", "down") == []
    assert found("called", "up") == []


def test_an_import_of_a_file_whose_id_was_given_away_leads_nowhere(small_store: Callable[[], Any]) -> None:
    store = small_store()
    user, other = store.file("user.py"), store.file("pkg/other.py")
    store.symbol(user, "x")
    store.edge(user, user, "pkg.gone", other, edge_type="import", src_kind="file", dst_kind="file")
    budget = Budget.lasting(30)
    assert impact_of(store.db, "pkg/other.py", "up", 2, budget).nodes == ()
    assert impact_of(store.db, "user.py", "down", 2, budget).nodes == ()
    store.edge(user, user, "pkg.other", other, edge_type="import", src_kind="file", dst_kind="file")
    assert _names(impact_of(store.db, "pkg/other.py", "up", 2, budget)) == [("user.py", 1)]
    assert _names(impact_of(store.db, "user.py", "down", 2, budget)) == [("other.py", 1)]


@pytest.mark.parametrize(
    ("module", "path", "is_meant"),
    [
        ("typer.main", "typer/main.py", True),
        ("typer", "typer/__init__.py", True),
        ("./Base", "web/base.ts", True),
        ("../web", "src/web/index.tsx", True),
        ("./index", "src/web/index.tsx", True),
        ("github.com/x/pkg", "pkg.go", True),
        ("crate::auth::token", "src/auth/token.rs", True),
        ("crate::auth", "src/auth/mod.rs", True),
        ("typer.main", "typer/core.py", False),
        ("typer.main", "main/core.py", False),
        ("", "typer/main.py", False),
        (None, "typer/main.py", False),
        ("...", "typer/main.py", False),
    ],
)
def test_an_import_means_a_file_of_its_last_name(module: str | None, path: str, is_meant: bool) -> None:
    assert means_file(module, path) == is_meant


@pytest.mark.parametrize("store", ["typer/index.sqlite", "pydantic/index.sqlite"])
def test_every_import_that_the_program_resolved_means_its_file(code_store: CodeStore, store: str) -> None:
    rows = code_store(store).execute(IMPORTS).fetchall()
    assert rows
    assert all(means_file(*row) for row in rows)


# ---------------------------------------------------------------- stores of other kinds


@pytest.mark.parametrize(
    "store",
    [
        *("typer_v1.2.1", "typer_v1.2.1_vec64", "typer_v1.4.0", "typer_883d37c", "typer_v1.5.0"),
        *("typer_pypi-1.7.0", "typer_pypi-2.0.0", "typer_pypi-2.1.0", "typer_v4_vec64_forced"),
    ],
)
def test_old_stores_give_the_same_walk(code_store: CodeStore, store: str) -> None:
    newest = _impact(code_store("typer/index.sqlite"), "get_command", "up", 1)
    found = _impact(code_store(f"schema_versions/{store}.sqlite"), "get_command", "up", 1)
    assert {node.path for node in found.nodes} <= {node.path for node in newest.nodes}
    has_confidence = not store.startswith(("typer_v1.2", "typer_v1.4", "typer_883d37c"))
    assert found.nodes
    assert all((node.via_confidence is not None) == has_confidence for node in found.nodes)


def test_a_store_that_is_being_written_is_walked(code_store: CodeStore) -> None:
    assert _impact(code_store("live_wal/index.sqlite"), "get_command").nodes


@pytest.mark.parametrize("target", ["Typer", "typer/main.py"])
def test_a_store_without_symbols_does_not_say_that_there_is_none(code_store: CodeStore, target: str) -> None:
    with pytest.raises(StoreError) as raised:
        _impact(code_store("degraded_no_grammar/typer_no_symbols.sqlite"), target)
    assert raised.value.code == "symbols_missing"


def test_a_circle_is_gone_round_once(small_store: Callable[[], Any]) -> None:
    store = small_store()
    file = store.file("a.lua", "lua")
    ring = [store.symbol(file, f"n{number}", number) for number in range(4)]
    for number, source in enumerate(ring):
        target = (number + 1) % 4
        store.edge(file, source, f"n{target}", ring[target])
        store.edge(file, source, f"n{number}", source)
    found = impact_of(store.db, "n0", "down", 10, Budget.lasting(30))
    assert _names(found) == [("n1", 1), ("n2", 2), ("n3", 3)]
    assert found.coverage.languages == ("lua",)


def test_edges_that_lead_nowhere_are_not_followed(small_store: Callable[[], Any]) -> None:
    store = small_store()
    file = store.file("a.py")
    here, orphan = store.symbol(file, "here"), store.symbol(99, "orphan")
    store.edge(file, here, "orphan", orphan)
    store.edge(file, orphan, "here", here)
    store.edge(file, 999, "here", here)
    store.edge(file, here, "gone.py", 999, dst_kind="file")
    store.edge(file, here, "x", 7, dst_kind="planet")
    store.edge(file, 7, "here", here, src_kind="planet")
    store.edge(file, here, "x", None, resolved=1)
    found = impact_of(store.db, "here", "both", 3, Budget.lasting(30))
    assert found == Impact((), (), Coverage())


@pytest.mark.slow
def test_what_endless_edges_lead_to_is_cut(small_store: Callable[[], Any]) -> None:
    store = small_store()
    assert store.symbol(store.file("a.py"), "hub") == 1
    for statement in MANY:
        store.db.execute(statement)
    found = impact_of(store.db, "hub", "up", 2, Budget.lasting(60))
    assert found.is_truncated
    assert [node.line_start for node in found.nodes] == list(range(2, 10_002))


def test_a_walk_keeps_its_budget(code_store: CodeStore) -> None:
    db = code_store("pydantic/index.sqlite")
    with pytest.raises(StoreError) as raised:
        impact_of(db, "BaseModel", "both", 10, Budget.lasting(0))
    assert raised.value.code == "deadline_exceeded"


@pytest.mark.parametrize(
    ("table", "column"), [("edges", "edge_type"), ("edges", "confidence"), ("symbols", "line_start")]
)
def test_a_value_of_another_type_is_damage(
    altered_store: Callable[..., StoreConnection], table: str, column: str
) -> None:
    db = altered_store(SPOILT.format(table, column))
    with pytest.raises(StoreError) as raised:
        _impact(db, "typer/main.py", "both")
    assert raised.value.code == "damaged"
