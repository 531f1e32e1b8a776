"""Slots: how many there are, that one is given back once, and when nobody is left."""

from __future__ import annotations

import anyio
import pytest

from collated.mcp.http.door import Door


def test_as_many_are_let_in_as_there_are_slots() -> None:
    door = Door(2)
    first = door.enter()
    assert first is not None
    assert door.enter() is not None
    assert door.enter() is None
    first.leave()
    assert door.held == 1
    assert door.enter() is not None


def test_who_leaves_twice_has_left_once() -> None:
    door = Door(2)
    visits = [door.enter(), door.enter()]
    assert visits[0] is not None
    with visits[0] as visit:
        visit.leave()
        visit.leave()
        assert door.held == 1
    assert door.held == 1


def test_a_visit_ends_with_its_block_whatever_happens() -> None:
    door = Door(1)
    visit = door.enter()
    assert visit is not None
    with pytest.raises(ValueError, match="oops"), visit:
        raise ValueError("oops")
    assert door.held == 0


def test_nobody_is_let_in_by_a_closed_door() -> None:
    door = Door(1)
    door.close()
    assert door.enter() is None
    assert door.held == 0


@pytest.mark.anyio
async def test_a_closed_door_tells_when_the_last_has_left() -> None:
    door = Door(2)
    first, second = door.enter(), door.enter()
    assert first is not None
    assert second is not None
    first.leave()
    door.close()
    with anyio.move_on_after(0) as waiting:
        await door.emptied()
    assert waiting.cancelled_caught
    second.leave()
    with anyio.fail_after(10):
        await door.emptied()
