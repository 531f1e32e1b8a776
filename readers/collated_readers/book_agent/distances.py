"""Scores of stored vectors against one vector: roughly for many, exactly for the few that may win.

What BLAS makes of a row depends on the rows around it, by some 1e-7 of float32, and equal vectors
would then not tie. So its numbers only say, with their bound, which rows can be among the best. Those
are scored row by row in float64, in one order of operations: a score is a function of the two vectors
alone. Numbers are scaled by powers of two first, which is exact, so no square is out of range.

This module brings in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from collated_readers.contract import RequestError
from collated_readers.vectors import Metric

from .decoding import Batch, Matrix
from .layout import Layout

__all__ = ["Asked", "asked_of", "exact_scores", "hopeful"]

Numbers = NDArray[np.float64]

_LARGEST_EXPONENT = 1_000  # two to this is a number, and its inverse too

_SQUARES = {4: (1e-20, 1e30), 8: (1e-200, 1e200)}
"""Squared lengths, by size of number, between which rough scores keep their bound."""


class Asked(Struct, frozen=True):
    """The vector asked for, normalised where the store's are; `scaled * 2**exponent`, and its length."""

    scaled: Numbers
    exponent: int
    direction: Numbers
    length: float
    metric: Metric


def asked_of(layout: Layout, vector: Sequence[float]) -> Asked:
    """Return what to search for.

    Raises:
        RequestError: `invalid_query_vector`: its length, zero, or what is no finite number.
    """
    numbers = _numbers(vector)
    if len(numbers) != layout.dimensions:
        raise _invalid(f"it has {len(numbers)} dimensions, and those of the store have {layout.dimensions}")
    if not np.isfinite(numbers).all():
        raise _invalid("it holds numbers that are not finite")
    if not numbers.any():
        raise _invalid("all its numbers are zero")
    scaled, exponents = _scaled(numbers[np.newaxis])
    direction = scaled[0] / np.sqrt(np.square(scaled[0]).sum())
    if layout.is_normalized and layout.metric != "l2":
        return Asked(direction, 0, direction, 1.0, layout.metric)
    exponent = int(exponents[0])
    with np.errstate(over="ignore"):
        length = float(np.ldexp(np.sqrt(np.square(scaled[0]).sum()), exponent))
    return Asked(scaled[0], exponent, direction, length, layout.metric)


def _numbers(vector: Sequence[object]) -> Numbers:
    numbers = [each for each in vector if not isinstance(each, bool) and isinstance(each, Real)]
    if len(numbers) < len(vector):
        raise _invalid("it must hold numbers alone")
    try:
        return np.array([float(each) for each in numbers], np.float64)
    except OverflowError as error:
        raise _invalid("it holds numbers that are not finite") from error


def _invalid(what: str) -> RequestError:
    return RequestError("invalid_query_vector", f"the vector asked for is wrong: {what}")


def hopeful(batch: Batch, asked: Asked, worst: float | None) -> NDArray[np.intp]:
    """Return the rows of *batch* that may have a score as good as *worst*; all for None."""
    if worst is None:
        return np.arange(len(batch.ids))
    vectors = batch.vectors
    size = vectors.dtype.itemsize
    with np.errstate(all="ignore"):
        # Row by row: for a batch this small the threads of a whole product cost more than they save.
        along = np.vecdot(vectors, asked.direction.astype(vectors.dtype)).astype(np.float64)
        lengths = np.sqrt(batch.squares)
        # Twice what the sum of that many products, in any order, can be wrong for rows of length 1.
        unit = (vectors.shape[1] + 16) * float(np.finfo(vectors.dtype).eps)
        goodness, bound = _rough(asked, along, lengths, unit)
        least = -(worst**2) if asked.metric == "l2" else worst
        low, high = _SQUARES[size]
        is_sure = (batch.squares > low) & (batch.squares < high) & (goodness + bound < least)
    return np.flatnonzero(~is_sure)


def _rough(asked: Asked, along: Numbers, lengths: Numbers, unit: float) -> tuple[Numbers, Any]:
    """Return how good each row is, higher being better, and how far that may be from the truth.

    *along* are the rows times the direction asked for, *unit* the error of that for a row of length 1.
    """
    if asked.metric == "dot":
        return along * asked.length, unit * lengths * asked.length
    if asked.metric == "cosine":
        return along / lengths, unit
    squares = np.square(lengths) - 2 * along * asked.length + asked.length**2
    return -squares, unit * np.square(lengths + asked.length)


def exact_scores(vectors: Matrix, asked: Asked, block: int) -> Numbers:
    """Return the metric's own number for each row, *block* rows at a time; infinite where it is too large."""
    parts = [_exact(vectors[at : at + block], asked) for at in range(0, len(vectors), block)]
    return np.concatenate([np.empty(0), *parts])


def _exact(vectors: Matrix, asked: Asked) -> Numbers:
    scaled, exponents = _scaled(vectors.astype(np.float64))
    with np.errstate(over="ignore"):
        if asked.metric == "l2":
            common = np.maximum(exponents, asked.exponent)
            apart = _shifted(scaled, exponents - common)
            apart -= _shifted(asked.scaled[np.newaxis], asked.exponent - common)
            far: Numbers = np.ldexp(np.sqrt(np.square(apart, out=apart).sum(axis=1)), common)
            return far
        along: Numbers = (scaled * asked.scaled).sum(axis=1)
        if asked.metric == "dot":
            return np.asarray(np.ldexp(along, exponents + asked.exponent))
        lengths: Numbers = np.sqrt(np.square(scaled, out=scaled).sum(axis=1))
        return along / (lengths * float(np.sqrt(np.square(asked.scaled).sum())))


def _scaled(vectors: Numbers) -> tuple[Numbers, NDArray[np.int64]]:
    """Return *vectors*, each row's largest number from ½ to 1, and the exponents that are taken out."""
    exponents = np.frexp(np.abs(vectors).max(axis=1))[1].astype(np.int64)
    return _shifted(vectors, -exponents), exponents


def _shifted(vectors: Numbers, exponents: NDArray[np.int64]) -> Numbers:
    """Return each row times two to its exponent; `ldexp` takes every exponent, and ten times as long."""
    if len(exponents) and np.abs(exponents).max() < _LARGEST_EXPONENT:
        return vectors * np.ldexp(1.0, exponents)[:, np.newaxis]
    return np.ldexp(vectors, exponents[:, np.newaxis])
