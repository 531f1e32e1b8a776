import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from collated import protocol
from collated.protocol import METHODS, NOTIFICATIONS, schema

PUBLISHED = Path(__file__).parents[2] / "daemon" / "protocol.schema.json"
DOCUMENT = schema()

TYPES: dict[str, type[Any]] = {
    **{f"{name} params": method.params for name, method in METHODS.items()},
    **{f"{name} result": method.result for name, method in METHODS.items()},
    **{f"{name} params": params for name, params in NOTIFICATIONS.items()},
    "error": protocol.ErrorResponse,
}


# --------------------------------------------------------------------------- the document


def test_the_document_in_the_repository_is_the_one_that_the_code_makes() -> None:
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))

    assert published == DOCUMENT, "run: collate schema > daemon/protocol.schema.json"


def test_the_document_is_valid_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENT)


def test_every_reference_leads_to_a_definition() -> None:
    text = json.dumps(DOCUMENT)
    referred = {part.partition('"')[0] for part in text.split('"#/$defs/')[1:]}

    assert referred == set(DOCUMENT["$defs"])


def test_the_methods_are_those_of_the_design() -> None:
    assert list(METHODS) == [
        "initialize",
        "ping",
        "status",
        "stores",
        "search",
        "read",
        "grep",
        "neighbours",
        "index",
        "symbols",
        "references",
        "impact",
        "chunk",
        "architecture",
        "vectors.search",
        "context.describe",
        "context.query",
        "context.reference",
        "context.execute_query",
        "context.files",
        "context.file",
        "context.lineage",
        "context.subscribe",
        "corpus.retrieve",
        "memory.recall",
        "rescan",
        "reload",
        "cache",
        "subscribe",
        "$/cancelRequest",
    ]
    assert list(NOTIFICATIONS) == ["stores/changed", "$/progress"]


@pytest.mark.parametrize(
    ("struct", "fields"),
    [
        (
            protocol.Hit,
            "store id ref format doc heading_path snippet score kind tier line_start line_end also",
        ),
        (protocol.Record, "store id ref format doc heading_path kind text prev_id next_id"),
        (protocol.Match, "store id ref doc heading_path line line_number"),
        (protocol.Answered, "asked answered skipped failed"),
        (protocol.SearchResult, "hits mode hint complete stores"),
        (protocol.Symbol, "store name qualified kind path line_start line_end sha256 signature"),
        (protocol.Reference, "store path line kind confidence target receiver caller sha256"),
        (
            protocol.Node,
            "store kind path name line_start distance via_edge via_confidence sha256",
        ),
        (protocol.Chunk, "store id ref path line_start line_end kind text sha256 symbol"),
        (protocol.Similar, "store id ref doc heading_path kind text score metric direction model"),
    ],
)
def test_the_fields_are_those_of_the_design_in_its_order(struct: type[msgspec.Struct], fields: str) -> None:
    assert list(struct.__struct_encode_fields__) == fields.split()


# --------------------------------------------------------------------------- values

scalars: Mapping[type[inspect.Type], st.SearchStrategy[Any]] = {
    inspect.NoneType: st.none(),
    inspect.BoolType: st.booleans(),
    inspect.IntType: st.integers(-(2**53) + 1, 2**53 - 1),
    inspect.FloatType: st.floats(allow_nan=False, allow_infinity=False),
    inspect.StrType: st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    inspect.AnyType: st.one_of(st.none(), st.integers(0, 9), st.text("ab", max_size=3)),
}


def values(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a type, as msgspec describes it."""
    match kind:
        case inspect.StructType(cls=struct, fields=fields):
            return st.builds(struct, **{field.name: field_values(field) for field in fields})
        case inspect.UnionType(types=types):
            return st.one_of([values(each) for each in types])
        case inspect.ListType(item_type=item):
            return st.lists(values(item), max_size=3)
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(values(key), values(value), max_size=3)
        case inspect.LiteralType(values=allowed):
            return st.sampled_from(allowed)
        case _:
            return scalars[type(kind)]


def field_values(field: inspect.Field) -> st.SearchStrategy[Any]:
    """Return a strategy for one field of a Struct, left out at times where it may be."""
    given = values(field.type)
    return st.one_of(st.just(msgspec.UNSET), given) if field.default is msgspec.UNSET else given


@cache
def messages(name: str) -> st.SearchStrategy[Any]:
    """Return a strategy for one of TYPES; to make it takes longer than to draw from it."""
    return values(inspect.type_info(TYPES[name]))


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Return what holds messages against the published schema of one of TYPES."""
    return jsonschema.Draft202012Validator({**DOCUMENT, **reference(name)})


def validate(name: str, message: Any) -> None:
    """Hold *message* against the published schema of one of TYPES."""
    validator(name).validate(message)  # pyright: ignore[reportUnknownMemberType] - partial stubs


def reference(name: str) -> Mapping[str, Any]:
    """Return the document's schema for one of TYPES."""
    tables: dict[str, dict[str, Mapping[str, Any]]] = {**DOCUMENT["methods"], **DOCUMENT["notifications"]}
    word, _, part = name.rpartition(" ")
    error: Mapping[str, Any] = DOCUMENT["error"]
    return tables[word][part] if word else error


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_every_message_fits_the_published_schema_and_comes_back_unchanged(
    name: str, data: st.DataObject
) -> None:
    struct = TYPES[name]
    value = data.draw(messages(name))

    encoded = msgspec.json.encode(value)

    validate(name, json.loads(encoded))
    assert msgspec.json.decode(encoded, type=struct) == value
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=struct) == value


