"""Makes context stores, written as `formats/contextful/layout.md` says; DuckDB writes their Parquet.

What a store was made of is kept as plain rows, for tests to compare with.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import duckdb

INJECTED = {
    "_ingested_at": "timestamp",
    "_run_id": "utf8",
    "_row_seq": "int64",
    "_commit_seq": "int64",
    "_batch_seq": "int32",
    "_site_id": "utf8",
}
Row = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIMPLE: dict[str, tuple[str, dict[str, Any]]] = {
    "utf8": ("VARCHAR", {"name": "utf8"}),
    "json": ("JSON", {"name": "utf8"}),
    "int32": ("INTEGER", {"name": "int", "bitWidth": 32, "isSigned": True}),
    "int64": ("BIGINT", {"name": "int", "bitWidth": 64, "isSigned": True}),
    "float64": ("DOUBLE", {"name": "floatingpoint", "precision": "DOUBLE"}),
    "bool": ("BOOLEAN", {"name": "bool"}),
    "binary": ("BLOB", {"name": "binary"}),
    "timestamp": ("TIMESTAMPTZ_NS", {"name": "timestamp", "unit": "NANOSECOND", "timezone": "UTC"}),
}


def nanoseconds(instant: str) -> int:
    """Return an instant that ends in `Z` as nanoseconds since 1970."""
    whole, _, fraction = instant.removesuffix("Z").partition(".")
    at = datetime.fromisoformat(whole).replace(tzinfo=UTC)
    return (at - _EPOCH) // timedelta(seconds=1) * 10**9 + int((fraction or "0").ljust(9, "0"))


def snapshot_id(instant: str) -> str:
    """Return the id of a snapshot made at *instant*."""
    return f"snapshot-{nanoseconds(instant):020}"


def quoted(name: str) -> str:
    """Return *name* as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def engine_type(spelled: str) -> str:
    """Return the engine's name of a type: `utf8`, `float32[3]`, `list<int64>`, `map<utf8, int64>`."""
    if spelled in _SIMPLE:
        return _SIMPLE[spelled][0]
    if spelled.startswith("float32["):
        return f"FLOAT[{spelled[8:-1]}]"
    kind, inside = _nested(spelled)
    if kind == "list":
        return f"{engine_type(inside)}[]"
    if kind == "map":
        return f"MAP(VARCHAR, {engine_type(inside.partition(',')[2].strip())})"
    members = [member.partition(":") for member in inside.split(",")]
    return f"STRUCT({', '.join(f'{quoted(n.strip())} {engine_type(t.strip())}' for n, _, t in members)})"


def arrow_field(name: str, spelled: str, *, nullable: bool = True) -> dict[str, Any]:
    """Return a column as `schema.json` has it."""
    field: dict[str, Any] = {"name": name, "nullable": nullable, "type": {}, "children": []}
    if spelled in _SIMPLE:
        field["type"] = _SIMPLE[spelled][1]
        if spelled == "json":
            field["metadata"] = [{"key": "ARROW:extension:name", "value": "arrow.json"}]
        return field
    if spelled.startswith("float32["):
        item = {"name": "floatingpoint", "precision": "SINGLE"}
        field["type"] = {"name": "fixedsizelist", "listSize": int(spelled[8:-1])}
        field["children"] = [{"name": "item", "nullable": False, "type": item, "children": []}]
        return field
    kind, inside = _nested(spelled)
    if kind == "list":
        field |= {"type": {"name": "list"}, "children": [arrow_field("item", inside)]}
    elif kind == "map":
        value = arrow_field("value", inside.partition(",")[2].strip())
        entries: dict[str, Any] = {"name": "entries", "nullable": False, "type": {"name": "struct"}}
        entries["children"] = [arrow_field("key", "utf8", nullable=False), value]
        field |= {"type": {"name": "map", "keysSorted": False}, "children": [entries]}
    else:
        members = [member.partition(":") for member in inside.split(",")]
        children = [arrow_field(n.strip(), t.strip()) for n, _, t in members]
        field |= {"type": {"name": "struct"}, "children": children}
    return field


