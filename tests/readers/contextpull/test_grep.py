"""Grep with an index in mind: what its matches must hold, and only some records looked at."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collated_readers import Budget, Matches, Pattern, RequestError, StoreError
from collated_readers.contextpull import ContextPull
from collated_readers.opening import StoreConnection, ask, open_store

MakeStore = Callable[..., Path]
OpenAt = Callable[[Path], StoreConnection]

READER = ContextPull()
EVERY = 100
UNCHECKED = [HealthCheck.too_slow, HealthCheck.data_too_large]

WORDS = (
    "zebra",
    "ZEBRA",
    "Äpfel",
    "äpfel",
    "300\u212a",
    "Kelvin",
    "ſo",
    "İstanbul",
    "tx-4419",
    "a\x0bb",
    "\u2028",
    "日本語",
)
LITERALS = (*WORDS, "so", "kel", "ist", "300k", "ebr", "z", "\n", "a\nb", "%", "ÄPFEL", "\ud800", "x" * 200)
REGEXES = (
    "z.bra",
    "so",
    "kelvin",
    "istanbul$",
    r"tx-\d+",
    "^300k",
    "(zebra|äpfel)",
    "ebra zebra",
    r"b\b",
    "(",
    "[[:alpha:]]eb",
)
sentence = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
document = st.lists(sentence | sentence.map("# {}".format), min_size=1, max_size=8).map("\n\n".join)
corpora = st.fixed_dictionaries(dict.fromkeys(("a.md", "dir/b.md", "dir/c.md"), document))
PATTERNS = [
    *(Pattern(text, limit=EVERY) for text in LITERALS),
    *(Pattern(text, is_regex=True, limit=EVERY) for text in REGEXES),
]


def _grep(db: StoreConnection, pattern: Pattern) -> Matches | str:
    """Return what is found, or why nothing can be."""
    budget = Budget.lasting(60)
    try:
        return ask(db, lambda db: READER.grep(db, pattern, budget), budget)
    except (RequestError, StoreError) as error:
        return repr(error)


def _among(whole: Matches, among: set[str], limit: int) -> Matches:
    matches = tuple(match for match in whole.matches if match.id in among)
    return Matches(matches[:limit], len(matches) > limit)


def _check(db: StoreConnection, data: st.DataObject) -> None:
    texts = dict(ask(db, lambda db: list(READER.texts(db)), Budget.lasting(60)))
    assert list(texts) == sorted(texts)
    assert texts.keys() == {row[0] for row in db.execute("SELECT id FROM sections")}
    some = data.draw(st.lists(st.sampled_from([*texts, "no such id"]), max_size=12))
    for pattern, within, limit in product(PATTERNS, ((), ("dir",), ("[^d]*", "dir/c.md")), (1, 3, EVERY)):
        filtered = msgspec.structs.replace(pattern, within=within)
        whole = _grep(db, filtered)
        found = _grep(db, msgspec.structs.replace(filtered, among=tuple(some), limit=limit))
        if isinstance(whole, str):
            assert found == whole
            continue
        assert found == _among(whole, set(some), limit), (pattern, within, some)
        for match in whole.matches:
            assert all(needle in texts[match.id] for needle in READER.needles(pattern)), (pattern, match)


@given(data=st.data())
@settings(max_examples=8, deadline=None, database=None, derandomize=True, suppress_health_check=UNCHECKED)
def test_grep_among_some_is_grep_among_all_without_the_others(
    tmp_path_factory: pytest.TempPathFactory, make_store: MakeStore, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("store") / "store.sqlite"
    make_store(path, data.draw(corpora), rollback=True, max_chars=120, min_chars=5)
    budget = Budget.lasting(60)
    with closing(open_store(path, copies=path.parent / "c", copy_limit_bytes=0, budget=budget)) as db:
        _check(db, data)


@pytest.mark.parametrize(
    ("pattern", "needles"),
    [
        (Pattern("TX-44"), (b"tx-44",)),
        (Pattern("a"), (b"a",)),
        (Pattern("Ä ſ\u212a İ"), ("Ä sk i".encode(),)),
        (Pattern("a.*b"), (b"a.*b",)),
        (Pattern("\ud800"), ()),
        (Pattern("abc.*ab", is_regex=True), (b"abc",)),
        (Pattern("(", is_regex=True), ()),
    ],
)
def test_needles_are_folded(pattern: Pattern, needles: tuple[bytes, ...]) -> None:
    assert READER.needles(pattern) == needles


def test_none_are_not_all(make_store: MakeStore, open_at: OpenAt, tmp_path: Path) -> None:
    db = open_at(make_store(tmp_path / "store.sqlite", {"a.md": "# A\n\nA zebra.\n"}))
    assert _grep(db, Pattern("zebra", among=())) == Matches(())
    assert isinstance(_grep(db, Pattern("", among=())), str)
    assert _grep(db, Pattern("zebra", among=("'", "a.md#0"))) == _grep(db, Pattern("zebra"))


def test_any_limit_is_kept_to(doctored: Callable[..., StoreConnection]) -> None:
    db = doctored(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) INSERT INTO sections "
        "SELECT 'c#' || i, doc_id, 99 + i, '', 1, '', text, 0, '', NULL, NULL FROM n, sections "
        "WHERE id = 'b.md#0'"
    )
    ids = [row[0] for row in db.execute("SELECT id FROM sections WHERE id LIKE 'c#%'")]
    for among, limit in product((None, tuple(ids)), (1, 101, 400)):
        found = _grep(db, Pattern("last line", among=among, limit=limit))
        assert isinstance(found, Matches)
        assert (len(found.matches), found.is_truncated) == (limit, among is None or limit < 400)
