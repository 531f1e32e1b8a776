"""Frames: any cut of any messages comes out as the same messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.engines.frames import FrameError, Frames, framed


def taken(frames: Frames) -> list[bytes]:
    bodies: list[bytes] = []
    while (body := frames.take()) is not None:
        bodies.append(body)
    return bodies


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 40)))
def test_messages_come_out_as_they_went_in_however_they_were_cut(
    bodies: list[bytes], lengths: list[int]
) -> None:
    stream = b"".join(framed(body) for body in bodies)
    frames = Frames()
    found: list[bytes] = []
    for length in [*lengths, len(stream)]:
        frames.feed(stream[:length])
        stream = stream[length:]
        found += taken(frames)
    frames.feed(stream)
    assert found + taken(frames) == bodies
    assert frames.is_empty


@given(st.binary(max_size=30), st.integers(0, 30))
def test_no_more_is_let_in_or_out_than_the_limit(body: bytes, limit: int) -> None:
    frames = Frames(limit)
    if len(body) <= limit:
        frames.feed(framed(body, limit))
        assert taken(frames) == [body]
        return
    with pytest.raises(FrameError):
        framed(body, limit)
    frames.feed(framed(body)[:4])
    with pytest.raises(FrameError):
        frames.take()


def test_half_a_message_is_none() -> None:
    frames = Frames()
    frames.feed(framed(b"abc")[:-1])
    assert frames.take() is None
    assert not frames.is_empty
