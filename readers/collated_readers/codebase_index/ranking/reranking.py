"""What is added to a fused score for what the names, callers and paths of a place say. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from .found import Found
from .query import Asked, components_of
from .roles import is_test, prior_of

__all__ = ["first_of_files", "reranked"]

_TOGETHER, _TOGETHER_IN_TESTS = 1.8, 0.9
_OF_A_KIND = 0.05
_KINDS = frozenset({"function", "method", "class", "interface", "type"})
_EXACT, _NAMED, _IN_PATH, _STEM, _DEMOTED = 0.20, 0.05, 0.05, 0.20, -0.15
_CALLERS, _MOST_OF_CALLERS = 0.03, 0.08


class _File(Struct, frozen=True, gc=False):
    """What only the path of a place says."""

    components: frozenset[str]
    stem: str
    is_test: bool
    prior: float
    prior_for_tests: float


def reranked(found: Sequence[Found], asked: Asked) -> list[Found]:
    """Return *found* with what is added, best first; of equal ones those that were first."""
    weighed = [replace(one, score=one.score + _added(one, asked)) for one in found]
    return sorted(weighed, key=attrgetter("score"), reverse=True)


def first_of_files(found: Sequence[Found]) -> list[Found]:
    """Return the first of each file, in order, and then the others."""
    seen: set[str] = set()
    first: list[Found] = []
    others: list[Found] = []
    for one in found:
        (others if one.path in seen else first).append(one)
        seen.add(one.path)
    return first + others


def _added(one: Found, asked: Asked) -> float:
    file = _file_of(one.path)
    is_demoted = one.is_generated or (file.is_test and asked.words.isdisjoint(("test", "tests")))
    added = _for_names(one, file, asked, is_demoted=is_demoted)
    added += _for_callers(one, is_architecture=asked.is_architecture)
    path = one.path.lower()
    if any(word in path for word in asked.words):
        added += _IN_PATH
    if not is_demoted and file.stem in asked.words:
        added += _STEM
    added += file.prior_for_tests if asked.is_about_tests else file.prior
    return added + (_DEMOTED if is_demoted else 0.0)


def _for_names(one: Found, file: _File, asked: Asked, *, is_demoted: bool) -> float:
    added = 0.0
    if len(asked.terms) > 1:
        names = file.components | components_of(one.name) if one.name else file.components
        together = len(asked.written & names) - 1
        if together > 0:
            most = _TOGETHER_IN_TESTS if is_demoted else _TOGETHER
            added += most * together / (len(asked.terms) - 1)
    if one.kind in _KINDS:
        added += _OF_A_KIND
    if one.is_exact:
        added += _EXACT
    if one.name and one.name.lower() in asked.words:
        added += _NAMED
    return added


def _for_callers(one: Found, *, is_architecture: bool) -> float:
    added = 0.0
    if one.callers:
        added += min(_MOST_OF_CALLERS, _CALLERS * math.log1p(one.callers))
    elif one.uses:
        added += min(_MOST_OF_CALLERS / 2, _CALLERS / 2 * math.log1p(one.uses))
    if is_architecture:
        added += min(_MOST_OF_CALLERS, _CALLERS / 2 * math.log1p(one.callers + one.callees))
    return added


@lru_cache(maxsize=10_000)
def _file_of(path: str) -> _File:
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    return _File(
        components=frozenset(components_of(name.rsplit(".", 1)[0])),
        stem=path.rsplit("/", 1)[-1].split(".", 1)[0].lower(),
        is_test=is_test(path),
        prior=prior_of(path, is_about_tests=False),
        prior_for_tests=prior_of(path, is_about_tests=True),
    )