def _nested(spelled: str) -> tuple[str, str]:
    match = re.fullmatch(r"(list|map|struct)<(.*)>", spelled)
    assert match is not None, spelled
    return match[1], match[2]


def partition_folder(column: str, value: object) -> str:
    """Return the directory of a partition."""
    if value is None:
        return f"{column}=__HIVE_DEFAULT_PARTITION__"
    safe = re.sub(rb"[^A-Za-z0-9._-]", lambda byte: f"%{ord(byte[0]):02X}".encode(), str(value).encode())
    return f"{column}={safe.decode()}"


def toml(value: object) -> str:
    """Return *value* as TOML, maps inline."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value)
        pairs = ", ".join(f"{json.dumps(key)} = {toml(inner)}" for key, inner in items.items())
        return f"{{ {pairs} }}"
    if isinstance(value, list | tuple):
        entries = cast("Sequence[object]", value)
        return f"[{', '.join(map(toml, entries))}]"
    return json.dumps(value, ensure_ascii=False)


class StoreMaker:
    """One project and its store, made in *project*."""

    def __init__(self, project: Path, name: str = "research") -> None:
        self.project = project
        self.root = project / ".contextful" / "context" / name
        self.root.mkdir(parents=True, exist_ok=True)
        self.engine = duckdb.connect()
        self.engine.execute("SET TimeZone = 'UTC'; SET threads = 1")
        self.write(self.root / "config.toml", '[node]\nid = "ingest-a"\n')
        self.declare(f'[project]\nname = "{name}"\n')

    def declare(self, text: str) -> None:
        """Add *text* to `contextful.toml`."""
        path = self.project / "contextful.toml"
        before = path.read_text() if path.exists() else ""
        self.write(path, f"{before}{text}\n")

    def pipeline(self, file: str, text: str) -> None:
        """Write a file of `pipelines/`."""
        self.write(self.project / "pipelines" / file, text)

    def table(self, name: str, columns: Mapping[str, str], **declared: object) -> TableMaker:
        """Return a table of the store, its schema landed; declared where *declared* says anything."""
        if declared:
            lines = [f"{key} = {toml(value)}" for key, value in {"name": name, **declared}.items()]
            self.declare("\n".join(["[[pipeline.tables]]", *lines]))
        return TableMaker(self, name, columns, declared)

    def quiet(self, name: str, **declared: object) -> None:
        """Declare a table of which nothing is on disk."""
        lines = [f"{key} = {toml(value)}" for key, value in {"name": name, **declared}.items()]
        self.declare("\n".join(["[[pipeline.tables]]", *lines]))

    def write(self, path: Path, content: str | bytes | Mapping[str, Any]) -> Path:
        """Write a file as writers of the format do: whole, and then renamed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Mapping):
            content = json.dumps(content, indent=2, ensure_ascii=False)
        data = content.encode() if isinstance(content, str) else content
        fresh = path.with_name(f".{path.name}.tmp")
        fresh.write_bytes(data)
        fresh.replace(path)
        return path

    def parquet(self, path: Path, columns: Mapping[str, str], rows: Iterable[Row]) -> None:
        """Write rows as a part."""
        types = ", ".join(f"{quoted(name)} {engine_type(spelled)}" for name, spelled in columns.items())
        self.engine.execute(f"CREATE OR REPLACE TEMP TABLE part ({types})")
        values = [[row.get(name) for name in columns] for row in rows]
        if values:
            marks = ", ".join("?" for _ in columns)
            self.engine.executemany(f"INSERT INTO part VALUES ({marks})", values)  # noqa: S608 - only marks
        self.parquet_of("SELECT * FROM part", path)

    def parquet_of(self, sql: str, path: Path) -> None:
        """Write what a statement gives as a part."""
        path.parent.mkdir(parents=True, exist_ok=True)
        place = str(path).replace("'", "''")
        self.engine.execute(f"COPY ({sql}) TO '{place}' (FORMAT parquet, COMPRESSION zstd)")

    def close(self) -> None:
        """Let go of the engine."""
        self.engine.close()


