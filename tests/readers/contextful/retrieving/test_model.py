"""A whole ranked read against a plain model of retrieve.md, of rows in one table without sidecars."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers.contextful.loading import load_store
from collated_readers.contextful.model import Bounds
from collated_readers.contextful.session import Session, open_session

if TYPE_CHECKING:
    from collated_readers.contextful.retrieving import Retrieved

Ask = Callable[..., "Retrieved"]
Row = dict[str, Any]
Question = tuple[list[str], str | None, list[float] | None]
"""Words, `since`, and a vector."""

WORDS = ("solar", "battery", "storage", "grids", "the")
COLUMNS = {"id": "utf8", "body": "utf8", "hash": "utf8", "published": "utf8", "embedding": "float32[2]"}
DAYS = ("2030-01-01", "2030-01-02", "2030-01-03", "2030-01-03T12:00:00+12:00", "someday")
RUNS = ("2030-01-10T00:00:00Z", "2030-01-11T00:00:00Z")

rows = st.lists(
    st.fixed_dictionaries(
        {
            "run": st.integers(0, 1),
            "body": st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join) | st.none(),
            "hash": st.sampled_from(["a", "b", None]),
            "published": st.sampled_from(DAYS) | st.none(),
            "embedding": st.sampled_from([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5], [0.0, 0.0], [0.5, 0.5]])
            | st.none(),
        }
    ),
    max_size=14,
)


@pytest.mark.slow
@pytest.mark.rule("ranked-call", "relevance-floor", "row-key-dedup", "fusion", "question-window-is-a-tier")
@given(
    given_rows=rows,
    question=st.tuples(
        st.lists(st.sampled_from(WORDS), max_size=4),
        st.sampled_from([None, "2030-01-02"]),
        st.sampled_from([None, [1.0, 0.0], [0.3, -2.0]]),
    ),
)
def test_rows_come_as_a_plain_model_orders_them(
    read: Callable[[list[Row]], Session],
    asked: Ask,
    given_rows: list[Row],
    question: Question,
) -> None:
    words, since, vector = question
    numbered = _numbered(given_rows)
    found = asked(read(numbered), " ".join(words), since=since, query_embedding=vector, limit=50)
    assert [row[1]["id"] for row in found.rows] == [row["id"] for row in _ordered(numbered, question)]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory, maker: Any) -> Iterator[Callable[[list[Row]], Session]]:
    with ExitStack() as stack:

        def make(given_rows: list[Row]) -> Session:
            store = stack.enter_context(closing(maker.StoreMaker(tmp_path_factory.mktemp("model"))))
            table = store.table("t", COLUMNS, content_hash_column="hash", retrieve={"text": ["body"]})
            for number, at in enumerate(RUNS):
                table.run(f"r{number}", [row for row in given_rows if row["run"] == number], at)
            session = open_session(load_store(store.root), Bounds(), memory_bytes=1 << 28, threads=1)
            return stack.enter_context(closing(session))

        yield make


def _numbered(given_rows: list[Row]) -> list[Row]:
    numbers = [0, 0]
    numbered: list[Row] = []
    for row in given_rows:
        numbered.append({**row, "id": f"{row['run']}-{numbers[row['run']]}", "seq": numbers[row["run"]]})
        numbers[row["run"]] += 1
    return numbered


# ------------------------------------------------------------------------ the model


def _ordered(all_rows: list[Row], question: Question) -> list[Row]:
    words, since, vector = question
    tokens = list(dict.fromkeys(word for word in words if word != "the"))
    floor = 2 if len(tokens) >= 3 else 1
    kept: list[Row] = []
    for row in all_rows:
        tf = [_times(token, (row["body"] or "").split()) for token in tokens]
        cosine = _cosine(row["embedding"], vector)
        is_relevant = not tokens or sum(map(bool, tf)) >= floor or (cosine or 0) > 0
        is_older = any(
            other["hash"] == row["hash"] and (other["run"], other["seq"]) > (row["run"], row["seq"])
            for other in all_rows
        )
        if is_relevant and not (tokens and row["hash"] is not None and is_older):
            kept.append({**row, "tf": tf, "cosine": cosine})
    _score(kept, tokens)
    is_ranked = any(row["bm25"] is not None or row["cosine"] is not None for row in kept)

    def key(row: Row) -> tuple[Any, ...]:
        at = _instant(row["published"])
        is_in = since is None or (at is not None and at >= 2)
        recency = at if at is not None else 10 + row["run"]
        return (not is_in, -(row["fused"] if is_ranked else recency), f"r{row['run']}\x1f{row['seq']}")

    return sorted(kept, key=key)


def _times(token: str, words: Sequence[str]) -> int:
    return sum(1 for word in words if word in (token, token + "s", token + "es"))


def _cosine(one: list[float] | None, other: list[float] | None) -> float | None:
    if one is None or other is None or not any(one):
        return None
    return (one[0] * other[0] + one[1] * other[1]) / (math.hypot(*one) * math.hypot(*other))


def _instant(day: str | None) -> float | None:
    return {"2030-01-01": 1, "2030-01-02": 2, "2030-01-03": 3, "2030-01-03T12:00:00+12:00": 3}.get(day or "")


def _score(kept: list[Row], tokens: list[str]) -> None:
    lengths = [len((row["body"] or "").split()) for row in kept]
    for row, length in zip(kept, lengths, strict=True):
        score = 0.0
        for place in range(len(tokens)):
            df = sum(1 for other in kept if other["tf"][place])
            idf = math.log(1 + (len(kept) - df + 0.5) / (df + 0.5))
            tf = row["tf"][place]
            if tf:
                damping = 1.2 * (0.25 + 0.75 * length / (sum(lengths) / len(kept)))
                score += idf * tf * 2.2 / (tf + damping)
        row["bm25"] = round(score, 12) if any(row["tf"]) else None
    for row in kept:
        greater = [
            o for o in kept if o["bm25"] is not None and row["bm25"] is not None and o["bm25"] > row["bm25"]
        ]
        rrf = 0.0 if row["bm25"] is None else 61 / (61 + len(greater))
        row["fused"] = round(0.6 * min(max(row["cosine"] or 0.0, 0.0), 1.0) + 0.4 * rrf, 9)
