import pytest

from collated.health import Health


def failing(times: int, *, fingerprint: str | None = "f", now: float = 100.0) -> Health:
    health = Health()
    for _ in range(times):
        health.failed("/s", fingerprint, "it is broken", now)
    return health


@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_store_that_failed_once_or_twice_is_asked_again_at_once(times: int) -> None:
    assert failing(times).backed_off("/s", "f", 100.0) is None


def test_a_store_that_failed_three_times_in_a_row_is_left_alone_for_a_second() -> None:
    health = failing(3)

    assert health.backed_off("/s", "f", 100.0) == (
        "failed 3 times in a row, the last time: it is broken; "
        "tried again in 1 s, or at once after `collate rescan`"
    )
    assert health.backed_off("/s", "f", 100.9) is not None
    assert health.backed_off("/s", "f", 101.0) is None


@pytest.mark.parametrize(
    ("count", "wait"), [(3, 1.0), (4, 2.0), (8, 32.0), (9, 60.0), (10, 60.0), (5_000, 60.0)]
)
def test_each_further_failure_doubles_the_wait_up_to_a_minute(count: int, wait: float) -> None:
    health = failing(count)

    assert health.backed_off("/s", "f", 100.0 + wait - 0.01) is not None
    assert health.backed_off("/s", "f", 100.0 + wait) is None


def test_other_stores_are_not_held_to_account() -> None:
    assert failing(9).backed_off("/t", "f", 100.0) is None


def test_an_answer_clears_the_record() -> None:
    health = failing(9)
    health.answered("/s")
    health.failed("/s", "f", "again", 100.0)

    assert health.backed_off("/s", "f", 100.0) is None


def test_an_answer_of_a_store_without_a_record_is_no_news() -> None:
    health = Health()
    health.answered("/s")

    assert health.backed_off("/s", "f", 100.0) is None


def test_a_store_that_was_rewritten_starts_afresh() -> None:
    health = failing(9)

    assert health.backed_off("/s", "other", 100.0) is None
    health.failed("/s", "other", "broken anew", 100.0)
    assert health.backed_off("/s", "other", 100.0) is None
    assert health.backed_off("/s", "f", 100.0) is None


def test_everything_is_forgiven_when_a_person_asks() -> None:
    health = failing(9)
    health.forgive()

    assert health.backed_off("/s", "f", 100.0) is None
