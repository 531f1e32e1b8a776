"""The stores that a request addresses, and how they fare."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from collated_readers import Reader, RequestError

from .catalog import Store
from .errors import RequestFailed
from .protocol import Answered, Failure

__all__ = ["Asked", "Chosen", "Selection", "path_filter"]


class Asked:
    """One store in one request. `store` is replaced when its bytes turn out to have changed."""

    def __init__(self, store: Store, reader: Reader) -> None:
        """Ask *store* through *reader*."""
        self.store = store
        self.reader = reader
        self.failure: Failure | None = None
        self.fault: RequestError | None = None
        self.has_answered = False
        self.attempts = 0

    @property
    def is_answering(self) -> bool:
        """Tell whether the store has not failed."""
        return self.failure is None

    def fail(self, code: str, message: str) -> None:
        """Count the store as one that did not answer."""
        self.failure = Failure(self.store.name, code, message)


class Chosen(Struct, frozen=True, eq=False):
    """The stores that a request addresses, by name.

    `stores` can be asked, `failed` cannot, and `skipped` lack the capability. `names`, whose hash is made
    once, and `by_name` are those of `stores`. `formats` are the readers,
    each with the places of its stores in `stores` and in the inventory's filters. `own` are the names of
    those whose reader makes their whole list (`OwnRanking`).
    """

    stores: tuple[Store, ...]
    failed: tuple[Failure, ...]
    skipped: int
    names: frozenset[str]
    by_name: Mapping[str, Store]
    formats: tuple[tuple[Reader, NDArray[np.int64], NDArray[np.int64]], ...]
    own: frozenset[str] = frozenset()


class Selection:
    """How the stores that a request addresses fare. Few of many stores are ever asked one by one."""

    def __init__(self, chosen: Chosen, reader: Callable[[Store], Reader]) -> None:
        """Begin with the *chosen* stores, of which none has been asked; *reader* gives a store's."""
        self.chosen = chosen
        self.reader = reader
        self.skipped = 0
        self._asked: dict[str, Asked] = {}

    @property
    def asked(self) -> list[Asked]:
        """Return all stores as asked one by one, by name."""
        for store in self.chosen.stores:
            if store.name not in self._asked:
                self.enter(Asked(store, self.reader(store)))
        return [asked for _, asked in sorted(self._asked.items())]

    def enter(self, asked: Asked) -> None:
        """Count on *asked* to say how its store fares."""
        self._asked[asked.store.name] = asked

    def failures(self) -> dict[str, Failure]:
        """Return what was asked and has failed, by store."""
        return {name: asked.failure for name, asked in self._asked.items() if asked.failure is not None}

    def outcome(self) -> Answered:
        """Return how the stores fared; `failed` by store name."""
        chosen, late = self.chosen, self.failures()
        failed = sorted((*chosen.failed, *late.values()), key=lambda failure: failure.store)
        total = len(chosen.stores) + len(chosen.failed) + chosen.skipped
        answered = len(chosen.stores) - self.skipped - sum(name in chosen.names for name in late)
        return Answered(total, answered, chosen.skipped + self.skipped, failed)

    def raise_fault(self) -> None:
        """Raise what is wrong with the request, as the first store by name says it.

        Raises:
            RequestFailed: a reader refused the request, or no store at all answered in time.
        """
        for _, each in sorted(self._asked.items()):
            if each.fault is not None:
                raise RequestFailed(each.fault.code, each.fault.message, each.fault.suggestion)
        failed = self.outcome().failed
        if (
            failed
            and len(failed) == len(self.failures()) == len(self.chosen.stores) - self.skipped
            and all(failure.code == "deadline_exceeded" for failure in failed)
        ):
            raise RequestFailed(
                "deadline_exceeded",
                f"none of {len(failed)} stores answered in time",
                "give more time with deadline_ms, or ask fewer stores",
            )


def path_filter(reader: Reader, within: Sequence[str]) -> Callable[[str], bool] | None:
    """Return what tells whether a path passes the filter *within*, None where all do.

    Raises:
        RequestFailed: `invalid_params`.
    """
    try:
        return reader.path_matcher(within) if within else None
    except RequestError as error:
        raise RequestFailed(error.code, error.message, error.suggestion) from error
