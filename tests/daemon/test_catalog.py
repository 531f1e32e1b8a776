import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.catalog import (
    Pending,
    Plan,
    Store,
    changes,
    fingerprint,
    opened,
    plan,
    project_root,
    retry_delay_s,
    settle,
    shown,
    status_of,
    without,
)
from collated.protocol import Changes, Reason
from collated_readers import State, StoreError, StoreFacts
from collated_readers.contract import STORE_CODES
from collated_readers.opening import Signature

SIGNATURE = Signature(device=1, inode=2, size=4096, mtime_ns=5, wal_size=0, wal_mtime_ns=0)
FACTS = StoreFacts("1.0", "abc", documents=2, records=7, model="minilm")
STORE = Store(path="/p/a.sqlite", name="a", signature=None)

paths = st.sampled_from(["/a", "/b", "/c", "/d"])
signatures = st.integers(1, 3).map(lambda size: msgspec.structs.replace(SIGNATURE, size=size))
listings = st.dictionaries(paths, st.none() | signatures)


# --------------------------------------------------------------------------- plan


@given(known=listings, listing=listings)
def test_a_plan_leads_from_what_is_known_to_what_is_there(
    known: dict[str, Signature | None], listing: dict[str, Signature | None]
) -> None:
    todo = plan(known, listing)

    after = {path: signature for path, signature in known.items() if path not in todo.close}
    after |= {path: listing[path] for path in todo.open}
    assert after.keys() <= listing.keys()
    assert {p: after.get(p) for p, s in listing.items() if s} == {p: s for p, s in listing.items() if s}
    assert plan(after, listing) == Plan((), ())


@given(known=listings, listing=listings)
def test_a_plan_is_sorted_and_touches_nothing_that_stayed(
    known: dict[str, Signature | None], listing: dict[str, Signature | None]
) -> None:
    todo = plan(known, listing)

    assert list(todo.open) == sorted(todo.open)
    assert list(todo.close) == sorted(todo.close)
    assert not [path for path in todo.open if known.get(path) == listing[path]]
    assert set(todo.close) == known.keys() - listing.keys()


def test_a_file_that_cannot_be_looked_at_is_neither_opened_nor_forgotten() -> None:
    assert plan({"/a": SIGNATURE}, {"/a": None}) == Plan((), ())


def test_a_store_that_was_never_opened_is_opened() -> None:
    assert plan({"/a": None}, {"/a": SIGNATURE}) == Plan(("/a",), ())


# --------------------------------------------------------------------------- settle

QUIET_S, LIMIT_S = 0.25, 2.0
Looks = list[tuple[float, dict[str, int]]]
looks = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.3, 1.0, 2.5]),
        st.dictionaries(paths, st.integers(1, 3)),
    ),
    max_size=12,
)


def due_at_each_look(steps: Looks) -> list[tuple[str, ...]]:
    pending: dict[str, Pending] = {}
    now = 100.0
    result: list[tuple[str, ...]] = []
    for wait, sizes in steps:
        now += wait
        changed = {p: msgspec.structs.replace(SIGNATURE, size=n) for p, n in sizes.items()}
        due, pending = settle(pending, changed, now, quiet_s=QUIET_S, limit_s=LIMIT_S)
        assert set(due) | pending.keys() == changed.keys()
        assert not set(due) & pending.keys()
        assert list(due) == sorted(due)
        result.append(due)
    return result


@given(looks)
def test_each_store_waits_for_its_own_writer_only(steps: Looks) -> None:
    together = due_at_each_look(steps)

    for path in "/a", "/b", "/c", "/d":
        alone = [(wait, {p: n for p, n in sizes.items() if p == path}) for wait, sizes in steps]
        assert due_at_each_look(alone) == [tuple(p for p in due if p == path) for due in together]


@given(looks)
def test_a_store_is_due_exactly_when_its_writer_has_rested_or_the_limit_is_reached(steps: Looks) -> None:
    dues = due_at_each_look(steps)

    clock, seen = 100.0, dict[str, tuple[float, float, int]]()
    for (wait, sizes), due in zip(steps, dues, strict=True):
        clock += wait
        before, seen = seen, {}
        for path, size in sizes.items():
            first, last, was = before.get(path, (clock, clock, size))
            last = last if was == size else clock
            is_due = clock - last >= QUIET_S or clock - first >= LIMIT_S
            assert (path in due) == is_due
            if not is_due:
                seen[path] = (first, last, size)


def test_a_writer_that_never_rests_is_not_waited_for_longer_than_the_limit() -> None:
    restless: Looks = [(0.125, {"/a": step}) for step in range(20)]

    dues = due_at_each_look(restless)

    assert dues.index(("/a",)) == 16  # two seconds after the first look


def test_with_no_quiet_time_a_store_is_due_at_once() -> None:
    assert settle({}, {"/a": SIGNATURE}, 5.0, quiet_s=0.0, limit_s=2.0) == (("/a",), {})


# --------------------------------------------------------------------------- waiting


@given(st.integers(0, 10_000))
def test_a_retry_waits_longer_each_time_and_half_a_minute_at_most(attempts: int) -> None:
    assert 0.25 <= retry_delay_s(attempts) <= retry_delay_s(attempts + 1) <= 30.0


def test_the_first_retries_double_from_a_quarter_second() -> None:
    assert [retry_delay_s(n) for n in range(8)] == [0.25, 0.5, 1, 2, 4, 8, 16, 30]


