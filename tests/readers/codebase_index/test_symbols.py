"""Looking symbols up, beside the real program's recorded answers and on names that hypothesis makes up."""

from __future__ import annotations

import string
from collections import UserList
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from collated_readers import Budget, StoreError
from collated_readers.code import Symbol, Symbols
from collated_readers.codebase_index.definitions import (
    Member,
    definition_of,
    member_of,
    module_of,
    symbols_from,
)
from collated_readers.codebase_index.symbol_table import symbol_table_of
from collated_readers.codebase_index.symbols import ranges_of, symbols_of
from collated_readers.opening import StoreConnection, ask
from collated_readers.secrets import redacted

CodeStore = Callable[[str], StoreConnection]
Recorded = Callable[[str, str], list[tuple[list[str], Any]]]
ALL = 1_000
AWS_KEY = "AKIA" + "Q3EGRIZ7LMWNT4XB"
SIGNATURES = (
    *("", "def f(", "class Typer:", '"""', "'", "token =", '"password":', "-----END PRIVATE KEY-----"),
    *(AWS_KEY, f"def f(key='{AWS_KEY}')", "-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"),
    *("password = 'hunter2-but-longer-9x7Q'", "9x7QkLm2Zt8vWp4Rb6Yc1Nd5", "Authorization: Bearer", "\\"),
)
NONE: set[str] = set()
CHANGED = "UPDATE symbols SET {} = {} WHERE name = 'Typer'"
FIELDS = ("name", "qualified", "kind", "path", "line_start", "line_end", "signature")

# On purpose another answer than the program's: a `_` in what is looked for stands for itself, not for any
# character (T9), so names without it are not found.
OTHER_ON_PURPOSE = {("pydantic", "model_")}

name_text = st.text(
    st.sampled_from("aAbB_é%zZ\U0010ffff") | st.characters(codec="utf-8", exclude_characters="\0")
)


def _symbols(db: StoreConnection, name: str, limit: int = ALL, *, exact: bool = False) -> Symbols:
    return ask(db, lambda db: symbols_of(db, name, limit, exact=exact), Budget.lasting(30))


def _columns(symbol: Symbol) -> dict[str, Any]:
    return {name: getattr(symbol, name) for name in FIELDS}


def _lowered(text: str) -> str:
    return "".join(letter.lower() if letter in string.ascii_uppercase else letter for letter in text)


# ---------------------------------------------------------------- the real program's answers


@pytest.mark.parametrize("store", ["typer", pytest.param("pydantic", marks=pytest.mark.slow)])
def test_what_the_program_recorded_is_found_in_its_order(
    code_store: CodeStore, recorded: Recorded, store: str
) -> None:
    db = code_store(f"{store}/index.sqlite")
    for (name, *options), answer in recorded(store, "symbol"):
        found = _symbols(db, name, exact="--exact" in options)
        wanted = answer["symbols"]
        if (store, name) in OTHER_ON_PURPOSE:
            wanted = [symbol for symbol in wanted if symbol["name"].lower().startswith(name)]
            assert wanted != answer["symbols"]
        symbols = [_columns(symbol) for symbol in found.symbols]
        if "--kind" in options:  # an option of the program's alone
            symbols = [symbol for symbol in symbols if symbol["kind"] == options[options.index("--kind") + 1]]
        assert symbols == wanted, name
        assert found.more == answer["more_prefix_matches"], name
        assert not found.is_truncated, name


def test_each_symbol_has_the_hash_of_its_file(code_store: CodeStore) -> None:
    db = code_store("typer/index.sqlite")
    hashes = dict(db.execute("SELECT path, sha256 FROM files").fetchall())
    found = _symbols(db, "t").symbols
    assert found
    assert [symbol.sha256 for symbol in found] == [hashes[symbol.path] for symbol in found]


@pytest.mark.parametrize("limit", [1, 2, 7, 8, 9])
def test_a_limit_cuts_the_list_and_says_so(code_store: CodeStore, limit: int) -> None:
    db = code_store("typer/index.sqlite")
    every = _symbols(db, "typer").symbols
    found = _symbols(db, "typer", limit)
    assert found.symbols == every[:limit]
    assert found.is_truncated == (len(every) > limit)


# ---------------------------------------------------------------- all of them in memory


