"""Part `code`: symbols, references and search over code stores, the program against the daemon."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from collated.protocol import ReferencesResult, SearchResult, SymbolsResult

from .asking import INSIDE, LONE, Asker, search_params
from .bench import FEW, UNCACHED, Bench
from .comparing import REFERENCE, Compared, Way, alone, compare, whole
from .documents import shared_data
from .program import MOST, Place, Program
from .report import Report, ms, times, us
from .serving import serving
from .wire import LONG_MS

__all__ = ["run"]

_STORES = 20
_GOAL = 5
_KINDS = ("symbol lookup", "references", "search")
_GOALS = ("symbol lookup", "search")  # what the goal is set for
_WAYS = (LONE, INSIDE)

_SYMBOLS: Mapping[str, Sequence[str]] = {
    "exact name": ("Typer", "BaseModel", "get_params_from_function", "FieldInfo"),
    "prefix": ("Typ", "Valid", "generat", "Conf"),
    "`Owner.member`": (
        "Typer.command",
        "BaseModel.model_dump",
        "FieldInfo.merge_field_infos",
        "main.get_command",
    ),
}
_REFERENCES: Mapping[str, Sequence[str]] = {
    "references to a name": ("get_command", "echo", "FieldInfo", "model_validate"),
}
_SEARCHES: Mapping[str, Sequence[str]] = {
    "search, one word": ("completion", "validator", "prompt", "alias"),
    "search, two words": ("completion script", "alias generator", "prompt confirmation", "strict mode"),
    "search, identifier": (
        "get_params_from_function",
        "model_validate_json",
        "TyperGroup",
        "modelJsonSchema",
    ),
    "search, question": (
        "how does the completion get installed for zsh",
        "where is the JSON schema generated",
        "how does model_validate work",
        "which options can be shown in a panel of the help",
    ),
}


class _Asked(NamedTuple):
    """How both sides are asked the same: the program, and the daemon, and what is compared of its answer."""

    program: Callable[[str], Any]
    method: str
    params: Callable[[str], Mapping[str, object]]
    result: type[Struct]
    shown: Callable[[Any], Any]


def run(bench: Bench, report: Report) -> None:
    """Compare both sides over the same stores, and hold symbol lookup and search to their goals."""
    sources = _sources()
    if not sources:
        report.text("", "No code stores: those that the program made are not on this machine.")
        for kind in _GOALS:
            report.goal(_goal(kind), "", None)
        return
    ours, theirs = (_lay_out(sources, bench.folder(f"code-{side}")) for side in ("ours", "theirs"))
    with closing(Program(theirs)) as program, serving(ours[0].parent, _STORES, **UNCACHED) as asker:
        compared: dict[str, Compared] = dict(zip(_KINDS, _over(bench, program, asker), strict=True))
        stores = len(program.with_references())
    _show(report, compared, stores)


def _sources() -> list[Path]:
    """Return stores with symbols that the program's releases made of two real projects."""
    folder = shared_data("codebase-index")
    current = (folder / name / "index.sqlite" for name in ("typer", "pydantic"))
    return [path for path in (*current, *sorted(folder.glob("schema_versions/*.sqlite"))) if path.is_file()]


def _lay_out(sources: Sequence[Path], folder: Path) -> list[Path]:
    """Copy *sources*, again and again, as so many stores with names of their own, and return their paths."""
    folder.mkdir()
    return [
        Path(shutil.copyfile(source, folder / f"code-{number:02d}.sqlite"))
        for number, source in enumerate(islice(cycle(sources), _STORES))
    ]


# --------------------------------------------------------------------------- measuring


