import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.errors import CODES, RequestFailed
from collated.framing import Framer, Framing, frame
from collated.messages import Call, Codec, Rejected, error_response
from collated.protocol import METHODS, Changes, NoParams, PingResult, Response, SearchParams

FRAMINGS: tuple[Framing, ...] = ("lines", "headers", "msgpack")
CODECS = {framing: Codec(framing) for framing in FRAMINGS}
every_framing = pytest.mark.parametrize("framing", FRAMINGS)


def encoded(framing: Framing, message: object) -> bytes:
    return msgspec.msgpack.encode(message) if framing == "msgpack" else msgspec.json.encode(message)


def read(framing: Framing, message: object) -> Call | None:
    return CODECS[framing].read(encoded(framing, message))


def rejected(body: bytes, framing: Framing = "lines") -> Rejected:
    with pytest.raises(Rejected) as caught:
        CODECS[framing].read(body)
    return caught.value


def unframed(framing: Framing, data: bytes) -> Any:
    (body,) = Framer(1 << 20, framing).feed(data)
    return msgspec.msgpack.decode(body) if framing == "msgpack" else json.loads(body)


# --------------------------------------------------------------------------- what is read


@every_framing
@pytest.mark.parametrize("request_id", [0, 1, -7, 2**53 - 1, "", "x", "é"])
def test_a_request_has_its_method_its_id_and_typed_params(framing: Framing, request_id: int | str) -> None:
    message = {"jsonrpc": "2.0", "id": request_id, "method": "search", "params": {"query": "q", "in": ["a/"]}}

    assert read(framing, message) == Call("search", request_id, SearchParams("q", within=["a/"]))


@every_framing
def test_the_version_may_be_left_out(framing: Framing) -> None:
    assert read(framing, {"id": 1, "method": "ping"}) == Call("ping", 1, NoParams())


@every_framing
@pytest.mark.parametrize("nothing", [{}, {"params": None}, {"params": {}}, {"params": []}])
def test_absent_null_and_empty_params_are_the_same(framing: Framing, nothing: dict[str, Any]) -> None:
    assert read(framing, {"id": 1, "method": "ping", **nothing}) == Call("ping", 1, NoParams())


@pytest.mark.parametrize("written", [b"{ }", b"[ ]", b"[\t\r\n]", b" null "])
def test_white_space_does_not_make_params_out_of_nothing(written: bytes) -> None:
    body = b'{"id": 1, "method": "ping", "params": %b}' % written

    assert CODECS["lines"].read(body) == Call("ping", 1, NoParams())


@every_framing
def test_a_notification_has_no_id(framing: Framing) -> None:
    call = read(framing, {"method": "$/cancelRequest", "params": {"id": 3}})

    assert call is not None
    assert (call.method, call.id, call.params.id) == ("$/cancelRequest", None, 3)


@every_framing
@pytest.mark.parametrize(
    "message",
    [
        {"method": "initialized"},
        {"method": "$/setTrace", "params": {"value": "off"}},
        {"id": 1, "result": None},
        {"id": 1, "result": {}},
        {"id": 1, "error": {"code": -1, "message": "m"}},
    ],
    ids=str,
)
def test_unknown_notifications_and_replies_are_ignored(framing: Framing, message: dict[str, Any]) -> None:
    assert read(framing, message) is None


@every_framing
@pytest.mark.parametrize("params", [{"ids": 3}, {"id": 1.5}, [3], "x"])
def test_a_notification_is_never_answered_whatever_its_params(framing: Framing, params: object) -> None:
    assert read(framing, {"method": "$/cancelRequest", "params": params}) is None


# --------------------------------------------------------------------------- what is refused


@every_framing
def test_an_unknown_method_is_refused_by_name(framing: Framing) -> None:
    error = rejected(encoded(framing, {"id": 5, "method": "serach"}), framing)

    assert (error.request_id, error.failed.code) == (5, "unknown_method")
    assert "'serach'" in error.failed.message
    assert error.failed.suggestion == "`initialize` lists them"


@every_framing
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"query": 1},
        {"query": "q", "limit": "10"},
        {"query": "q", "limt": 3},
        {"query": "q", "mode": "fuzzy"},
        ["q"],
        "q",
        7,
    ],
    ids=str,
)
def test_params_of_the_wrong_shape_are_refused_under_the_requests_id(
    framing: Framing, params: object
) -> None:
    error = rejected(encoded(framing, {"id": "i", "method": "search", "params": params}), framing)

    assert (error.request_id, error.failed.code) == ("i", "invalid_params")
    assert error.failed.message.startswith("search: ")


@every_framing
@pytest.mark.parametrize("request_id", [None, 1.5, True, 2**53, -(2**53), 2**63, [1], {"a": 1}], ids=str)
def test_an_id_is_a_string_or_an_integer_below_2_53(framing: Framing, request_id: object) -> None:
    error = rejected(encoded(framing, {"id": request_id, "method": "ping"}), framing)

    assert (error.request_id, error.failed.code) == (None, "invalid_request")


