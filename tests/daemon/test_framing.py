"""Framing: any split of any sequence of frames gives the same messages; lies and excess are refused."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.framing import Framer, Framing, frame

LIMIT = 64
FRAMINGS: tuple[Framing, ...] = ("msgpack", "lines", "headers")

# A body as its framing carries it: anything, but a line has no line feed and no white space around it.
_any_body = st.binary(max_size=LIMIT)
_line_body = st.binary(max_size=LIMIT - 1).map(
    lambda raw: b"{" + raw.replace(b"\n", b".").replace(b"\r", b".").rstrip()
)


def _run(pieces: Sequence[bytes], limit: int = LIMIT) -> tuple[list[bytes], str | None]:
    framer = Framer(limit)
    bodies = [body for piece in pieces for body in framer.feed(piece)] + framer.finish()
    return bodies, framer.error.code if framer.error else None


def _split(stream: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(places)]


def _bytewise(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


@st.composite
def _framed(draw: st.DrawFn) -> tuple[Framing, list[bytes], bytes]:
    framing = draw(st.sampled_from(FRAMINGS))
    bodies = draw(st.lists(_line_body if framing == "lines" else _any_body, max_size=8))
    return framing, bodies, b"".join(frame(framing, body) for body in bodies)


@given(_framed(), st.lists(st.integers(0, 2_000), max_size=12))
def test_any_split_of_any_sequence_of_frames_decodes_to_the_same_messages(
    framed: tuple[Framing, list[bytes], bytes], cuts: list[int]
) -> None:
    framing, bodies, stream = framed
    assert _run(_split(stream, cuts)) == (bodies, None)
    assert _run(_bytewise(stream)) == (bodies, None)
    if bodies:
        framer = Framer(LIMIT)
        framer.feed(stream)
        assert framer.framing == framing


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_any_bytes_at_all_give_the_same_messages_and_error_however_they_are_split(
    stream: bytes, cuts: list[int]
) -> None:
    whole = _run([stream])
    assert _run(_split(stream, cuts)) == whole
    assert _run(_bytewise(stream)) == whole


@given(
    st.lists(
        st.sampled_from([b"\n", b"\r\n", b"{1}", b" ", b"Content-Length: 3", b":", b"c", b"9"]), max_size=30
    )
)
def test_almost_valid_text_gives_the_same_messages_and_error_however_it_is_split(words: list[bytes]) -> None:
    stream = b"".join(words)
    assert _run(words) == _run([stream]) == _run(_bytewise(stream))


@pytest.mark.parametrize(
    ("first", "framing"),
    [
        (b"\0", "msgpack"),
        (b"{", "lines"),
        (b" ", "lines"),
        (b"\t", "lines"),
        (b"\n", "lines"),
        (b"C", "headers"),
        (b"c", "headers"),
    ],
)
def test_the_first_byte_decides_the_framing(first: bytes, framing: Framing) -> None:
    framer = Framer(LIMIT)
    framer.feed(first)
    assert (framer.framing, framer.error) == (framing, None)


@pytest.mark.parametrize("first", sorted(set(range(256)) - set(b"\0{ \t\r\nCc")))
def test_any_other_first_byte_ends_the_connection(first: int) -> None:
    assert _run([bytes([first]), b"{}\n"]) == ([], "parse_error")


def test_a_given_framing_is_not_sniffed() -> None:
    framer = Framer(2**31, "msgpack")
    large = frame("msgpack", b"x" * (1 << 24))
    assert large[0] == 1
    assert framer.feed(large) == [b"x" * (1 << 24)]


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_frame_of_the_limit_passes_and_one_byte_more_does_not(framing: Framing) -> None:
    fits = b"{" + b"a" * (LIMIT - 1)
    assert _run([frame(framing, fits)]) == ([fits], None)
    assert _run([frame(framing, fits), frame(framing, fits + b"a")]) == ([fits], "frame_too_large")


@pytest.mark.parametrize(
    ("framing", "prefix", "body"),
    [
        ("msgpack", (LIMIT + 1).to_bytes(4, "big"), b""),
        ("headers", b"Content-Length: 65\r\n", b""),
        ("lines", b"{", b"a" * LIMIT),
    ],
)
def test_an_oversized_frame_is_refused_before_its_body_arrives(
    framing: Framing, prefix: bytes, body: bytes
) -> None:
    framer = Framer(LIMIT)
    assert framer.feed(prefix + body) == []
    assert framer.framing == framing
    assert framer.error is not None
    assert (framer.error.code, framer.error.message) == (
        "frame_too_large",
        "a frame may have at most 64 bytes",
    )


@pytest.mark.parametrize("framing", FRAMINGS)
def test_whole_frames_and_pieces_of_frames_may_take_turns(framing: Framing) -> None:
    whole = frame(framing, b"{whole}")
    pieces = [whole, whole[:5], whole[5:], whole, whole * 2, whole[:-1], whole[-1:] + whole, whole]
    assert _run(pieces) == ([b"{whole}"] * 8, None)


def test_a_whole_frame_after_an_error_is_not_taken() -> None:
    framer = Framer(LIMIT)
    framer.feed(frame("msgpack", b"a"))
    framer.feed(b"\0\xff\xff\xff")
    assert framer.error is not None
    assert framer.feed(frame("msgpack", b"a")) == []


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_message_may_be_framed_from_parts(framing: Framing) -> None:
    assert frame(framing, b"{", b"", b"body", b"}") == frame(framing, b"{body}")


def test_a_line_over_the_limit_among_others_ends_the_stream_where_it_stands() -> None:
    lines = [b"{a}", b"{" + b"b" * LIMIT, b"{c}"]
    assert _run([b"\n".join(lines) + b"\n"]) == ([b"{a}"], "frame_too_large")
    assert _run([b"{1}\n" * LIMIT]) == ([b"{1}"] * LIMIT, None)


def test_nothing_comes_after_an_error() -> None:
    framer = Framer(LIMIT)
    framer.feed(b"?")
    first = framer.error
    assert framer.feed(b"{}\n") == []
    assert framer.finish() == []
    assert framer.error is first


def test_messages_before_an_error_are_still_delivered() -> None:
    framer = Framer(LIMIT)
    assert framer.feed(b"{}\n" + b"x" * 80) == [b"{}"]
    assert framer.error is not None


def test_blank_lines_and_carriage_returns_are_ignored() -> None:
    assert _run([b"\r\n\n  \n{1}\r\n\t{2} \n\n{3}"]) == ([b"{1}", b"{2}", b"{3}"], None)


def test_a_last_line_without_its_line_feed_is_a_message() -> None:
    framer = Framer(LIMIT)
    assert framer.feed(b'{"a":1}') == []
    assert framer.finish() == [b'{"a":1}']
    assert framer.error is None
    assert framer.finish() == []


@pytest.mark.parametrize(
    "half",
    [
        b"\0",
        b"\0\0\0",
        b"\0\0\0\5abc",
        b"C",
        b"Content-Length: 3\r\n",
        b"Content-Length: 3\r\n\r\n",
        b"Content-Length: 3\r\n\r\nab",
    ],
)
def test_half_a_frame_at_the_end_is_an_error(half: bytes) -> None:
    assert _run([half]) == ([], "parse_error")


def test_an_empty_stream_is_no_error() -> None:
    assert _run([]) == ([], None)
    assert _run([b""]) == ([], None)


def test_an_empty_body_is_a_message_of_no_bytes() -> None:
    assert _run([b"\0\0\0\0"]) == ([b""], None)
    assert _run([b"Content-Length: 0\r\n\r\n"]) == ([b""], None)


@pytest.mark.parametrize(
    "block",
    [
        b"Content-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc\r\ncontent-LENGTH:2\r\n\r\n",
        b"Content-Length : 02 \r\n\r\n",
        b"Content-Length: 2\n\n",
    ],
)
def test_a_header_block_may_be_written_in_many_ways(block: bytes) -> None:
    assert _run([block + b"{}"]) == ([b"{}"], None)


@pytest.mark.parametrize(
    "block",
    [
        b"Content-Type: x\r\n\r\n{}",
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: -2\r\n\r\n{}",
        b"Content-Length: +2\r\n\r\n{}",
        b"Content-Length: 2_0\r\n\r\n{}",
        b"Content-Length: 0x2\r\n\r\n{}",
        b"Content-Length: \r\n\r\n{}",
        b"Content-Length: \xd9\xa2\r\n\r\n{}",
        b"Content-Length\r\n\r\n{}",
        b"CONNECT / HTTP/1.1\r\n\r\n",
        b"Content-Length: 1\r\n\r\n{}\r\n\r\n",  # one byte too few: the rest is no header
    ],
)
def test_a_header_block_that_is_missing_its_length_or_lies_is_an_error(block: bytes) -> None:
    bodies, code = _run([block])
    assert bodies in ([], [b"{"])
    assert code == "parse_error"


@pytest.mark.parametrize("digits", [20, 4_000])
def test_an_absurd_length_is_too_large_and_not_an_exception(digits: int) -> None:
    assert _run([b"Content-Length: " + b"9" * digits + b"\r\n\r\n"]) == ([], "frame_too_large")


def test_a_header_block_has_at_most_4_kib() -> None:
    fixed = len(b"Content-Length: 2\r\nC:\r\n\r\n")
    fits = b"Content-Length: 2\r\nC:" + b"a" * (4_096 - fixed) + b"\r\n\r\n"
    assert _run([fits + b"{}"] * 2) == ([b"{}", b"{}"], None)
    assert _run([fits.replace(b"C:", b"CC:") + b"{}"]) == ([], "parse_error")
    assert _run([b"C" * 4_097]) == ([], "parse_error")


@pytest.mark.slow
def test_a_large_frame_fed_byte_by_byte_is_not_copied_again_and_again() -> None:
    body = b"{" + b"x" * 999_999  # quadratic work on this would run into the timeout
    for framing in FRAMINGS:
        assert _run(_bytewise(frame(framing, body)), limit=1_000_000) == ([body], None)


def test_many_frames_in_one_piece_are_cut_in_one_pass() -> None:
    for framing in FRAMINGS:
        piece = frame(framing, b"{}") * 100_000
        framer = Framer(LIMIT)
        assert len(framer.feed(piece[:1])) == 0
        assert len(framer.feed(piece[1:])) == 100_000