def _over(bench: Bench, program: Program, asker: Asker) -> Iterator[Compared]:
    able = program.with_references()
    symbols = _Asked(program.symbols, "symbols", _named, SymbolsResult, _symbol_places)
    references = _Asked(
        partial(program.references, stores=able),
        "references",
        partial(_named, stores=able),
        ReferencesResult,
        _reference_places,
    )
    search = _Asked(program.search, "search", search_params, SearchResult, whole)
    for asked, texts in ((symbols, _SYMBOLS), (references, _REFERENCES), (search, _SEARCHES)):
        yield _compare(bench, asker, asked, texts)


def _compare(bench: Bench, asker: Asker, asked: _Asked, texts: Mapping[str, Sequence[str]]) -> Compared:
    result = Compared()
    for kind, each in texts.items():
        for text in each[:1] if bench.is_quick else each:
            theirs = asked.program(text)
            ways = {name: partial(_ask, ask, asker, asked, text) for name, ask in _ASKED.items()}
            # Rankings differ on purpose, places do not: a search must only stay the same.
            ours = ways[LONE]()[1][0] if asked.method == "search" else theirs
            compare(
                result,
                kind,
                {
                    REFERENCE: Way(alone(partial(asked.program, text)), [theirs]),
                    **{name: Way(turn, [ours]) for name, turn in ways.items()},
                },
                bench.rounds(FEW),
            )
    return result


_ASKED: Mapping[str, Callable[..., tuple[float, Any]]] = {LONE: Asker.lone, INSIDE: Asker.inside}


def _ask(
    way: Callable[..., tuple[float, Any]], asker: Asker, asked: _Asked, text: str
) -> tuple[float, list[Any]]:
    seconds, answer = way(asker, asked.method, asked.params(text), asked.result)
    return seconds, [asked.shown(answer)]


def _named(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "limit": MOST, "deadline_ms": LONG_MS, **more}


def _symbol_places(result: SymbolsResult) -> list[Place]:
    _check(result)
    return [Place(each.name, each.path, each.line_start, each.store) for each in result.symbols]


def _reference_places(result: ReferencesResult) -> list[Place]:
    _check(result)
    return [Place(each.kind, each.path, each.line, each.store) for each in result.references]


def _check(result: SymbolsResult | ReferencesResult) -> None:
    if not result.complete or result.truncated:
        raise RuntimeError(f"an answer is not whole: {result.stores.failed[:3]}")


# --------------------------------------------------------------------------- showing


def _show(report: Report, compared: Mapping[str, Compared], with_references: int) -> None:
    answers = sum(each.answers for each in compared.values())
    differing = [text for each in compared.values() for text in each.differing]
    report.section(
        f"{_STORES} code stores",
        f"Copies of the stores that `codebase_index` and its older releases made of two projects. Reference: "
        "that program's own functions over other copies of them, all open, in one process, one after the "
        "other; references are asked of both sides for the "
        f"{with_references} stores of which the program can tell them. The daemon remembers no answer; it "
        "has all symbols in memory, and words as arrays. Definitions and references are compared with the "
        "program's, by place and in order; rankings differ "
        f"on purpose, so a search must only give the same each time: {report.compared(answers, differing)}.",
    )
    report.table(
        ("asked", "reference, ms", *(f"{way}, µs" for way in _WAYS), *(f"**{way}**" for way in _WAYS)),
        [
            (
                kind or f"**all: {name}**",
                ms(result.median_s(REFERENCE, kind)),
                *(us(result.median_s(way, kind)) for way in _WAYS),
                *(f"{times(result.ratio(way, kind))}×" for way in _WAYS),
            )
            for name, result in compared.items()
            for kind in (*result.seconds, *([None] if len(result.seconds) > 1 else []))
        ],
    )
    report.goal(f"{_STORES} code stores: same places", f"{len(differing)} differ", not differing)
    for name in _GOALS:
        ratio = compared[name].ratio(LONE)
        report.goal(_goal(name), f"{times(ratio)}×", ratio >= _GOAL)


def _goal(name: str) -> str:
    return f"{name} over {_STORES} code stores: ≥ {_GOAL}× at the median"
