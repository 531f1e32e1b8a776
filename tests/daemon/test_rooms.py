"""Who may import whom: the folders of the package are rooms, and imports go one way between them."""

import ast
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

import collated

FOLDER = Path(collated.__path__[0])
DAEMON = ""  # the modules beside the folders, which every room may import
# What else each room imports.
ROOMS = {
    DAEMON: {"embedding", "engines", "sidecars"},
    "cli": {"client", "embedding", "mcp", "setup"},
    "client": set[str](),
    "embedding": set[str](),
    "engines": set[str](),
    "mcp": {"client", "setup"},
    "setup": set[str](),
    "sidecars": set[str](),
}
# `python -m collated` is a command, and has to be beside the rooms.
EXCEPT = FOLDER / "__main__.py"


def _imported(path: Path) -> Iterator[str]:
    package = ".".join(path.parent.relative_to(FOLDER.parent).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _room(module: str) -> str:
    name = module.removeprefix("collated.").partition(".")[0]
    return name if name in ROOMS else DAEMON


def test_every_folder_is_a_room() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/__init__.py")} == set(ROOMS) - {DAEMON}


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_one_way(room: str) -> None:
    allowed = ROOMS[room] | {room, DAEMON}
    for path in FOLDER.glob(f"{room}/**/*.py" if room else "*.py"):
        of_ours = [name for name in _imported(path) if name.startswith("collated.")]
        assert path == EXCEPT or {_room(name) for name in of_ours} <= allowed, path
