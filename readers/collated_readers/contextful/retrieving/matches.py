"""What a store answers in a search over many: rows by how much of the question stands in them (DESIGN §5).

Unlike `corpus.retrieve`, which looks at the newest rows and at what sidecars name, all rows are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from collated_readers.codes import RequestError
from collated_readers.contextful.reads import Reads
from collated_readers.contextful.schemas import quoted
from collated_readers.contextful.wire import Found
from collated_readers.contract import TIERS, Tier

from .arms import Arm, Row, arm_of, names_of
from .candidates import rows_of
from .columns import SEPARATOR, heading_column, joined, text_of
from .gathering import Scored, floor_of, scored
from .matching import together
from .retrieve import scores_of
from .tokens import content_tokens

__all__ = ["matches"]

_MOST = 1_000  # rows of one table that are scored: those that hold most tokens, of these the newest
_OTHERWISE_SMALL = frozenset("σς\u0307")  # letters whose capitals the engine makes small in another way
_IDENTITY = ("_run_id", "_row_seq", "_site_id")
_SNIPPET_CHARACTERS = 160
_BEFORE = 40  # of them, in front of the first token


def matches(reads: Reads, query: str, limit: int, passes: Callable[[str], bool] | None = None) -> list[Found]:
    """Return the best *limit* rows of all tables that hold text and whose name *passes*, best first.

    The order is (tier, rank, id), and a list of one more begins with this one. Where a run of one node has
    the name of another's, the id names the better row. A table that cannot be read is left out.
    """
    tokens = content_tokens(query)
    if not tokens:
        return []
    floor = floor_of(tokens, None) or 1
    held = [row for arm in _arms(reads, passes) for row in _holding(reads, arm, tokens, floor)]
    found = [one for one in scored(held, tokens) if one.passes(floor)]
    best: dict[str, tuple[Tier, float, Scored]] = {}
    for tier, rank, record_id, one in _order(found, tokens):
        best.setdefault(record_id, (TIERS[tier], rank, one))
    return [
        _found(record_id, tier, rank, (one, tokens))
        for record_id, (tier, rank, one) in list(best.items())[:limit]
    ]


def _arms(reads: Reads, passes: Callable[[str], bool] | None) -> Iterator[Arm]:
    for name in names_of(reads, "", None):
        if passes is not None and not passes(name):
            continue
        try:
            reads.touch([name])
            arm = arm_of(reads.store.tables[name], reads.columns(name), with_vectors=False)
        except RequestError:  # what is wrong with a table is said in the store's details
            continue
        if arm is not None and arm.scored:
            needed = dict.fromkeys((*_IDENTITY, *arm.scored, *arm.shown))
            selected = tuple(name for name in needed if name in arm.types)
            yield msgspec.structs.replace(arm, selected=selected, key=None)


def _holding(reads: Reads, arm: Arm, tokens: Sequence[str], floor: int) -> list[Row]:
    """Return the rows whose text holds *floor* tokens or more, wherever in it: more than will match."""
    texts = ", ".join(_text(arm, name) for name in arm.scored)
    sure = [token for token in tokens if _OTHERWISE_SMALL.isdisjoint(token)]
    text, count = _unused(arm.types, "_text"), _unused(arm.types, "_count")
    parts = [f"contains({text}, ?)::INTEGER"] * len(sure) + ["1"] * (len(tokens) - len(sure))
    small = f"SELECT *, lower(concat_ws('{SEPARATOR}', {texts})) AS {text} FROM {quoted(arm.table)}"  # noqa: S608
    counted = f"SELECT *, {' + '.join(parts)} AS {count} FROM ({small})"  # noqa: S608 - quoted names
    names = ", ".join(map(quoted, arm.selected))
    best = f"ORDER BY {count} DESC, {arm.order} LIMIT {_MOST}"
    sql = f"SELECT {names} FROM ({counted}) WHERE {count} >= {floor} {best}"  # noqa: S608 - quoted names
    return rows_of(arm, reads.query(sql, sure).rows)


def _text(arm: Arm, column: str) -> str:
    cell = quoted(column)
    return cell if arm.types[column] == "VARCHAR" else f"CAST(to_json({cell}) AS VARCHAR)"


def _unused(names: Collection[str], name: str) -> str:
    while name in {other.casefold() for other in names}:  # the engine does not look at case
        name += "_"
    return quoted(name)


def _order(found: Sequence[Scored], tokens: Sequence[str]) -> list[tuple[int, float, str, Scored]]:
    """Return (place of the tier, rank, id, row) of all rows, best first."""
    stand_together = together(tokens)
    keyed = [
        (_tier(one, stand_together), -(score or 0.0), _record_id(one.row), one)
        for one, score in zip(found, scores_of(found), strict=True)
    ]
    return sorted(keyed, key=lambda one: (one[0], one[1], one[2].encode(), one[3].row.identity))


def _tier(one: Scored, stand_together: Callable[[str], bool]) -> int:
    if not all(one.counts):
        return TIERS.index("any")
    return TIERS.index("phrase" if stand_together(one.row.text or "") else "all")


def _record_id(row: Row) -> str:
    return "/".join((row.arm.table, *row.identity[:2]))


def _found(record_id: str, tier: Tier, rank: float, of: tuple[Scored, Sequence[str]]) -> Found:
    one, tokens = of
    row = one.row
    label = heading_column(row.arm.shown)
    heading = None if label is None else row.cell(label)
    return Found(
        id=record_id,
        tier=tier,
        rank=rank,
        doc=row.arm.table,
        heading_path=row.arm.table if heading is None else text_of(heading),
        snippet=_excerpt(joined(map(row.cell, row.arm.scored)), tokens),
    )


def _excerpt(text: str, tokens: Sequence[str]) -> str:
    """Return what stands around the first token of *text*, on one line."""
    line = " ".join(text.split())
    lower = line.lower()
    first = min((place for token in tokens if (place := lower.find(token)) >= 0), default=0)
    start = max(first - _BEFORE, 0)
    cut = line[start : start + _SNIPPET_CHARACTERS]
    return f"{'…' if start else ''}{cut}{'…' if start + len(cut) < len(line) else ''}"
