"""What an agent is told of changed stores, and that it is told nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from collated.mcp.changes import Changed, changed

if TYPE_CHECKING:
    from tests.daemon.mcp.conftest import MakeStatus

    from collated.protocol import StoreStatus


def known(*stores: StoreStatus) -> dict[str, StoreStatus]:
    return {store.name: store for store in stores}


def test_stores_that_are_the_same_are_no_change(status: MakeStatus) -> None:
    assert changed({}, {}) == Changed(tools=False, stores=False, contents=False)
    assert changed(known(status("a")), known(status("a", at=5))) == (False, False, False)


def test_a_store_more_or_less_is_told_and_tools_only_where_they_are_others(status: MakeStatus) -> None:
    one, two = known(status("a")), known(status("a"), status("b"))
    assert changed(one, two) == changed(two, one) == (False, True, True)
    code = known(status("a"), status("c", "search", "symbols"))
    assert changed(one, code) == (True, True, True)
    assert changed(two, code) == (True, True, True)


def test_a_store_that_is_not_open_is_as_none(status: MakeStatus) -> None:
    assert changed(known(status("a")), known(status("a"), status("b", reason="no"))) == (False, False, False)
    assert changed(known(status("a")), known(status("a", reason="no"))) == (False, True, True)


def test_a_store_that_holds_something_else_changes_contents_alone(status: MakeStatus) -> None:
    store = status("a")
    assert changed(known(store), known(replace(store, fingerprint="g"))) == (False, False, True)