@pytest.mark.parametrize("store", ["typer", pytest.param("pydantic", marks=pytest.mark.slow)])
def test_a_table_finds_what_the_store_finds(code_store: CodeStore, store: str) -> None:
    db = code_store(f"{store}/index.sqlite")
    table = ask(db, symbol_table_of, Budget.lasting(30))
    rows = db.execute("SELECT name, coalesce(qualified, '') FROM symbols ORDER BY id").fetchall()
    names = {each for row in rows[::7] for each in row}
    asked = names | {name[:4] for name in names} | {name.upper() for name in names}
    asked |= {name.replace("_", "") for name in names} | {"main.get_command", "nobody", "", "%", "___"}
    for name in asked:
        for limit, exact in ((ALL, False), (3, False), (1, True)):
            assert table.find(name, limit, exact=exact) == _symbols(db, name, limit, exact=exact), name


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(
        st.tuples(name_text, st.none() | st.just("Town.") | st.just("x.Town.") | st.just("")), max_size=12
    ),
    name=name_text,
    limit=st.integers(1, 4),
    exact=st.booleans(),
)
def test_a_table_finds_what_a_store_of_any_names_finds(
    small_store: Callable[[], Any],
    names: list[tuple[str, str | None]],
    name: str,
    limit: int,
    exact: bool,
) -> None:
    store = small_store()
    files = [store.file("a.py"), store.file("src/Town.py")]
    for line, (each, owner) in enumerate([("", ""), *names], start=1):
        qualified = None if owner is None else owner + each
        store.symbol(files[line % 2], each, line, qualified=qualified)
    table = symbol_table_of(store.db)
    for asked in {name, f"Town.{name}", *(each for each, _ in names)}:
        assert table.find(asked, limit, exact=exact) == symbols_of(store.db, asked, limit, exact=exact)


class Counted(UserList[Any]):
    """Names, of which is counted how often any was looked at."""

    looks = 0

    def __getitem__(self, place: Any) -> Any:
        self.looks += 1
        return self.data[place]


@pytest.mark.parametrize("name", ["", "n", "N_", "n_4"])
def test_a_table_looks_at_few_of_the_names_that_begin_so(small_store: Callable[[], Any], name: str) -> None:
    store = small_store()
    file = store.file("a.py")
    for number in range(3_000):
        store.symbol(file, f"{'nN'[number % 2]}_{number}", number + 1)
    table = symbol_table_of(store.db)
    names = Counted(table.lowered)  # type: ignore[attr-defined]  # of this kind of table
    watched = replace(table, lowered=names)
    assert watched.find(name, 7, exact=False) == symbols_of(store.db, name, 7, exact=False)
    assert names.looks < 100
    assert table.size == 3_000


def test_a_table_without_symbols_is_refused_as_the_store_is(code_store: CodeStore) -> None:
    db = code_store("degraded_no_grammar/typer_no_symbols.sqlite")
    with pytest.raises(StoreError) as caught:
        ask(db, symbol_table_of, Budget.lasting(30))
    assert caught.value.code == "symbols_missing"


# ---------------------------------------------------------------- ways to find


@pytest.mark.parametrize(
    ("name", "how", "paths"),
    [
        ("Typer", "exact", {"typer/main.py"}),
        ("TyperG", "prefix", {"typer/core.py"}),
        ("tYpErG", "prefix", {"typer/core.py"}),
        ("Typer.command", "member", {"typer/main.py"}),
        ("typer.main.Typer::command", "member", {"typer/main.py"}),
        ("Typer#command", "member", {"typer/main.py"}),
        ("main.get_command", "member", {"typer/main.py"}),
        ("getParamsFromFunction", "parts", {"typer/utils.py"}),
        ("get-params-from-function", "parts", {"typer/utils.py"}),
        ("typer_group", "parts", {"typer/core.py"}),
        ("Typer.", "parts", {"typer/main.py"}),
        ("nobody.nowhere", "exact", NONE),
        ("%", "exact", NONE),
        ("_yper", "exact", NONE),
        ("___", "exact", NONE),
        ("", "prefix", None),
    ],
)
def test_the_first_way_that_finds_any_counts(
    code_store: CodeStore, name: str, how: str, paths: set[str] | None
) -> None:
    found = _symbols(code_store("typer/index.sqlite"), name)
    assert found.how == how
    if paths is not None:
        assert {symbol.path for symbol in found.symbols} == paths


@pytest.mark.parametrize(
    ("name", "count"), [("Typer", 1), ("typer", 0), ("Typer.command", 1), ("getCommand", 0)]
)
def test_exact_finds_what_is_written_only(code_store: CodeStore, name: str, count: int) -> None:
    found = _symbols(code_store("typer/index.sqlite"), name, exact=True)
    assert len(found.symbols) == count
    assert found.more == 0