# --------------------------------------------------------------------------- fingerprint and states


@pytest.mark.parametrize(
    "other",
    [
        ("codebase-index", FACTS, SIGNATURE),
        ("contextpull", msgspec.structs.replace(FACTS, schema_version="1.1"), SIGNATURE),
        ("contextpull", msgspec.structs.replace(FACTS, identity="abd"), SIGNATURE),
        *(
            ("contextpull", FACTS, msgspec.structs.replace(SIGNATURE, **{name: 99}))
            for name in Signature.__struct_fields__
        ),
    ],
)
def test_a_fingerprint_changes_with_whatever_an_answer_depends_on(
    other: tuple[str, StoreFacts, Signature],
) -> None:
    before = fingerprint("contextpull", FACTS, SIGNATURE)

    assert fingerprint(*other) != before
    assert fingerprint("contextpull", FACTS, SIGNATURE) == before
    assert len(before) == 32
    assert int(before, 16) >= 0


def test_an_opened_store_has_its_facts_and_no_reason() -> None:
    store = opened(STORE, "contextpull", FACTS, SIGNATURE, term_filter=b"filter")

    assert store == Store(
        path="/p/a.sqlite",
        name="a",
        signature=SIGNATURE,
        state=State.OPEN,
        reason=None,
        format="contextpull",
        schema_version="1.0",
        fingerprint=fingerprint("contextpull", FACTS, SIGNATURE),
        documents=2,
        records=7,
        model="minilm",
        term_filter=b"filter",
    )


def test_a_store_that_is_opened_anew_has_nothing_of_its_old_filter() -> None:
    before = opened(STORE, "contextpull", FACTS, SIGNATURE, term_filter=b"filter")

    assert opened(before, "contextpull", FACTS, SIGNATURE).term_filter is None


@pytest.mark.parametrize("code", STORE_CODES)
def test_a_store_that_failed_to_open_has_the_state_of_its_code_and_nothing_of_its_old_contents(
    code: str,
) -> None:
    before = opened(STORE, "contextpull", FACTS, SIGNATURE, term_filter=b"filter")

    store = without(before, StoreError(code, "because"), SIGNATURE)

    expected = STORE_CODES[code][0]
    assert store.state is (State.UNREADABLE if expected is State.OPEN else expected)
    assert store == Store("/p/a.sqlite", "a", SIGNATURE, store.state, Reason(code, "because"))


def test_a_reason_with_undecodable_bytes_can_be_encoded() -> None:
    store = without(STORE, StoreError("vanished", os.fsdecode(b"no caf\xe9")), None)

    assert store.reason == Reason("vanished", "no caf\\xe9")


# --------------------------------------------------------------------------- for the wire


@given(st.binary(max_size=20).filter(lambda raw: b"\0" not in raw))
def test_a_path_is_shown_as_text_that_any_encoder_takes(raw: bytes) -> None:
    text = shown(os.fsdecode(raw))

    assert text.encode("utf-8") == raw or "\\x" in text


def test_a_status_says_where_the_store_lies_and_what_it_holds() -> None:
    path = os.fsdecode(b"/src/caf\xe9/.contextpull/store.sqlite")
    signature = msgspec.structs.replace(SIGNATURE, size=100, wal_size=20)
    store = opened(Store(path=path, name="caf", signature=None), "contextpull", FACTS, signature)

    status = status_of(store, {"search", "grep"}, {"built_at": "2026"})

    assert status.path == "/src/caf\\xe9/.contextpull/store.sqlite"
    assert status.root == "/src/caf\\xe9"
    assert (status.state, status.reason, status.fingerprint) == ("open", None, store.fingerprint)
    assert (status.documents, status.records, status.bytes) == (2, 7, 120)
    assert status.capabilities == ["grep", "search"]
    assert status.details == {"built_at": "2026"}


def test_the_status_of_a_store_that_is_not_open_says_why() -> None:
    status = status_of(STORE, (), {})

    assert (status.root, status.bytes, status.state) == (None, None, "opening")
    assert status.reason is not None
    assert status.reason.code == "opening"


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/src/uv/docs/.contextpull/store.sqlite", "/src/uv/docs"),
        ("/src/uv/.contextpull/deep/store.sqlite", None),
        ("/.contextpull/store.sqlite", "/"),
        (".contextpull/store.sqlite", None),
        ("/src/x.contextpull/store.sqlite", None),
        ("/src/store.sqlite", None),
        ("/store.sqlite", None),
    ],
)
def test_a_store_in_a_formats_own_folder_belongs_to_the_directory_above(path: str, root: str | None) -> None:
    assert project_root(path) == root


def test_changes_name_what_came_changed_and_went() -> None:
    before = {path: Store(path, path[1:], SIGNATURE) for path in ("/stays", "/goes", "/changes", "/old")}
    after = {
        "/stays": before["/stays"],
        "/changes": msgspec.structs.replace(before["/changes"], documents=1),
        "/old": msgspec.structs.replace(before["/old"], name="new"),
        "/b": Store("/b", "b", None),
    }

    assert changes(before, after) == Changes(added=["b", "new"], changed=["changes"], removed=["goes", "old"])


@given(st.dictionaries(paths, st.integers(0, 2)))
def test_nothing_changes_between_a_catalog_and_itself(counts: dict[str, int]) -> None:
    catalog = {p: Store(p, p[1:], None, documents=n) for p, n in counts.items()}

    assert changes(catalog, catalog) == Changes([], [], [])
