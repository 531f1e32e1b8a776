"""Which store has a record of which only the id is known (DESIGN note 84)."""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from collated_readers import Budget, Reader, RequestError
from collated_readers.opening import StoreConnection

from .errors import RequestFailed
from .gathering import Gathering
from .selection import Selection

__all__ = ["resolve"]

_NAMED = 10  # candidates in a message


class _There(Struct, frozen=True):
    is_there: bool


async def resolve(gathering: Gathering, selection: Selection, record_id: str, budget: Budget) -> str:
    """Return the name of the one store of *selection* that has the record.

    Raises:
        RequestFailed: `unknown_id` where none has it, `ambiguous_id` where several do, and as
            `Selection.raise_fault`.
    """
    answers = await gathering.gather("resolve", selection, None, partial(_looked_up, record_id), budget)
    selection.raise_fault()
    return _only(record_id, [name for name, each in answers.items() if each.is_there], selection)


def _looked_up(record_id: str, reader: Reader, db: StoreConnection, _: Budget) -> _There:
    try:
        reader.read(db, record_id, 0)
    except RequestError as error:
        if error.code != "unknown_id":
            raise
        return _There(is_there=False)
    return _There(is_there=True)


def _only(record_id: str, found: Sequence[str], selection: Selection) -> str:
    if len(found) > 1:
        refs = ", ".join(f"{name}:{record_id}" for name in found[:_NAMED])
        more = f", and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise RequestFailed(
            "ambiguous_id",
            f"{len(found)} stores have {record_id!r}: {refs}{more}",
            "ask for one of these refs",
        )
    if not found:
        failed = len(selection.outcome().failed)
        unsaid = f"; {failed} did not answer, `collate doctor` says why" if failed else ""
        raise RequestFailed(
            "unknown_id", f"no store that is open has {record_id!r}{unsaid}", "search for it first"
        )
    return found[0]
