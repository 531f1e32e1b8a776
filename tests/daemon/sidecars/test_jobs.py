"""Messages between daemon and worker come whole or not at all."""

from __future__ import annotations

import io

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from collated.sidecars.jobs import Build, Combine, Done, Job, Refusal, Source, read_message, write_message
from collated_readers.opening import Signature

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
numbers = st.integers(-(2**63), 2**63 - 1)
sources = st.builds(
    Source, st.binary(max_size=9), st.builds(Signature, *[numbers] * 6), fingerprint=texts, format=texts
)
jobs = st.one_of(
    st.builds(Build, st.lists(sources, max_size=3), numbers),
    st.builds(Combine, st.lists(st.tuples(texts, st.lists(numbers, max_size=3)), max_size=3), numbers),
)
dones = st.builds(
    Done,
    file=st.none() | texts,
    refusals=st.lists(st.builds(Refusal, texts, texts, texts), max_size=3),
    damaged=st.lists(texts, max_size=3),
    code=st.none() | texts,
    message=texts,
    seconds=st.floats(0, 1e9),
)


@given(st.lists(jobs, max_size=3), st.lists(dones, max_size=3))
def test_messages_come_in_order_as_they_were_sent(sent: list[Job], told: list[Done]) -> None:
    stream = io.BytesIO()
    for message in (*sent, *told):
        write_message(stream, message)
    stream.seek(0)
    assert [msgspec.msgpack.decode(read_message(stream) or b"", type=Job) for _ in sent] == sent
    assert [msgspec.msgpack.decode(read_message(stream) or b"", type=Done) for _ in told] == told
    assert read_message(stream) is None


@given(jobs)
def test_a_message_that_is_cut_off_anywhere_is_none(job: Job) -> None:
    stream = io.BytesIO()
    write_message(stream, job)
    whole = stream.getvalue()
    for size in range(len(whole)):
        assert read_message(io.BytesIO(whole[:size])) is None
