"""`collate setup`: finds the stores of this machine and sets everything up, or takes that back."""

import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from collated.catalog import shown
from collated.errors import CollatedError
from collated.escape import visible, visible_text
from collated.mcp.configs import AGENTS, lines, where
from collated.mounts import network_mounts
from collated.places import state_dir
from collated.setup.applying import Undone, Workshop
from collated.setup.finding import look
from collated.setup.journal import SetupError
from collated.setup.manager import find_manager
from collated.setup.model import FileStep, Looked, Step
from collated.setup.preparing import Prepared, Seen, Service, command_in_use, prepare_service, prepare_stores
from collated.setup.units import UNITS
from collated_readers.contract import clamped

from .line import Line, Span, line, table, verbatim
from .outcome import FOUND, NOTHING, PARTIAL, USAGE
from .session import Session

__all__ = ["setup"]

_FOLDER = "setup"
_DEPTHS = (0, 64)


class Change(Struct, frozen=True):
    """A file with the text that it is to have, or a link with its target."""

    path: str
    text: str | None = None
    target: str | None = None


class Report(Struct, frozen=True):
    """What `--json` shows: what was found, and what is written or, unless *is_written*, would be."""

    stores: list[Seen]
    left_out: dict[str, str]
    configuration: str
    added: str
    files: list[Change]
    service: str
    is_written: bool


def setup(session: Session) -> int:
    """Find stores, show what is to be written, write it, and say what to do next."""
    workshop = Workshop(state_dir(session.environ) / _FOLDER)
    if session.arguments.undo:
        return _undo(workshop, session)
    roots = _roots(session.arguments.roots)
    with _progress() as tell:
        depth = clamped(session.arguments.depth, _DEPTHS)
        looked = look(roots, depth, network=network_mounts() or (), tell=tell)
    prepared = prepare_stores(looked, roots, session.environ)
    service = _service(workshop, session)
    steps = [*prepared.steps, *service.steps]
    if not session.arguments.json:
        session.show(_found(prepared, looked))
    if not prepared.stores:
        return _nothing_found(roots, session)
    if not session.arguments.json:
        session.show(_to_write(prepared, steps, service, is_whole=session.arguments.dry_run))
    return _carry_out(workshop, prepared, service, session)


def _service(workshop: Workshop, session: Session) -> Service:
    if session.arguments.no_service:
        return Service([], "no service, as you said")
    return prepare_service(workshop.journal(), session.environ)


def _roots(typed: Sequence[str]) -> list[str]:
    roots = [Path(os.path.realpath(Path(root).expanduser())) for root in typed or ["~"]]
    for root in roots:
        if not root.is_dir():
            raise SetupError(f"{root} is no folder; name folders to look below (`collate add` takes a store)")
    return [str(root) for root in roots]


@contextmanager
def _progress() -> Generator[Callable[[int, int], None]]:
    """Give a function that shows how far the walk is, on a person's terminal alone."""
    if not sys.stderr.isatty():
        yield lambda _folders, _stores: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("looking for stores", total=None)
        yield lambda folders, stores: progress.update(
            task, description=f"looking for stores: {folders} folders, {stores} found"
        )


def _nothing_found(roots: Sequence[str], session: Session) -> int:
    if session.arguments.json:
        session.show_json(Report([], {}, "", "", [], "", is_written=False))
    places = ", ".join(roots)
    session.note([line(visible(f"no store below {places}; make one with `contextpull ingest FOLDER`"))])
    return NOTHING


def _carry_out(workshop: Workshop, prepared: Prepared, service: Service, session: Session) -> int:
    steps = [*prepared.steps, *service.steps]
    is_needed = bool(steps) or service.is_wanted
    is_written = is_needed and not session.arguments.dry_run and _may(session)
    problem = _write(workshop, steps, service, session) if is_written else None
    if session.arguments.json:
        session.show_json(_report(prepared, steps, service, is_written=is_written))
    elif not is_needed:
        session.show([line(Span("nothing to do", "good"), ": the daemon finds all of them")])
    if not session.arguments.json and (is_written or not is_needed):
        session.show(_next())
    if problem is not None:
        session.note([line(visible(row)) for row in problem.splitlines()])
        return PARTIAL
    return FOUND if is_written or not is_needed or session.arguments.dry_run else USAGE


