"""What stands on the stage of `collate demo` beside documents: its own source code, and a made-up book."""

import json
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import collated
import collated_readers

__all__ = ["BOOK", "QUESTION", "SOURCES", "write_book", "write_sources"]

SOURCES, BOOK = "sources", "handbook"
"""The names of their folders and stores."""

QUESTION = "waiting.json"
"""The vector that the demonstration asks for: much about waiting, and nothing else."""

_ASPECTS = ("waiting", "order", "storage", "people")
"""What the numbers of a vector stand for. A real store has hundreds of them, and a model that made them."""


class _Passage(NamedTuple):
    chapter: str
    vector: tuple[float, ...]
    text: str


_PASSAGES = (
    _Passage(
        "Loops",
        (0.9, 0.3, 0.0, 0.1),
        "An event loop waits for many things and does one at a time. In asyncio that is the whole secret: "
        "whoever must wait gives the loop back.",
    ),
    _Passage(
        "Loops",
        (0.8, 0.1, 0.5, 0.2),
        "Who holds up the loop holds up everybody. Reading a large file does; let a thread do that.",
    ),
    _Passage(
        "Order",
        (0.2, 0.9, 0.1, 0.3),
        "An answer whose order depends on who was quickest is another answer each time.",
    ),
    _Passage(
        "Storage",
        (0.1, 0.2, 0.9, 0.1),
        "What was written must be found again after the lights went out. The rest is arrangement.",
    ),
    _Passage(
        "People",
        (0.4, 0.0, 0.1, 0.9),
        "Say what went wrong, and what to do about it. Whoever waits for an answer deserves one.",
    ),
)
_MANIFEST = {
    "version": "book-agent-explicit-v1",
    "model": "made-up",
    "dimensions": len(_ASPECTS),
    "embedding_format": "float32-le",
    "normalization": "none",
    "metric": "cosine",
    "sqlite_schema": {
        "table": "passages",
        "id": "id",
        "text": "body",
        "vector": "vector",
        "source_columns": {"chapter": "chapter"},
    },
}
_SCHEMA = "CREATE TABLE passages (id TEXT PRIMARY KEY, body TEXT, vector BLOB, chapter TEXT)"


# Or the demonstration would find what it searches for in its own texts.
_LEFT_OUT = ("demo.py", "props.py")


def write_sources(folder: Path) -> None:
    """Copy the modules of collated and its readers into *folder*, as a project of their own."""
    for package in (collated, collated_readers):
        root = Path(package.__path__[0])
        for module in (each for each in root.rglob("*.py") if each.name not in _LEFT_OUT):
            copy = folder / root.name / module.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(module, copy)


def write_book(folder: Path) -> None:
    """Write a store of passages and their vectors into *folder*, its manifest, and a vector to ask for."""
    folder.mkdir(parents=True)
    (folder / QUESTION).write_text(json.dumps([1.0, 0.0, 0.0, 0.0]), encoding="utf-8")
    (folder / f"{BOOK}.manifest.json").write_text(json.dumps(_MANIFEST), encoding="utf-8")
    partial = folder / f"{BOOK}.partial"
    with closing(sqlite3.connect(partial)) as db:
        db.execute(_SCHEMA)
        db.executemany("INSERT INTO passages VALUES (?, ?, ?, ?)", _rows())
        db.commit()
    partial.rename(folder / f"{BOOK}.sqlite")  # nobody sees half of it


def _rows() -> list[tuple[str, str, bytes, str]]:
    return [
        (f"p{number}", each.text, struct.pack(f"<{len(_ASPECTS)}f", *each.vector), each.chapter)
        for number, each in enumerate(_PASSAGES, start=1)
    ]
