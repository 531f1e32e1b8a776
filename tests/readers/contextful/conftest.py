"""Context stores: the worked example where it lies, and stores made by `maker.py` beside this."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .maker import StoreMaker


def _module() -> ModuleType:
    """Return `maker.py`, which cannot be imported by name: tests are no packages."""
    name = "contextful_store_maker"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("maker.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


# What the quick loop asks of some three thousand tests, of which most ask a real engine.
_QUICK = frozenset(
    f"test_{name}.py" for name in ("worked_example", "instants", "schemas", "listing", "judging")
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the others out of the quick loop before they are imported, which takes it seconds."""
    is_other = collection_path.name.startswith("test_") and collection_path.name not in _QUICK
    return True if is_other and config.option.markexpr == "not slow" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the others, for whoever names them."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.path.name not in _QUICK:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def maker() -> ModuleType:
    """The module `maker.py`."""
    return _module()


@pytest.fixture
def make_context_store(tmp_path: Path) -> Iterator[Callable[..., StoreMaker]]:
    """`make_context_store(folder=tmp_path/"project", name="research")` begins a store: see `maker.py`."""
    made: list[Any] = []

    def make(folder: Path | None = None, name: str = "research") -> StoreMaker:
        made.append(_module().StoreMaker(folder or tmp_path / "project", name))
        store: StoreMaker = made[-1]
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture(scope="session")
def worked_example(shared: Path) -> Path:
    """The root of the worked example's store (layout §13), read where it lies."""
    return shared / "data" / "contextful" / "worked-example" / ".contextful" / "context" / "research"


@pytest.fixture
def folded_store(make_context_store: Callable[..., StoreMaker]) -> StoreMaker:
    """A store of the tables `t` and `u`, each folded once and with a logged run since."""
    store = make_context_store()
    logged: dict[str, Any] = {"logged": True, "pipeline": "feed", "fence": 1, "entry_fence": 1}
    for name in ("t", "u"):
        table = store.table(name, {"id": "utf8"}, primary_key=["id"])
        table.run("run-0", [{"id": "a"}], "2030-01-01T00:00:00Z")
        table.fold("2030-01-02T00:00:00Z")
        table.run("run-1", [{"id": "b"}], "2030-01-03T00:00:00Z", **logged)
    return store
