"""`collate cache`: what is kept to make questions fast, and removing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.system.commands.conftest import Collate
    from tests.system.conftest import Daemon, StartDaemon

pytestmark = pytest.mark.slow


def wait_ready(daemon: Daemon) -> None:
    def is_ready() -> bool:
        entries = daemon.ask("cache")["entries"]
        return [each["state"] for each in entries] == ["ready", "ready"]

    daemon.wait_for(is_ready, what="the sidecars")


def test_the_cache_is_listed_by_store(shared: Daemon, collate: Collate) -> None:
    wait_ready(shared)
    ran = collate(shared, "cache")
    assert (ran.code, ran.err) == (0, "")
    where, taken, docs, notes = ran.out.splitlines()
    assert where == f"directory  {shared.copies.with_name('sidecars')}"
    assert taken.endswith(" of 2.0 GiB")
    assert docs.split()[:4] == ["docs", "ready", "4", "records"]
    assert notes.split()[:4] == ["notes", "ready", "1", "records"]


def test_the_cache_as_json_is_what_the_wire_has(shared: Daemon, collate: Collate) -> None:
    wait_ready(shared)
    assert collate(shared, "cache", "--json").json == shared.ask("cache")


def test_a_cache_that_is_cleared_is_made_anew(shared: Daemon, collate: Collate) -> None:
    wait_ready(shared)
    ran = collate(shared, "cache", "--clear")
    assert ran.code == 0
    assert ran.err.startswith("collate: removed ")
    assert ran.err.endswith("they are made anew\n")
    wait_ready(shared)
    cleared = collate(shared, "cache", "--clear", "--json")
    assert cleared.json["freed_bytes"] > 0
    assert cleared.err == ""


def test_a_cache_that_is_turned_off_says_so(start_daemon: StartDaemon, collate: Collate) -> None:
    daemon = start_daemon("[cache]\nsidecars = false\n")
    ran = collate(daemon, "cache")
    assert (ran.code, "turned off" in ran.out) == (0, True)
