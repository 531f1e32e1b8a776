import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import collated
import collated_readers
from collated.errors import CODES, CollatedError, ConfigError, RequestFailed, code_of_number
from collated_readers import STORE_CODES, State
from collated_readers.contextful.refusals import IDENTIFIERS

README = Path(__file__).parents[2] / "README.md"
JSON_RPC = {
    "parse_error": -32700,
    "invalid_request": -32600,
    "unknown_method": -32601,
    "invalid_params": -32602,
    "internal": -32603,
    "cancelled": -32800,
}
# The adapter's own (book-agent.md A25): a program that uses it gets this, the daemon never does.
OF_THE_ADAPTER = {"record_not_found"}
# The bridge's own: a tool's name is an agent's, and never on the wire.
OF_THE_BRIDGE = {"unknown_tool"}
RAISERS = {
    "StoreError": set(STORE_CODES),
    "RequestError": set(CODES) | OF_THE_ADAPTER | OF_THE_BRIDGE,
    "RequestFailed": set(CODES),
}


def rows(marker: str) -> list[list[str]]:
    """Return the cells of README's table between the comments *marker* and */marker*, without its head."""
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {marker} -->(.*)<!-- /{marker} -->", text, re.DOTALL)
    assert found, f"README.md has no table between <!-- {marker} --> and <!-- /{marker} -->"
    lines = [line.strip() for line in found[1].splitlines() if line.strip().startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def codes_of(table: list[list[str]]) -> list[str]:
    """Return the one code of each row: its first cell that is a single word in backquotes."""
    return [next(cell for cell in row if re.fullmatch(r"`\w+`", cell)).strip("`") for row in table]


def test_readme_has_every_code_of_a_request_with_its_number() -> None:
    table = rows("request-codes")

    assert codes_of(table) == list(CODES)
    for row, code in zip(table, CODES.values(), strict=True):
        assert str(code.number) in row


def test_readme_has_every_code_of_a_store_with_its_state() -> None:
    table = rows("store-codes")

    assert codes_of(table) == list(STORE_CODES)
    for row, (state, _) in zip(table, STORE_CODES.values(), strict=True):
        assert {str(state), f"`{state}`"} & set(row)


def test_each_number_means_one_code() -> None:
    numbers = [code.number for code in CODES.values()]

    assert len(set(numbers)) == len(numbers)
    assert [code_of_number(number) for number in numbers] == list(CODES)


def test_a_number_that_is_not_ours_is_an_internal_error() -> None:
    assert code_of_number(-1) == "internal"


def test_json_rpcs_own_numbers_are_kept_and_all_others_are_in_its_range_for_servers() -> None:
    for word, code in CODES.items():
        assert code.number == JSON_RPC.get(word, code.number)
        assert word in JSON_RPC or -32099 <= code.number <= -32000


@pytest.mark.parametrize("word", [*CODES, *STORE_CODES])
def test_a_code_is_a_lower_case_word_or_an_identifier_of_the_seed(word: str) -> None:
    assert word in IDENTIFIERS or re.fullmatch(r"[a-z][a-z0-9_]*", word)


def test_only_what_can_pass_by_itself_is_retryable() -> None:
    retryable = {word for word, code in CODES.items() if code.is_retryable}

    assert retryable == {"store_unavailable", "overloaded", "deadline_exceeded", "draining"}


def test_every_state_but_opening_has_a_code() -> None:
    assert {state for state, _ in STORE_CODES.values()} >= set(State) - {State.OPENING}


def raised() -> Iterator[tuple[str, str, str]]:
    """Yield (file, error type, code) of each error that the sources make with a literal code."""
    for package in (collated, collated_readers):
        for path in sorted(Path(package.__path__[0]).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes())):
                match node:
                    case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(code)), *_]):
                        if name in RAISERS:
                            yield path.name, name, code
                    case _:
                        pass


def test_every_code_that_the_sources_raise_is_in_the_tables() -> None:
    found = list(raised())

    assert found
    assert [each for each in found if each[2] not in RAISERS[each[1]]] == []


def test_an_error_keeps_its_code_message_and_advice() -> None:
    error = RequestFailed("overloaded", "too busy", suggestion="ask later", retry_after_ms=50)

    assert isinstance(error, CollatedError)
    assert str(error) == "too busy"
    assert (error.code, error.message, error.suggestion, error.retry_after_ms) == (
        "overloaded",
        "too busy",
        "ask later",
        50,
    )


def test_a_refused_configuration_has_its_own_code() -> None:
    assert ConfigError("no").code == "invalid_config"