def _may(session: Session) -> bool:
    """Ask whoever sits there; where nobody does, only `--yes` is a yes."""
    if session.arguments.yes:
        return True
    if session.arguments.json or not sys.stdin.isatty():
        session.note([line("nothing was written; --yes does it, --dry-run only shows it")])
        return False
    print("Do this? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _write(workshop: Workshop, steps: Sequence[Step], service: Service, session: Session) -> str | None:
    """Do it all; return what went wrong with the service, None when nothing did."""
    if steps:
        workshop.apply(steps)
    manager = find_manager(session.environ) if service.is_wanted else None
    problem = manager.start() if manager else None
    _tell_daemon(session)
    return f"the service was installed but does not start: {problem}" if problem else None


def _tell_daemon(session: Session) -> None:
    """Have a daemon that runs read its configuration again."""
    from collated.claim import is_listening
    from collated.client import Client

    try:
        if not is_listening(session.socket):
            return
        with Client(session.socket) as client:
            client.call("reload")
            client.call("rescan")
    except CollatedError as error:
        session.note([line(visible(f"the daemon was not told: {error}; `collate reload` tells it"))])


# --------------------------------------------------------------------------- taking back


def _undo(workshop: Workshop, session: Session) -> int:
    made = workshop.journal().made
    if not made:
        workshop.undo()
        session.note([line("nothing to undo: no setup is on record")])
        return NOTHING
    if not session.arguments.json:
        session.show(
            [line("to be taken back", hang=2), *(line(_shown(each.path), indent=2) for each in made)]
        )
    if session.arguments.dry_run:
        return FOUND
    if not _may(session):
        return USAGE
    has_units = any(Path(each.path).name in UNITS for each in made)
    manager = find_manager(session.environ) if has_units else None
    if manager:
        manager.stop()
    undone = workshop.undo()
    if manager:
        manager.reread()
    _tell_daemon(session)
    return _show_undone(undone, session)


def _show_undone(undone: Undone, session: Session) -> int:
    if session.arguments.json:
        kept = {shown(path): shown(reason) for path, reason in undone.kept.items()}
        session.show_json(Undone([shown(path) for path in undone.restored], kept))
    else:
        session.show([line(Span("taken back", "good"), f": {len(undone.restored)} of the above")])
    session.note(line(f"kept {_shown(path)}: {_shown(reason)}") for path, reason in undone.kept.items())
    return PARTIAL if undone.kept else FOUND


# --------------------------------------------------------------------------- shown


def _report(prepared: Prepared, steps: Sequence[Step], service: Service, *, is_written: bool) -> Report:
    stores = [replace(each, path=shown(each.path)) for each in prepared.stores]
    left_out = {shown(path): shown(reason) for path, reason in prepared.left_out.items()}
    files = [_change(step) for step in steps]
    return Report(
        stores, left_out, shown(prepared.config), prepared.added, files, service.note, is_written=is_written
    )


def _change(step: Step) -> Change:
    if isinstance(step, FileStep):
        return Change(shown(step.path), text=step.content.decode())
    return Change(shown(step.path), target=shown(step.target))


def _found(prepared: Prepared, looked: Looked) -> Iterator[Line]:
    count = len(prepared.stores)
    yield line(
        Span(f"{count} {'store' if count == 1 else 'stores'}", "heading"), f" in {looked.folders} folders"
    )
    yield from table(
        [
            Span(each.name, "store"),
            Span("new" if each.is_new else "known", "good" if each.is_new else "aside"),
            Span(each.format or "being written"),
            Span(_shown(each.path), "place"),
        ]
        for each in prepared.stores
    )
    if prepared.left_out:
        yield line(Span("left out", "heading"))
    for path, reason in sorted(prepared.left_out.items()):
        yield line(f"{_shown(path)}: {_shown(reason)}", indent=2)


def _to_write(
    prepared: Prepared, steps: Sequence[Step], service: Service, *, is_whole: bool
) -> Iterator[Line]:
    """Return what each step does; the texts of units are part of it only where *is_whole*."""
    for step in steps:
        if not isinstance(step, FileStep):
            yield line(Span("to be linked ", "heading"), f"{_shown(step.path)} -> {_shown(step.target)}")
            continue
        is_config = step.path == prepared.config
        yield line(Span("to be added to " if is_config else "to be written ", "heading"), _shown(step.path))
        if is_config or is_whole:
            text = prepared.added if is_config else step.content.decode()
            yield from verbatim(visible_text(text.rstrip("\n")))
    yield line(visible(service.note))


def _next() -> Iterator[Line]:
    """Return the lines for agents, each text once, and what to try first."""
    command = command_in_use("collate") or "collate"
    agents: dict[str, list[str]] = {}
    for agent in AGENTS:
        agents.setdefault(lines(agent, command), []).append(agent)
    for text, those in agents.items():
        yield line("")
        for agent in those:
            yield line(Span(f"for {agent}", "heading"), f", {where(agent)}")
        yield from verbatim(visible_text(text.rstrip("\n")))
    yield line("")
    if find_spec("mcp") is None:
        yield line("agents need one more package: pip install 'collated[mcp]'")
    yield line("now try: collate search WORDS (and `collate stores`, `collate doctor`)")


def _shown(path: str) -> str:
    """Return a path or message as text that any terminal and encoder takes."""
    return visible(shown(path))
