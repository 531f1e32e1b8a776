"""What there is and how it fares, as lines: stores and the daemon's status. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from collated.escape import visible
from collated.protocol import CacheEntry, CacheResult, StatusResult, StoresResult, StoreStatus

from .advice import advice
from .details import concerns, facts, warnings
from .line import Line, Meaning, Span, line, table

__all__ = ["cache", "cleared", "missing_walls", "status", "store", "stores"]

_REASON_INDENT = 4
_STATE_MEANINGS: Mapping[str, Meaning] = {
    "open": "good",
    "ready": "good",
    "refused": "bad",
    "unreadable": "bad",
}
_KILO = 1024


def stores(result: StoresResult, *, in_full: bool = False) -> Iterator[Line]:
    """Return one row for each store and, below those that need it, what is wrong and what to do.

    *in_full*, all else that is known of a store is told too.
    """
    rows = list(table(_row(each) for each in result.stores))
    for each, row in zip(result.stores, rows, strict=True):
        yield row
        for text in _below(each, in_full=in_full):
            yield line(visible(text), indent=_REASON_INDENT)


def store(each: StoreStatus) -> Iterator[Line]:
    """Return one store's row and, when something is wrong with it, what that is and what to do."""
    return stores(StoresResult([each]))


def _row(each: StoreStatus) -> tuple[Span, ...]:
    of_format = f"{each.format or '?'} {each.schema_version or ''}".strip()
    counts = "" if each.records is None else f"{each.documents} documents, {each.records} records"
    return (
        Span(visible(each.name), "store"),
        Span(visible(each.state), _STATE_MEANINGS.get(each.state, "")),
        Span(visible(of_format)),
        Span(counts),
        Span(visible(each.path), "aside"),
    )


def _below(each: StoreStatus, *, in_full: bool) -> Iterator[str]:
    if each.reason is not None:
        yield f"{each.reason.message} ({each.reason.code}); {advice(each.reason.code)}"
    if in_full and (known := ", ".join(facts(each))):
        yield known
    for concern in concerns(each):
        yield f"{concern.message}; {concern.advice}"
    if in_full:
        yield from warnings(each)


def status(result: StatusResult) -> Iterator[Line]:
    """Return the daemon's state, one subject to a line."""
    rows = [
        ("daemon", f"collated {result.version}, process {result.pid}, up {_duration(result.uptime_s)}"),
        ("socket", result.socket),
        ("configuration", result.config or "none; every setting is at its default"),
        ("stores", _counts(result.stores) or "none"),
        ("clients", f"{result.connections} connected, {result.in_flight} requests in flight"),
        ("cache", _counts(result.cache)),
        ("memory", _counts(result.memory)),
        ("watch", _counts(result.watch)),
        ("sidecars", _counts(result.sidecars)),
        *([("engines", _engines(result.engines))] if result.engines.get("started") else []),
    ]
    yield from table((Span(subject, "heading"), Span(visible(text))) for subject, text in rows)
    if result.config_error is not None:
        yield line(
            Span(
                f"the new configuration is refused, the old one stays: {visible(result.config_error)}", "bad"
            )
        )


def cache(result: CacheResult) -> Iterator[Line]:
    """Return where the sidecars are and what they take, then each store's, with what is wrong with it."""
    taken = f"{size(result.bytes)} of {size(result.limit_bytes)}" if result.limit_bytes else "turned off"
    rows = [("directory", result.directory), ("sidecars", taken)]
    yield from table((Span(subject, "heading"), Span(visible(text))) for subject, text in rows)
    if result.error is not None:
        yield line(Span(visible(result.error), "bad"))
    entries = list(table(_entry(each) for each in result.entries))
    for each, row in zip(result.entries, entries, strict=True):
        yield row
        if each.reason is not None:
            yield line(f"{visible(each.reason.message)} ({visible(each.reason.code)})", indent=_REASON_INDENT)


def _entry(each: CacheEntry) -> tuple[Span, ...]:
    return (
        Span(visible(each.store), "store"),
        Span(visible(each.state), _STATE_MEANINGS.get(each.state, "")),
        Span(f"{each.records} records"),
        Span(size(each.bytes) if each.bytes else ""),
    )


def cleared(result: CacheResult) -> Iterator[Line]:
    """Return what became of the sidecars that were to be removed."""
    then = "they are made anew" if result.limit_bytes else "none are made, since sidecars are turned off"
    yield line(f"removed {size(result.freed_bytes)} of sidecars; {then}")


def _engines(values: Mapping[str, Any]) -> str:
    """Return how the workers of context stores are; what walls they lack is what people should know."""
    counts = {name: value for name, value in values.items() if name not in ("is_available", "confinement")}
    return ", ".join([_counts(counts), *(f"without {wall}" for wall in missing_walls(values))])


def missing_walls(engines: Mapping[str, Any]) -> Sequence[str]:
    """Return what workers of context stores should be confined by, and this system does not have."""
    confinement: Mapping[str, Sequence[str]] = engines.get("confinement") or {}
    return confinement.get("missing", ())


def _counts(values: Mapping[str, Any]) -> str:
    return ", ".join(_counted(name, value) for name, value in values.items() if value is not None)


def _counted(name: str, value: Any) -> str:
    if name.endswith("bytes") and isinstance(value, int):
        name, value = name.removesuffix("_bytes"), size(value)
    return f"{name.replace('_', ' ')} {value}"


def size(count: int) -> str:
    """Return a number of bytes for people."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < _KILO:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _KILO
    return f"{amount:.1f} GiB"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