@every_framing
@pytest.mark.parametrize(
    "extra", [{"jsonrpc": "1.0"}, {"jsonrpc": 2}, {"method": 7}, {"method": None}], ids=str
)
def test_what_is_no_json_rpc_request_is_refused_under_its_id(framing: Framing, extra: dict[str, Any]) -> None:
    error = rejected(encoded(framing, {"id": 9, "method": "ping", **extra}), framing)

    assert (error.request_id, error.failed.code) == (9, "invalid_request")


@every_framing
@pytest.mark.parametrize("message", [[], [{"id": 1, "method": "ping"}], "ping", 1, None, True], ids=str)
def test_a_message_that_is_no_object_is_refused(framing: Framing, message: object) -> None:
    error = rejected(encoded(framing, message), framing)

    assert (error.request_id, error.failed.code) == (None, "invalid_request")


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        ("lines", b"{"),
        ("lines", b'{"id": 1, "method": "ping"'),
        ("lines", b'{"method": "\xff"}'),
        ("lines", b'{"method": "\\ud800"}'),
        ("lines", b'{"id": 1, "method": "ping", "params": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
        ("headers", b""),
        ("msgpack", b"\x82\xa2id\x01\xa6method"),
        ("msgpack", b"\x81\xa6method\xa4pin\xff"),
        ("msgpack", b"\x81\xa6params" + b"\x91" * 10_000 + b"\x90"),
        ("msgpack", b"\xc1"),
        ("msgpack", b""),
    ],
)
def test_a_body_that_cannot_be_decoded_is_a_parse_error(framing: Framing, body: bytes) -> None:
    error = rejected(body, framing)

    assert (error.request_id, error.failed.code) == (None, "parse_error")


@pytest.mark.parametrize("method", METHODS)
def test_params_nested_ten_thousand_deep_are_refused(method: str) -> None:
    deep = b'{"x":' * 10_000 + b"1" + b"}" * 10_000

    error = rejected(b'{"id": 1, "method": "%b", "params": %b}' % (method.encode(), deep))

    assert error.failed.code in {"parse_error", "invalid_params"}


@given(st.binary(max_size=60), st.sampled_from(FRAMINGS))
def test_any_bytes_are_a_call_or_nothing_or_refused(body: bytes, framing: Framing) -> None:
    try:
        call = CODECS[framing].read(body)
    except Rejected as error:
        assert error.failed.code in CODES
        assert CODECS[framing].failure(error.request_id, error.failed)
    else:
        assert call is None or call.method in METHODS


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | json_values,
        "id": st.integers(0, 9) | json_values,
        "method": st.sampled_from(sorted(METHODS)) | json_values,
        "params": st.fixed_dictionaries({}, optional={"query": st.text(), "limit": json_values})
        | json_values,
    },
)


@given(envelopes, st.sampled_from(FRAMINGS))
def test_any_envelope_is_read_alike_or_refused_with_a_code(message: dict[str, Any], framing: Framing) -> None:
    try:
        call = read(framing, message)
    except Rejected as error:
        assert error.failed.code in {"invalid_request", "invalid_params", "unknown_method"}
        assert error.request_id is None or error.request_id == message["id"]
    else:
        assert call is None or (call.method == message["method"] and call.id == message.get("id"))


# --------------------------------------------------------------------------- what is written


@every_framing
def test_a_response_carries_the_encoded_result_under_its_id(framing: Framing) -> None:
    codec = CODECS[framing]

    sent = unframed(framing, codec.response("i", codec.encode(PingResult())))

    assert sent == {"jsonrpc": "2.0", "id": "i", "result": {}}


@given(
    st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    st.binary(max_size=300).map(lambda raw: raw.decode("latin-1")),
    st.sampled_from(FRAMINGS),
)
def test_a_reply_made_of_parts_is_the_encoded_response(
    request_id: int | str, result: str, framing: Framing
) -> None:
    codec = CODECS[framing]
    encoded_result = codec.encode({"text": result, "an id": "a result"})

    whole = codec.encode(Response(id=request_id, result=msgspec.Raw(encoded_result)))

    assert codec.response(request_id, encoded_result) == frame(framing, whole)


@every_framing
def test_nothing_is_what_a_ping_answers(framing: Framing) -> None:
    assert CODECS[framing].nothing == encoded(framing, PingResult()) == encoded(framing, {})


@every_framing
def test_a_notification_has_no_id_on_the_wire(framing: Framing) -> None:
    sent = unframed(framing, CODECS[framing].notification("stores/changed", Changes(["a"], [], [])))

    assert sent == {
        "jsonrpc": "2.0",
        "method": "stores/changed",
        "params": {"added": ["a"], "changed": [], "removed": []},
    }


@every_framing
def test_a_failure_says_what_a_program_and_a_person_need(framing: Framing) -> None:
    failed = RequestFailed("overloaded", "too much", "wait", retry_after_ms=200)

    sent = unframed(framing, CODECS[framing].failure(None, failed))

    assert sent == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {
            "code": -32004,
            "message": "too much",
            "data": {"code": "overloaded", "retryable": True, "suggestion": "wait", "retry_after_ms": 200},
        },
    }


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_its_number_and_says_whether_to_try_again(code: str) -> None:
    error = error_response(1, RequestFailed(code, "m")).error

    assert (error.code, error.data.retryable) == (CODES[code].number, CODES[code].is_retryable)
    assert msgspec.to_builtins(error.data) == {"code": code, "retryable": CODES[code].is_retryable}
