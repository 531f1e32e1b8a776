"""How the package is built: which folders are formats, what they may import, what its codes say."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import collated_readers
from collated_readers import STORE_CODES, State
from collated_readers.contextful.reader import Contextful, NoEngine
from collated_readers.registry import READERS

FOLDER = Path(collated_readers.__path__[0])
FORMATS = sorted(type(reader).__module__.split(".")[1] for reader in (*READERS, Contextful(NoEngine())))
SHARED = {"fts", "matching", "opening", "passes", "secrets", "textindex"}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_every_format_in_the_folder_is_registered_once() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/__init__.py")} - SHARED == set(FORMATS)
    assert len(set(FORMATS)) == len(FORMATS)


# What a directory's signature is, the one format says whose stores are directories.
EXCEPT = {"opening/directories.py"}


@pytest.mark.parametrize("package", [*FORMATS, *sorted(SHARED)])
def test_nothing_imports_from_another_format(package: str) -> None:
    others = {f"collated_readers.{name}" for name in FORMATS if name != package}
    for path in (FOLDER / package).rglob("*.py"):
        if path.relative_to(FOLDER).as_posix() in EXCEPT:
            continue
        assert not {".".join(name.split(".")[:2]) for name in _imported(path)} & others, path


def test_the_light_module_brings_in_no_database_no_regex_and_no_arrays() -> None:
    script = (
        "import sys, collated_readers; "
        "print(sorted({'sqlite3', 'regex', 'asyncio', 'numpy'} & sys.modules.keys()))"
    )
    places = os.pathsep.join(str(Path(place).parent) for place in collated_readers.__path__)
    environ = {**os.environ, "PYTHONPATH": places}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_code_has_a_state_and_an_explanation() -> None:
    for code, (state, meaning) in STORE_CODES.items():
        assert code.replace("_", "").isalnum()
        assert code == code.lower()
        assert state in State
        assert meaning
