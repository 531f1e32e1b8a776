"""What the bench decides for itself: who gave another answer, which goals are met, where points are drawn."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.conftest import MakeStore

_BENCH = Path(__file__).parents[1] / "bench"
_SVG = "{http://www.w3.org/2000/svg}"

Import = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def harness() -> Iterator[Import]:
    """`harness(name)` imports a module of the bench, whose package is not installed."""
    sys.path.insert(0, str(_BENCH))
    yield lambda name: import_module(f"harness.{name}")
    sys.path.remove(str(_BENCH))


def test_an_answer_that_is_not_the_expected_one_is_counted_and_named(harness: Import) -> None:
    comparing = harness("comparing")
    result = comparing.Compared()
    ways = {
        "right": comparing.Way(lambda: (0.002, ["a"]), ["a"]),
        "wrong": comparing.Way(lambda: (0.001, ["b"]), ["a"]),
    }
    comparing.compare(result, "one word", ways, 2)
    assert result.differing == ["one word, wrong"] * 3
    assert result.answers == 6
    assert result.ratio("wrong", to="right") == 2
    assert result.slowest("right", to="wrong") == "one word"


def test_a_goal_that_could_not_be_measured_is_neither_met_nor_missed(
    harness: Import, capsys: pytest.CaptureFixture[str]
) -> None:
    report = harness("report").Report()
    report.goal("fast", "2×", True)
    report.goal("faster", "3×", False)
    report.goal("fastest", "no rg", None)
    report.goals()
    shown = capsys.readouterr().out
    assert "| fast | 2× | met |" in shown
    assert "| faster | 3× | **not met** |" in shown
    assert "| fastest | no rg | not measured |" in shown


def test_a_run_with_another_answer_is_remembered_by_the_report(harness: Import) -> None:
    report = harness("report").Report()
    assert report.compared(10, []) == "all 10 the same"
    assert "1 DIFFER" in report.compared(10, ["two words, one at a time"])
    assert report.differing == ["two words, one at a time"]


_XS = st.integers(1, 100_000)
_YS = st.floats(1e-7, 1e3)


@given(points=st.lists(st.tuples(_XS, _YS), min_size=1, max_size=8), panels=st.integers(1, 7))
def test_every_point_is_drawn_within_its_field(
    points: list[tuple[int, float]], panels: int, harness: Import
) -> None:
    plot = harness("plot")
    lines = tuple(plot.Line(name, "#123456", tuple(sorted(points))) for name in ("a < b", "c & d"))
    picture = plot.draw("a & b", "x", [plot.Panel(f"panel {n}", lines) for n in range(panels)])
    root = ET.fromstring(picture)  # noqa: S314 - it was made a line above
    circles = [each.attrib for each in root.iter(f"{_SVG}circle")]
    assert len(circles) == 2 * len(points) * panels
    field: dict[str, Any] = next(iter(root.iter(f"{_SVG}g"))).find(f"{_SVG}rect").attrib  # type: ignore[union-attr] # each has one
    width, height = float(field["width"]), float(field["height"])
    assert all(-0.1 <= float(each["cx"]) <= width + 0.1 for each in circles)
    assert all(-0.1 <= float(each["cy"]) <= height + 0.1 for each in circles)


def test_more_questions_begin_with_the_same_ones(harness: Import) -> None:
    projects = harness("projects")
    few, many = (projects.queries(projects.SEED, 50, count) for count in (2, 32))
    assert {kind: texts[:2] for kind, texts in many.items()} == few


def test_questions_in_flight_together_are_all_different(harness: Import) -> None:
    projects = harness("projects")
    asked = projects.different(projects.SEED, 50, 32)
    assert {kind: len(set(texts)) for kind, texts in asked.items()} == dict.fromkeys(projects.CLASSES, 32)


def test_a_code_of_a_project_stands_in_no_other_one(harness: Import, tmp_path: Path) -> None:
    projects = harness("projects")
    texts: list[str] = []
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        projects.write_project(folder, projects.SEED, number)
        texts.append("".join(file.read_text() for file in sorted(folder.iterdir())))
    for number, code in enumerate(projects.own_codes(projects.SEED, range(6))):
        assert [place for place, text in enumerate(texts) if code in text] == [number]


def run_code(tmp_path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    arguments = ["--only", "code", "--quick", "--stores", "1", "--cache", str(tmp_path / "cache")]
    return subprocess.run(
        [sys.executable, str(_BENCH), *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_code_stores_give_the_places_that_the_program_gives(shared: Path, tmp_path: Path) -> None:
    ran = run_code(tmp_path, COLLATE_SHARED=str(shared))

    assert ran.returncode == 0, ran.stderr
    assert "| 20 code stores: same places | 0 differ | met |" in ran.stdout
    for kind in ("exact name", "prefix", "`Owner.member`", "search, identifier", "search, question"):
        assert re.search(rf"^\| {kind} \| [\d.,]+ \|", ran.stdout, re.MULTILINE), kind
    for name in ("symbol lookup", "search"):
        assert f"| {name} over 20 code stores: ≥ 5× at the median |" in ran.stdout


@pytest.mark.slow
def test_code_stores_that_are_not_there_are_not_measured(tmp_path: Path) -> None:
    ran = run_code(tmp_path, COLLATE_SHARED=str(tmp_path))

    assert ran.returncode == 0, ran.stderr
    assert "No code stores" in ran.stdout
    assert ran.stdout.count("| not measured |") == 2


def test_a_longer_name_is_none_where_a_store_has_the_name(
    harness: Import, make_code_store: MakeStore, tmp_path: Path
) -> None:
    texts = {"first": "def get():\n    pass\n", "second": "def get_all():\n    pass\n"}
    stores = [make_code_store(tmp_path / f"{name}.sqlite", {"a.py": text}) for name, text in texts.items()]
    program = harness("program").Program(stores)
    exact, longer = program.symbols("get"), program.symbols("get_a")
    program.close()
    if not exact:
        pytest.skip("the program has no grammar here")
    assert [(each.key, each.store) for each in (*exact, *longer)] == [("get", "first"), ("get_all", "second")]