def test_a_member_of_a_type_hides_a_module_of_that_name(small_store: Callable[[], Any]) -> None:
    store = small_store()
    module, other = store.file("src/Town.py"), store.file("src/other.py")
    store.symbol(module, "refresh", 5)
    assert [symbol.path for symbol in symbols_of(store.db, "Town.refresh", 9, exact=False).symbols] == [
        "src/Town.py"
    ]
    store.symbol(other, "refresh", 7, qualified="pkg.Town.refresh")
    assert [symbol.path for symbol in symbols_of(store.db, "Town.refresh", 9, exact=False).symbols] == [
        "src/other.py"
    ]
    store.symbol(other, "refresh", 8, qualified="NoTown.refresh")
    assert [symbol.line_start for symbol in symbols_of(store.db, "Town.refresh", 9, exact=False).symbols] == [
        7
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(name_text, max_size=12), name=name_text)
def test_names_are_found_as_by_looking_at_each(
    small_store: Callable[[], Any], names: list[str], name: str
) -> None:
    store = small_store()
    file = store.file("a.py")
    for line, each in enumerate(["", *names], start=1):
        store.symbol(file, each, line, qualified="-")
    exact = [each for each in ["", *names] if each == name]
    begins = [each for each in ["", *names] if _lowered(each).startswith(_lowered(name))]
    found = symbols_of(store.db, name, ALL, exact=False)
    if exact or begins:
        assert [symbol.name for symbol in found.symbols] == sorted(exact or begins)
        assert found.more == (len(begins) - len(exact) if exact else 0)
    else:
        assert found.how in {"exact", "parts"}


@given(beginning=name_text, rest=name_text, flips=st.integers(0, 7))
def test_every_spelling_is_within_a_range(beginning: str, rest: str, flips: int) -> None:
    spelled = "".join(
        letter.swapcase() if letter.isascii() and flips >> place & 1 else letter
        for place, letter in enumerate(beginning)
    )
    name = (spelled + rest).encode()
    highs = [(low.encode(), high) for low, high in ranges_of(beginning[:3])]
    assert any(low <= name and (high == b"" or name < str(high).encode()) for low, high in highs)


@pytest.mark.parametrize(
    ("target", "member"),
    [
        ("Owner.member", Member("Owner", "member")),
        (" a.b::c#d ", Member("c", "d")),
        ("$._", Member("$", "_")),
        ("name", None),
        ("", None),
        (".", None),
        (".name", None),
        ("Owner.", None),
        ("Owner..member", None),
        ("1.x", None),
        ("a b.c", None),
        ("a:b", None),
    ],
)
def test_a_member_is_two_identifiers_or_more(target: str, member: Member | None) -> None:
    assert member_of(target) == member


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("src/activation.rs", "activation"),
        ("auth/__init__.py", "auth"),
        ("auth/mod.rs", "auth"),
        ("web/index.ts", "web"),
        ("index.ts", "index"),
        ("a.b/c.d.py", "c.d"),
    ],
)
def test_a_module_is_called_by_its_file_or_folder(path: str, module: str) -> None:
    assert module_of(path) == module


# ---------------------------------------------------------------- stores of other kinds


def test_a_signature_is_sent_without_its_secret(altered_store: Callable[..., StoreConnection]) -> None:
    db = altered_store(CHANGED.format("signature", f"'def Typer(key={AWS_KEY})'"))
    signature = _symbols(db, "Typer").symbols[0].signature
    assert signature is not None
    assert signature.startswith("def Typer(key=")
    assert AWS_KEY not in signature


@given(signatures=st.lists(st.sampled_from(SIGNATURES), max_size=5))
def test_signatures_are_sent_together_as_each_alone(signatures: list[str]) -> None:
    rows = [(1, "f", None, "function", "a.py", 1, 2, "sha", each, None, "line") for each in signatures]
    symbols = symbols_from(list(map(definition_of, rows)))
    assert [symbol.signature for symbol in symbols] == list(map(redacted, signatures))


def test_a_store_without_symbols_does_not_say_that_there_is_none(code_store: CodeStore) -> None:
    db = code_store("degraded_no_grammar/typer_no_symbols.sqlite")
    with pytest.raises(StoreError) as raised:
        _symbols(db, "Typer")
    assert raised.value.code == "symbols_missing"


def test_a_store_without_programs_has_no_symbols(small_store: Callable[[], Any]) -> None:
    store = small_store()
    store.file("README.md", "markdown", "line")
    assert symbols_of(store.db, "Typer", 9, exact=False) == Symbols(())


@pytest.mark.parametrize("column", ["qualified", "kind", "line_start", "line_end", "signature"])
def test_a_value_of_another_type_is_damage(
    altered_store: Callable[..., StoreConnection], column: str
) -> None:
    db = altered_store(CHANGED.format(column, "x'00'"))
    with pytest.raises(StoreError) as raised:
        _symbols(db, "Typer")
    assert raised.value.code == "damaged"


def test_a_symbol_whose_file_is_gone_is_not_found(small_store: Callable[[], Any]) -> None:
    store = small_store()
    store.symbol(99, "lost")
    store.symbol(store.file("a.py"), "there")
    assert symbols_of(store.db, "lost", 9, exact=False).symbols == ()
