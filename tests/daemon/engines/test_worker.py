"""What a worker makes of whatever its handler does; in this process."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest

from collated.engines.jobs import Answer, Fault, Job
from collated.engines.worker import outcome
from collated_readers import RequestError, StoreError

JOB = Job("tool", os.fsencode("/a/\udcff"), {"x": 1}, 1000)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Raising:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def answer(self, tool: str, root: str, params: dict[str, Any], deadline_s: float) -> Any:
        raise self.error


class Telling:
    def answer(self, tool: str, root: str, params: dict[str, Any], deadline_s: float) -> Any:
        return (tool, root, params, deadline_s)


def test_a_handler_is_told_the_job_and_the_time_left() -> None:
    assert outcome(Telling(), JOB, 0.5) == Answer(("tool", "/a/\udcff", {"x": 1}, 0.5))


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (RequestError("unknown_id", "no", "try"), Fault("request", "unknown_id", "no", "try")),
        (StoreError("damaged", "broken"), Fault("store", "damaged", "broken")),
    ],
)
def test_what_the_readers_raise_is_told_as_it_is(error: Exception, fault: Fault) -> None:
    assert outcome(Raising(error), JOB, 1.0) == Answer(fault=fault)


@pytest.mark.parametrize(
    ("error", "code", "is_last"),
    [
        (MemoryError(), "engine_memory", True),
        (ZeroDivisionError("x"), "internal", False),
        (RecursionError(), "internal", False),
        (SystemError("the interpreter is in doubt"), "internal", True),
        (SystemExit(), "internal", True),
        (KeyboardInterrupt(), "internal", True),
        (Unspeakable(), "internal", False),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "\ud800"), "internal", False),
    ],
)
def test_anything_else_is_an_answer_too(error: BaseException, code: str, *, is_last: bool) -> None:
    answer = outcome(Raising(error), JOB, 1.0)
    assert answer.fault is not None
    assert (answer.fault.code, answer.is_last) == (code, is_last)
    assert "/a/" not in answer.fault.message
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(answer), type=Answer) == answer
