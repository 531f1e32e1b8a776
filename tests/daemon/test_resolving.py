"""Records of which only the id is given: whose they are, and what is said where that is not clear."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from collated.errors import RequestFailed
from collated.protocol import METHODS, NeighboursResult, ReadResult

if TYPE_CHECKING:
    from tests.daemon.conftest import PutStore
    from tests.daemon.worlds import Assemble, Parts

pytestmark = pytest.mark.anyio


@pytest.fixture
async def parts(assemble: Assemble, stores: Path, put_store: PutStore) -> Parts:
    """Two stores with the same documents, one with others, and a file that is no store."""
    put_store(stores / "fruit.sqlite", "fruit")
    put_store(stores / "more.sqlite", "fruit")
    put_store(stores / "trees.sqlite", "trees")
    (stores / "zz.sqlite").write_text("just text")
    parts = assemble()
    await parts.look()
    return parts


async def ask(parts: Parts, method: str, ref: str, *stores: str) -> Any:
    given = {"ref": ref} | ({"stores": list(stores)} if stores else {})
    typed = msgspec.convert(given, METHODS[method].params)
    encoded = await parts.methods.answer(parts.methods.codec("lines"), method, typed, None)
    return msgspec.json.decode(encoded, type=METHODS[method].result)


async def refused(parts: Parts, method: str, ref: str, *stores: str) -> RequestFailed:
    with pytest.raises(RequestFailed) as caught:
        await ask(parts, method, ref, *stores)
    return caught.value


async def test_an_id_that_one_store_has_needs_no_store(parts: Parts) -> None:
    read: ReadResult = await ask(parts, "read", "oak.md#0")
    around: NeighboursResult = await ask(parts, "neighbours", "oak.md#0")
    assert read == await ask(parts, "read", "trees:oak.md#0")
    assert read.ref == "trees:oak.md#0"
    assert around == await ask(parts, "neighbours", "trees:oak.md#0")


@pytest.mark.parametrize("method", ["read", "neighbours"])
async def test_an_id_that_several_stores_have_names_the_candidates(parts: Parts, method: str) -> None:
    error = await refused(parts, method, "apple.md#0")
    assert error.code == "ambiguous_id"
    assert "fruit:apple.md#0, more:apple.md#0" in error.message
    assert "one of these refs" in (error.suggestion or "")


async def test_stores_narrow_whom_an_id_alone_is_asked_of(parts: Parts) -> None:
    assert (await ask(parts, "read", "apple.md#0", "more")).ref == "more:apple.md#0"
    assert (await refused(parts, "read", "oak.md#0", "fruit", "more")).code == "unknown_id"
    assert (await refused(parts, "read", "oak.md#0", "nobody")).code == "unknown_store"


async def test_a_ref_is_of_its_own_store_or_of_none(parts: Parts) -> None:
    assert (await ask(parts, "read", "more:apple.md#0", "more")).store == "more"
    assert (await refused(parts, "read", "more:apple.md#0", "fruit")).code == "invalid_params"
    assert (await refused(parts, "read", "mora:apple.md#0")).code == "unknown_store"
    assert (await refused(parts, "read", "fruit:oak.md#0")).code == "unknown_id"


async def test_many_candidates_are_counted(assemble: Assemble, stores: Path, put_store: PutStore) -> None:
    for number in range(14):
        put_store(stores / f"s{number:02}.sqlite", "fruit")
    parts = assemble()
    await parts.look()
    message = (await refused(parts, "read", "apple.md#0")).message
    assert message.startswith("14 stores have 'apple.md#0': s00:apple.md#0, ")
    assert message.endswith("s09:apple.md#0, and 4 more")


async def test_what_nobody_has_is_said_with_those_that_did_not_answer(parts: Parts) -> None:
    assert (
        await refused(parts, "read", "nothing.md#0")
    ).message == "no store that is open has 'nothing.md#0'"
    error = await refused(parts, "read", "nothing.md#0", "fruit", "zz")
    assert error.message.endswith("; 1 did not answer, `collate doctor` says why")