def test_an_error_always_says_its_code_and_whether_to_try_again() -> None:
    encoded = msgspec.to_builtins(protocol.ErrorData(code="draining", retryable=False))

    assert encoded == {"code": "draining", "retryable": False}


def test_an_error_to_an_unreadable_request_has_a_null_id() -> None:
    data = protocol.ErrorData(code="parse_error", retryable=False)
    answer = protocol.ErrorResponse(id=None, error=protocol.ErrorObject(-32700, "no JSON", data))

    assert json.loads(msgspec.json.encode(answer))["id"] is None


# --------------------------------------------------------------------------- parameters

STRICT = [name for name, method in METHODS.items() if method.params is not protocol.InitializeParams]


@pytest.mark.parametrize("name", STRICT)
def test_an_unknown_parameter_is_refused_by_the_code_and_by_the_schema(name: str) -> None:
    required: dict[str, Any] = {
        **{"query": "q", "ref": "s:i", "pattern": "p", "topics": [], "id": "1", "name": "n", "target": "t"},
        **{"path": "p", "line": 1, "store": "s", "vector": [1.0]},
        **{"sql": "s", "table": "t", "tables": ["t"], "run_id": "r", "row_seq": 0, "subject": "s"},
    }
    known = inspect.type_info(METHODS[name].params)
    assert isinstance(known, inspect.StructType)
    given = {field.encode_name: required[field.encode_name] for field in known.fields if field.required}
    msgspec.convert(given, METHODS[name].params)

    with pytest.raises(msgspec.ValidationError, match="nonsense"):
        msgspec.convert({**given, "nonsense": 1}, METHODS[name].params)
    with pytest.raises(jsonschema.ValidationError):
        validate(f"{name} params", {**given, "nonsense": 1})


def test_initialize_takes_what_a_newer_client_says() -> None:
    given = {"client": {"name": "n", "pid": 3}, "protocol": 2, "capabilities": {}}

    taken = msgspec.convert(given, protocol.InitializeParams)

    assert taken == protocol.InitializeParams(client=protocol.ClientInfo(name="n"), protocol=2)


@pytest.mark.parametrize("name", ["initialize", "ping", "status", "stores", "index", "rescan", "reload"])
def test_an_empty_object_is_enough_where_nothing_is_required(name: str) -> None:
    params = METHODS[name].params

    assert msgspec.convert({}, params) == params()


@pytest.mark.parametrize("params", [protocol.SearchParams, protocol.GrepParams])
def test_the_path_filter_is_called_in_on_the_wire(params: type[Any]) -> None:
    assert "in" in params.__struct_encode_fields__
    assert "within" not in params.__struct_encode_fields__


@pytest.mark.parametrize(
    ("frame", "params"),
    [
        (b'{"method": "ping"}', None),
        (b'{"method": "ping", "params": null}', b"null"),
        (b'{"method": "ping", "params": {}}', b"{}"),
        (b'{"method": "ping", "params": []}', b"[]"),
    ],
)
def test_an_envelope_keeps_parameters_as_they_came(frame: bytes, params: bytes | None) -> None:
    envelope = msgspec.json.decode(frame, type=protocol.Envelope)

    raw = None if envelope.params is msgspec.UNSET else bytes(envelope.params)
    assert raw == params
    assert envelope.id is msgspec.UNSET


@pytest.mark.parametrize("frame", [b"{}", b'{"id": [1], "method": 3, "jsonrpc": null, "error": 1}'])
def test_an_envelope_takes_anything_that_is_an_object(frame: bytes) -> None:
    msgspec.json.decode(frame, type=protocol.Envelope)