class Run:
    """What a run landed."""

    def __init__(self, key: str, at: str, rows: list[Row], parts: list[str]) -> None:
        self.key = key
        self.at = at
        self.rows = rows
        self.parts = parts
        self.replaces = bool(parts)


class TableMaker:
    """One table; runs and folds are added in the order of the calls."""

    def __init__(
        self, store: StoreMaker, name: str, columns: Mapping[str, str], declared: Mapping[str, Any]
    ) -> None:
        self.store = store
        self.name = name
        self.columns = dict(columns)
        self.late: dict[str, str] = {}
        self.declared = declared
        self.folder = store.root / "tables" / name
        self.runs: dict[str, Run] = {}
        self.folded: dict[str, list[Row]] = {}  # snapshot to its rows
        self.current: str | None = None
        self._gone: set[str] = set()  # keys of runs that a fold has taken
        self._seq = 0
        self._logged = 0
        self.land_schema()

    def land_schema(self) -> None:
        """Write `schema.json`: own columns, injected ones, those that came later."""
        fields = [arrow_field(name, spelled) for name, spelled in self.columns.items()]
        fields += [arrow_field(name, spelled, nullable=False) for name, spelled in INJECTED.items()]
        fields += [arrow_field(name, spelled) for name, spelled in self.late.items()]
        self.store.write(self.folder / "schema.json", {"fields": fields})

    def run(
        self,
        run_id: str,
        rows: Sequence[Row] = (),
        at: str = "2030-01-01T00:00:00Z",
        *,
        node: str = "ingest-a",
        columns: Mapping[str, str] | None = None,
        parts: int = 1,
        pipeline: str | None = None,
        fence: int | None = None,
        logged: bool = False,
        entry_fence: int | None = None,
        entry_node: str | None = None,
        manifest: bool = True,
        **more: object,
    ) -> Run:
        """Land a run and commit it.

        A *logged* run needs its entry in the log of its node: it is written with *entry_fence*, and not
        where that is None. *columns* are late ones. *more* goes into the manifest as it is.
        """
        key = f"{run_id}/{node}"
        self._seq += 1
        if columns:
            self.late |= {name: spelled for name, spelled in columns.items() if name not in self.columns}
            self.land_schema()
        full = [{**row, **self._injected(run_id, number, at)} for number, row in enumerate(rows)]
        carried = {**self.columns, **(columns or {}), **INJECTED}
        folder = self.folder / "data" / "runs" / run_id / node
        folder.mkdir(parents=True, exist_ok=True)
        names = self._parts(folder, carried, _cut(full, parts))
        stated: dict[str, Any] = {
            "run_id": run_id,
            "table": self.name,
            "node_id": node,
            "parts": [{"name": name, "key_version": 0} for name in names],
            "committed_at": at,
            "fence": fence,
            "commit_seq": self._seq,
        }
        if pipeline is not None:
            stated["pipeline_id"] = pipeline
        if logged:
            stated["logged"] = True
        if manifest:
            self.store.write(folder / "_manifest.json", {**stated, **more})
        if entry_fence is not None:
            self.log(pipeline or "feed", entry_node or node, run_id, entry_fence)
        run = Run(key, at, full, names)
        run.replaces = bool(names or more.get("replace_frontier"))
        if manifest and (not logged or (entry_fence == fence and entry_node in (None, node))):
            self.runs[key] = run
        return run

    def run_of(self, run_id: str, sql: str, at: str, *, node: str = "ingest-a") -> None:
        """Land what a statement gives, for tables of many rows; nothing of it is kept here."""
        self._seq += 1
        folder = self.folder / "data" / "runs" / run_id / node
        injected = ", ".join(
            (
                f"TIMESTAMPTZ_NS '{at}' AS _ingested_at",
                f"'{run_id}' AS _run_id",
                "row_number() OVER () - 1 AS _row_seq",
                f"{self._seq}::BIGINT AS _commit_seq",
                "0::INTEGER AS _batch_seq",
                "'site-a' AS _site_id",
            )
        )
        own = ", ".join(
            f"CAST({quoted(n)} AS {engine_type(t)}) AS {quoted(n)}" for n, t in self.columns.items()
        )
        statement = f"SELECT {own}, {injected} FROM ({sql})"  # noqa: S608 - the test's own
        self.store.parquet_of(statement, folder / "part-00000.parquet")
        stated = {"run_id": run_id, "table": self.name, "node_id": node, "committed_at": at}
        parts = [{"name": "part-00000.parquet", "key_version": 0}]
        self.store.write(folder / "_manifest.json", {**stated, "parts": parts, "commit_seq": self._seq})

    def log(self, pipeline: str, node: str, run_id: str, fence: int) -> None:
        """Write the entries of a commit into a node's log."""
        folder = self.store.root / "cursors" / pipeline / node
        for kind in ("acquire", "commit"):
            number = len(list(folder.glob("*.json"))) + 1
            entry: dict[str, Any] = {"kind": kind, "table": self.name, "fence": fence}
            if kind == "commit":
                entry |= {"run_id": run_id, "cursor": None}
            self.store.write(folder / f"{number:020}.json", entry)

    def fold(
        self,
        at: str,
        *,
        partition_by: str | None = None,
        taken: Sequence[str] | None = None,
        publish: Mapping[str, Any] | None = None,
        sidecars: Sequence[tuple[dict[str, Any], str, bytes]] = (),
        is_pointed_to: bool = True,
    ) -> str:
        """Fold the runs *taken*, all that no fold has taken yet by default; return the snapshot's id.

        A sidecar is (entry, name of its file, bytes); `table` and `snapshot_id` of the entry are set here.
        """
        taken = [key for key in self.runs if key not in self._gone] if taken is None else taken
        rows = [
            *self.folded.get(self.current or "", ()),
            *(row for key in taken for row in self.runs[key].rows),
        ]
        if self.declared.get("write_mode") == "replace":
            last = next((key for key in reversed(taken) if self.runs[key].replaces), None)
            rows = rows if last is None else self.runs[last].rows
        rows = self.deduplicated(rows)
        made = snapshot_id(at)
        folder = self.folder / "data" / "snapshots" / made
        columns = {**self.columns, **self.late, **INJECTED}
        if partition_by is None:
            names = self._parts(folder, columns, [rows])
        else:
            names = self._partitions(folder, columns, rows, partition_by)
        entries = [{**entry, "table": self.name, "snapshot_id": made} for entry, _, _ in sidecars]
        for entry, (_, file, data) in zip(entries, sidecars, strict=True):
            self.store.write(folder / entry["path"] / file, data)
            self.store.write(folder / entry["path"] / "_manifest.json", entry)
        stated: dict[str, Any] = {
            "snapshot_id": made,
            "parent": self.current,
            "table": self.name,
            "created_at": at,
            "includes_runs": list(taken),
            "primary_key": self.declared.get("primary_key", []),
            "order_by": self.declared.get("order_by"),
            "row_count": len(rows),
            "parts": [{"name": name, "key_version": 0} for name in names],
            "indexes": entries,
            "fence": None,
            "commit_seq": self._seq,
        }
        if publish is not None:
            stated["publish"] = publish
        self.store.write(folder / "_manifest.json", stated)
        if is_pointed_to:
            self.store.write(self.folder / "_pointer.json", {"snapshot_id": made, "fence": None})
            self.folded[made] = rows
            self.current = made
            self._gone.update(taken)
        return made

    def deduplicated(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that survive: the greatest of each key, where the table is declared to have one."""
        key: Sequence[str] = self.declared.get("primary_key", ())
        if not key:
            return list(rows)
        if self.declared.get("valid_time"):
            key = [*key, self.declared["valid_time"]["from"]]
        order = self.declared.get("order_by", "_ingested_at")
        best: dict[tuple[Any, ...], Row] = {}
        for row in rows:
            place = tuple(row.get(name) for name in key)
            if place not in best or _rank(row, order) > _rank(best[place], order):
                best[place] = row
        return list(best.values())

    def ledger(self, run_id: str, rows: Sequence[Row], *, node: str = "ingest-a") -> Path:
        """Write the request ledger of a run."""
        columns = {
            "run_id": "utf8",
            "batch_seq": "int32",
            "request_id": "utf8",
            "vendor_request_id": "utf8",
            "connector": "utf8",
            "method": "utf8",
            "url_host": "utf8",
            "status_code": "int32",
            "started_at": "timestamp",
            "duration_ms": "int64",
        }
        path = self.folder / "requests" / f"{run_id}.{node}.parquet"
        self.store.parquet(path, columns, [{"run_id": run_id, **row} for row in rows])
        return path

    def retire(self, key: str) -> None:
        """Collect a run: its directory goes."""
        shutil.rmtree(self.folder / "data" / "runs" / key)
        self.runs.pop(key)

    def collect(self, snapshot: str) -> None:
        """Collect a snapshot: its directory goes."""
        shutil.rmtree(self.folder / "data" / "snapshots" / snapshot)
        self.folded.pop(snapshot, None)

    def litter(self) -> None:
        """Leave what no read may take: stray parts, a run in flight, a fold in flight, an orphan snapshot."""
        data = self.folder / "data"
        for key in self.runs:
            self.store.write(data / "runs" / key / "stray.parquet", b"not Parquet")
        self.store.write(data / "runs" / "run-in-flight" / "ingest-a" / "part-00000.parquet", b"not Parquet")
        for name in ("snapshot-09999999999999999999", "snapshot-09999999999999999998.staging"):
            self.store.write(data / "snapshots" / name / "part-00000.parquet", b"not Parquet")
        self.store.write(data / ".commit_seq", b"9")
        self.store.write(self.folder / "commit.lock", b"")

    def _injected(self, run_id: str, number: int, at: str) -> Row:
        return {
            "_ingested_at": at,
            "_run_id": run_id,
            "_row_seq": number,
            "_commit_seq": self._seq,
            "_batch_seq": 0,
            "_site_id": f"site-{hashlib.sha256(run_id.encode()).hexdigest()[:4]}",
        }

    def _parts(self, folder: Path, columns: Mapping[str, str], pieces: Sequence[Sequence[Row]]) -> list[str]:
        names: list[str] = []
        for rows in pieces:
            if rows:
                names.append(f"part-{len(names):05}.parquet")
                self.store.parquet(folder / names[-1], columns, rows)
        return names

    def _partitions(
        self, folder: Path, columns: Mapping[str, str], rows: Sequence[Row], column: str
    ) -> list[str]:
        groups: dict[str, list[Row]] = {}
        for row in rows:
            groups.setdefault(partition_folder(column, row.get(column)), []).append(row)
        return [
            f"{name}/{part}"
            for name in sorted(groups)
            for part in self._parts(folder / name, columns, [groups[name]])
        ]


def _cut(rows: list[Row], parts: int) -> list[list[Row]]:
    size = -(-len(rows) // parts) or 1
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def _rank(row: Row, order: str) -> tuple[Any, ...]:
    values = [row.get(name) for name in dict.fromkeys((order, "_ingested_at", "_run_id", "_row_seq"))]
    return tuple((value is not None, _comparable(value)) for value in values)


def _comparable(value: Any) -> Any:
    is_instant = isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value)
    return nanoseconds(value) if is_instant else "" if value is None else value
