"""The tables of readers/README.md on contextful's read face are true, and what they tell is enough."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ASKED = {"must": 82, "should": 80, "optional": 25, "n/a": 28}
ENOUGH = 0.8  # of what should be, so much is


@pytest.fixture(scope="module")
def table() -> ModuleType:
    """The module `rule_table.py`, which cannot be imported by name: tests are no packages."""
    path = Path(__file__).with_name("rule_table.py")
    spec = importlib.util.spec_from_file_location("contextful_rule_table", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rules(table: ModuleType) -> list[Any]:
    found: list[Any] = list(table.rules_of().rules)
    return found


@pytest.fixture(scope="module")
def tests(table: ModuleType, rules: list[Any]) -> dict[str, list[str]]:
    """The tests of each rule that has any; a mark that names no rule fails here."""
    found: dict[str, list[str]] = table.tests_by_rule(rules, table.marks_in(table.ROOT / "tests"))
    return found


def test_the_readers_readme_has_the_tables_that_the_tests_make(table: ModuleType) -> None:
    readme = table.README.read_text()
    assert table.written(readme, table.tables_now()) == readme, (
        "run python tests/readers/contextful/rule_table.py"
    )


def test_every_rule_of_the_seed_is_there_once(rules: list[Any]) -> None:
    assert len({rule.rule for rule in rules}) == len(rules) == sum(ASKED.values())
    assert {asks: sum(rule.asks == asks for rule in rules) for asks in ASKED} == ASKED


def test_what_is_said_to_be_built_is_shown_by_a_test(rules: list[Any], tests: dict[str, list[str]]) -> None:
    assert [rule.rule for rule in rules if rule.here == "built" and rule.rule not in tests] == []


def test_what_is_not_built_says_why(rules: list[Any]) -> None:
    assert {rule.here for rule in rules} == {"built", "mapped", "refused", "n/a"}
    assert [rule.rule for rule in rules if (rule.here == "built") == bool(rule.why)] == []


def test_every_must_is_built_or_has_its_counterpart(rules: list[Any]) -> None:
    musts = [rule for rule in rules if rule.asks == "must"]
    assert [rule.rule for rule in musts if rule.here not in ("built", "mapped")] == []


def test_most_of_what_should_be_is_built(rules: list[Any]) -> None:
    shoulds = [rule for rule in rules if rule.asks == "should"]
    assert sum(rule.here == "built" for rule in shoulds) >= ENOUGH * len(shoulds)


def test_a_counterpart_of_what_is_wanted_is_shown_by_a_test(
    rules: list[Any], tests: dict[str, list[str]]
) -> None:
    wanted = [rule for rule in rules if rule.asks in ("must", "should") and rule.here == "mapped"]
    assert [rule.rule for rule in wanted if rule.rule not in tests] == []


def test_the_nine_scenarios_are_tests_that_exist(table: ModuleType) -> None:
    scenarios = table.rules_of().scenarios
    assert len({one.scenario for one in scenarios}) == len(scenarios) == 9
    for one in scenarios:
        file, _, name = one.test.partition("::")
        assert f"def {name}(" in (table.ROOT / file).read_text(), one.test


# --------------------------------------------------------------------- the marks


SOURCE = """
pytestmark = [pytest.mark.slow, pytest.mark.rule("all")]

@pytest.mark.rule("one", "two")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.rule("three"))])
def test_a(): ...

class TestB:
    @pytest.mark.rule("four")
    def test_c(self): ...
"""


def test_marks_are_found_wherever_pytest_takes_them(table: ModuleType) -> None:
    assert sorted(table.marks_of(SOURCE, "f.py")) == [
        ("all", "f.py"),
        ("four", "f.py::TestB::test_c"),
        ("one", "f.py::test_a"),
        ("three", "f.py::test_a"),
        ("two", "f.py::test_a"),
    ]


@pytest.mark.parametrize(("name", "says"), [("nothing", "no rule"), ("call", "several rules")])
def test_a_mark_of_no_rule_and_one_of_several_are_refused(table: ModuleType, name: str, says: str) -> None:
    rules = [table.Rule("reference.call", "should"), table.Rule("lineage.call", "optional")]
    with pytest.raises(ValueError, match=says):
        table.tests_by_rule(rules, [table.Mark(name, "f.py::test_a")])
    qualified = table.Mark("lineage.call", "f.py::test_a")
    assert table.tests_by_rule(rules, [qualified, qualified]) == {"lineage.call": ["f.py::test_a"]}
