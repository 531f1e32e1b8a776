from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated_readers import RequestError
from collated_readers.contextful.instants import parse_instant
from collated_readers.contextful.model import Run

SECOND = 1_000_000_000


def run(run_id: str, seq: int | None, node: str = "ingest-a", at: int | None = None) -> Run:
    return Run(run_id, node, (seq or 0) * SECOND if at is None else at, commit_seq=seq)


RUNS = [run("r1", 1), run("r2", 2), run("r3", 3)]


def told(answer: dict[str, Any]) -> list[str]:
    return [f"{one['run_id']}/{one['node_id']}" for one in answer["messages"] if one["kind"] == "commit"]


@pytest.mark.rule("resume")
def test_runs_after_a_position_are_told_once(call_listed: Any) -> None:
    answer = call_listed(
        "context.subscribe", {"events": RUNS}, tables=["events"], after={"events": "r1/ingest-a"}
    )

    assert told(answer) == ["r2/ingest-a", "r3/ingest-a"]
    assert answer["after"] == {"events": "r3/ingest-a"}


@pytest.mark.rule("tool-poll")
def test_a_poll_goes_on_where_the_last_one_ended(call_listed: Any) -> None:
    first = call_listed("context.subscribe", {"events": RUNS}, tables=["events"])
    nothing = call_listed("context.subscribe", {"events": RUNS}, tables=["events"], after=first["after"])
    more = call_listed(
        "context.subscribe", {"events": [*RUNS, run("r4", 4)]}, tables=["events"], after=nothing["after"]
    )

    assert told(first) == ["r1/ingest-a", "r2/ingest-a", "r3/ingest-a"]
    assert (nothing["messages"], nothing["after"]) == ([], first["after"])
    assert told(more) == ["r4/ingest-a"]


@pytest.mark.rule("notification", "no-content")
def test_a_notification_says_which_run_and_its_frontier_and_nothing_of_its_rows(call_listed: Any) -> None:
    at = parse_instant("2030-01-10T00:00:00.25Z")
    answer = call_listed("context.subscribe", {"events": [run("r1", 7, at=at)]}, tables=["events"])

    assert answer["messages"] == [
        {
            "kind": "commit",
            "table": "events",
            "run_id": "r1",
            "node_id": "ingest-a",
            "frontier": {"as_of": "2030-01-10T00:00:00.25Z", "commit_seq": 7},
        }
    ]


@pytest.mark.rule("commit-order")
def test_runs_are_told_in_the_order_of_their_numbers_not_of_their_clocks(call_listed: Any) -> None:
    runs = [run("late", 2, at=1), run("old", None, at=9), run("early", 1, "ingest-b", at=5)]
    answer = call_listed("context.subscribe", {"events": runs}, tables=["events"])

    assert told(answer) == ["old/ingest-a", "early/ingest-b", "late/ingest-a"]


@pytest.mark.rule("commit-order")
def test_a_later_run_waits_for_one_that_may_still_be_committed(call_listed: Any) -> None:
    runs = [run("r4", 4), run("r6", 6)]
    held = call_listed("context.subscribe", {"events": runs}, waiting={"events": [5]}, tables=["events"])
    landed = call_listed(
        "context.subscribe", {"events": [*runs, run("r5", 5)]}, tables=["events"], after=held["after"]
    )

    assert told(held) == ["r4/ingest-a"]
    assert told(landed) == ["r5/ingest-a", "r6/ingest-a"]


@pytest.mark.rule("position-unavailable")
@pytest.mark.parametrize("position", ["r9/ingest-a", "r1", "r1/ingest-b", ""])
def test_a_position_that_is_no_run_is_refused_naming_the_oldest(call_listed: Any, position: str) -> None:
    with pytest.raises(RequestError) as caught:
        call_listed("context.subscribe", {"events": RUNS}, tables=["events"], after={"events": position})

    assert caught.value.code == "SubscriptionPositionUnavailable"
    assert "r1/ingest-a" in caught.value.message


@pytest.mark.rule("overrun")
@pytest.mark.parametrize(("runs", "is_overrun"), [(1000, False), (1001, True)])
def test_a_page_ends_after_a_thousand_and_says_where(call_listed: Any, runs: int, is_overrun: bool) -> None:
    many = [run(f"r{seq:04}", seq) for seq in range(runs)]
    answer = call_listed("context.subscribe", {"events": many}, tables=["events"])

    assert told(answer) == [one.key for one in many[:1000]]
    assert (answer["messages"][-1]["kind"] == "overrun") is is_overrun
    assert answer["after"] == {"events": many[999].key}
    if is_overrun:
        assert answer["messages"][-1] == {"kind": "overrun", "after": answer["after"]}


@pytest.mark.rule("ungranted-table")
def test_an_unknown_table_is_refused_before_any_position_is_looked_up(call_listed: Any) -> None:
    with pytest.raises(RequestError) as caught:
        call_listed(
            "context.subscribe", {"events": RUNS}, tables=["events", "secret"], after={"events": "no/run"}
        )

    assert caught.value.code == "EnforceUnknownRelation"


def test_a_position_of_a_table_that_is_not_asked_for_is_refused(call_listed: Any) -> None:
    with pytest.raises(RequestError) as caught:
        call_listed(
            "context.subscribe",
            {"events": RUNS, "notes": RUNS},
            tables=["events"],
            after={"notes": "r1/ingest-a"},
        )

    assert caught.value.code == "invalid_params"


@pytest.mark.rule("overrun", "commit-order", "resume", "tool-poll")
@given(
    seqs=st.dictionaries(
        st.sampled_from(["a", "b", "c/d"]), st.lists(st.integers(0, 9000), unique=True, max_size=12)
    ),
    clock=st.randoms(use_true_random=False),
)
def test_pages_together_tell_every_run_of_every_table_once_in_order(
    call_listed: Any, seqs: dict[str, list[int]], clock: Any
) -> None:
    tables = {
        name: [run(f"r{seq}", seq, at=clock.randrange(100)) for seq in numbers]
        for name, numbers in seqs.items()
    }
    if not tables:
        return
    pages, after = list[dict[str, Any]](), dict[str, str]()
    for known in range(13):  # runs land one by one, in the order of their numbers
        so_far = {
            name: sorted(runs, key=lambda one: one.commit_seq or 0)[:known] for name, runs in tables.items()
        }
        answer = call_listed("context.subscribe", so_far, tables=list(tables), after=after)
        pages += answer["messages"]
        after = answer["after"]

    for name, numbers in seqs.items():
        assert [one["frontier"]["commit_seq"] for one in pages if one["table"] == name] == sorted(numbers)
