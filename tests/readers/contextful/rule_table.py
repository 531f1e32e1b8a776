"""Writes the tables of readers/README.md on contextful's read face: `python THIS_FILE`.

What there is to do is in `rules.json`: each rule of the seed, what `formats/contextful/readface.md` asks
(`must`, `should`, `optional`, `n/a`), and where it is not built (`here`: `mapped`, `refused`, `n/a`) why.
What is done is found in the tests, by their markers: `@pytest.mark.rule("name")`, and where sections share
a name `@pytest.mark.rule("section.name")`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

ROOT = Path(__file__).parents[3]
README = ROOT / "readers" / "README.md"
BEGIN, END = "<!-- rules: written by tests/readers/contextful/rule_table.py -->\n", "<!-- end of rules -->"
_SHOWN = 2  # tests of one rule
_HEAD = (
    "## The rules of contextful's read face",
    "",
    "What the seed asks of a read face, and what is done here. *Built*: the tests named show it, and carry",
    "the name of the rule as a marker. *Mapped*: something else stands in its place. *Refused*: by name,",
    "never ignored. *n/a*: there is nothing here that it could be about. Tests are below `tests/`.",
    "",
)


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule: its section and name, what is asked, and what stands in its place here if it is not built."""

    rule: str
    asks: str
    here: str = "built"
    why: str = ""

    @property
    def name(self) -> str:
        return self.rule.partition(".")[2]

    @property
    def section(self) -> str:
        return self.rule.partition(".")[0]


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario of the seed, and the test that plays it."""

    scenario: str
    test: str
    here: str = "built"


class Rules(Struct, frozen=True, forbid_unknown_fields=True):
    """`rules.json`."""

    rules: tuple[Rule, ...]
    scenarios: tuple[Scenario, ...]


class Mark(NamedTuple):
    """A rule's name as a test, or all tests of a file, are marked with it."""

    name: str
    test: str


def rules_of() -> Rules:
    """Return what there is to do."""
    return msgspec.json.decode(Path(__file__).with_name("rules.json").read_bytes(), type=Rules)


# --------------------------------------------------------------------- what is marked


def marks_in(tests: Path) -> list[Mark]:
    """Return all marks below *tests*, by file and place."""
    files = sorted(tests.rglob("*.py"))
    return [mark for file in files for mark in marks_of(file.read_text(), file.relative_to(ROOT).as_posix())]


def marks_of(source: str, file: str) -> Iterator[Mark]:
    """Yield the marks of a file: on functions, classes, `pytestmark` and single parameters."""
    yield from _marks(ast.parse(source), file)


def _marks(node: ast.Module | ast.ClassDef, place: str) -> Iterator[Mark]:
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _named(child.decorator_list, f"{place}::{child.name}")
        elif isinstance(child, ast.ClassDef):
            inside = f"{place}::{child.name}"
            yield from _named(child.decorator_list, inside)
            yield from _marks(child, inside)
        elif isinstance(child, ast.Assign) and "pytestmark" in map(ast.unparse, child.targets):
            yield from _named([child.value], place)


def _named(nodes: Iterable[ast.expr], place: str) -> Iterator[Mark]:
    for call in (found for node in nodes for found in ast.walk(node)):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.rule":
            for argument in call.args:
                yield Mark(ast.literal_eval(argument), place)


def tests_by_rule(rules: Sequence[Rule], marks: Iterable[Mark]) -> dict[str, list[str]]:
    """Return the tests of each marked rule, by its whole name.

    Raises:
        ValueError: a mark that names no rule, or several.
    """
    shared = {name for name, count in Counter(rule.name for rule in rules).items() if count > 1}
    known = {rule.rule: rule.rule for rule in rules}
    known |= {rule.name: rule.rule for rule in rules if rule.name not in shared}
    found: dict[str, list[str]] = {}
    for mark in marks:
        if mark.name not in known:
            what = "several rules: say SECTION." if mark.name in shared else "no rule: "
            raise ValueError(f"{mark.test} is marked with the name of {what}{mark.name}")
        tests = found.setdefault(known[mark.name], [])
        if mark.test not in tests:
            tests.append(mark.test)
    return found


# --------------------------------------------------------------------- what is written


def tables_of(rules: Rules, tests: Mapping[str, Sequence[str]]) -> str:
    """Return the tables, as Markdown."""
    lines = [*_HEAD, *_summary(rules.rules), ""]
    for section, of in groupby(rules.rules, key=lambda rule: rule.section):
        lines += [f"**{section}**", "", "| rule | asked | here | why; shown by |", "|---|---|---|---|"]
        lines += [_row(rule, tests.get(rule.rule, ())) for rule in of]
        lines.append("")
    lines += ["**scenarios of the seed**", "", "| scenario | here | played by |", "|---|---|---|"]
    lines += [f"| `{one.scenario}` | {one.here} | {_shown([one.test])} |" for one in rules.scenarios]
    return "\n".join([*lines, ""])


def _summary(rules: Sequence[Rule]) -> list[str]:
    kinds = ("built", "mapped", "refused", "n/a")
    counts = Counter((rule.asks, rule.here) for rule in rules)
    lines = [f"| asked | {' | '.join(kinds)} |", "|---|---|---|---|---|"]
    for asks in ("must", "should", "optional", "n/a"):
        lines.append(f"| {asks} | {' | '.join(str(counts[asks, kind]) for kind in kinds)} |")
    return lines


def _row(rule: Rule, tests: Sequence[str]) -> str:
    told = "; ".join(part for part in (rule.why, _shown(tests)) if part)
    return f"| `{rule.name}` | {rule.asks} | {rule.here} | {told} |"


def _shown(tests: Sequence[str]) -> str:
    names = ", ".join(f"`{test.removeprefix('tests/')}`" for test in tests[:_SHOWN])
    return names + (f" and {len(tests) - _SHOWN} more" if len(tests) > _SHOWN else "")


def written(readme: str, tables: str) -> str:
    """Return *readme* with the *tables* in their place."""
    head, _, rest = readme.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{tables}\n{END}{tail or chr(10)}"


def tables_now() -> str:
    """Return the tables that the tests and `rules.json` make."""
    rules = rules_of()
    return tables_of(rules, tests_by_rule(rules.rules, marks_in(ROOT / "tests")))


if __name__ == "__main__":
    README.write_text(written(README.read_text(), tables_now()))
