"""`collate add` and `collate remove`: symlinks in the stores directory, and never the stores themselves."""

import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from collated import protocol
from collated.client import DaemonUnreachable
from collated.errors import CollatedError, RequestFailed
from collated.escape import visible
from collated.places import stores_dir
from collated.settings import is_store_name
from collated_readers.opening.directories import is_directory_store

from . import overview
from .line import line
from .outcome import FOUND, NOTHING
from .session import Session

__all__ = ["add", "remove"]

_SUFFIX = ".sqlite"
# Where the programs leave their store in a project: of each row the first pattern that matches counts.
_IN_PROJECT = (
    (".contextpull/store.sqlite", ".contextpull/*.sqlite"),
    (".claude/cache/codebase-index/index.sqlite",),
    (".contextful/context/*/tables/..",),
)
_BARE = "*.sqlite"


class LinkError(CollatedError):
    """What was typed cannot be added or removed; the message says why and what to do."""

    code = "invalid_link"


def add(session: Session) -> int:
    """Link stores into the stores directory, have the daemon look, and show the stores' lines."""
    stores = _stores_at(Path(session.arguments.path))
    if session.arguments.name is not None and len(stores) > 1:
        raise LinkError(f"--name is for one store; give its own path: {', '.join(map(str, stores))}")
    names = _usual_names(stores)
    links = [(store, _link(store, session.arguments.name, names[store], session)) for store in stores]
    for store, link in links:
        if not link.is_symlink():
            link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            link.symlink_to(store)
    with session.connect() as client:
        session.call(client, "rescan")
        listed: protocol.StoresResult = session.call(client, "stores")
    by_path = {each.path: each for each in listed.stores}
    for store, link in links:
        if _shown(store) not in by_path:
            raise LinkError(
                f"{link} was made, but the daemon does not look there; does it run with another "
                "XDG_DATA_HOME? `collate doctor` shows where it looks"
            )
    return _show([by_path[_shown(store)] for store in stores], session)


def _show(added: list[protocol.StoreStatus], session: Session) -> int:
    if session.arguments.json:
        session.show_json(added[0] if len(added) == 1 else protocol.StoresResult(added))
    else:
        for each in added:
            session.show(overview.store(each))
    return NOTHING if any(each.state in ("refused", "unreadable") for each in added) else FOUND


def _stores_at(path: Path) -> list[Path]:
    """Return the real paths of the stores that *path* means: a store, or those in a project directory."""
    try:
        real = path.expanduser().resolve(strict=True)
    except OSError as error:
        raise LinkError(f"{path}: {error.strerror}") from error
    except RuntimeError as error:  # a symlink that leads in a circle, before Python 3.13
        raise LinkError(f"{path} leads in a circle") from error
    if not real.is_dir() or is_directory_store(real):
        return [real]
    found = [one for patterns in _IN_PROJECT if (one := _one_of(real, patterns))]
    bare = None if found else _one_of(real, (_BARE,))
    if bare is not None:
        found = [bare]
    if not found:
        raise LinkError(f"there is no store in {path}; make one with `contextpull ingest {path}`")
    return found


def _one_of(folder: Path, patterns: Iterable[str]) -> Path | None:
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            names = ", ".join(map(str, found))
            raise LinkError(f"{folder} holds several stores; name one of them: {names}")
        if found:
            return found[0].resolve()
    return None


def _link(store: Path, wanted: str | None, usual: str, session: Session) -> Path:
    """Return the symlink that is to lead to *store*, by its *usual* name if no other is *wanted*."""
    directory = stores_dir(session.environ)
    if wanted is not None and not is_store_name(wanted):
        raise LinkError(f"{wanted!r} cannot be a name; use a-z, 0-9, `.`, `_` and `-`")
    for link in _links(directory):
        if link.resolve() == store:
            if wanted is None or link.stem == wanted:
                return link
            raise LinkError(f"{store} was added as {link.stem}; run `collate remove {link.stem}` first")
    link = directory / ((wanted or usual) + _SUFFIX)
    if link.exists() or link.is_symlink():
        raise LinkError(f"the name {link.stem} is taken by {link.resolve()}; give another one with --name")
    return link


def _usual_names(stores: Sequence[Path]) -> dict[Path, str]:
    """Return the names that the daemon would give."""
    from collated.catalog import Found, assign_names

    names = assign_names([Found(str(store), None, None) for store in stores], {})
    return {store: names[str(store)] for store in stores}


def _links(directory: Path) -> Iterator[Path]:
    if directory.is_dir():
        yield from (path for path in sorted(directory.iterdir()) if path.is_symlink())


def remove(session: Session) -> int:
    """Remove the symlink that a store's name belongs to, and have a running daemon look."""
    session.arguments.no_spawn = True  # a daemon that does not run has nothing to forget
    name: str = session.arguments.name
    link = _link_of(name, session)
    link.unlink()
    try:
        changes: protocol.Changes = session.ask("rescan")
    except DaemonUnreachable:
        changes = protocol.Changes([], [], [name])
    if session.arguments.json:
        session.show_json(changes)
    else:
        session.show(
            [line(f"removed {visible(name)}, the link {visible(str(link))}; the store is untouched")]
        )
    return FOUND


def _link_of(name: str, session: Session) -> Path:
    directory = stores_dir(session.environ)
    links = list(_links(directory))
    for link in links:
        if link.stem == name:
            return link
    store = _known(name, session, [link.stem for link in links])
    for link in links:
        # A link that leads nowhere is listed by its own path.
        if store.path in (_shown(link), _shown(link.resolve())):
            return link
    if Path(store.path).parent == directory.resolve():
        raise LinkError(f"{name} is no link but the store itself, {store.path}; delete that file yourself")
    raise LinkError(
        f"{name} was not added by `collate add`: a [[watch]] or [[store]] entry of the configuration finds "
        f"it at {store.path}; change the entry, then run `collate reload`"
    )


def _known(name: str, session: Session, links: list[str]) -> protocol.StoreStatus:
    """Return what the daemon knows of the store *name*; `unknown_store` when that is nothing."""
    try:
        listed: protocol.StoresResult = session.ask("stores", protocol.StoresParams([name]))
    except DaemonUnreachable as error:
        close = difflib.get_close_matches(name, links)
        suggestion = f"did you mean {', '.join(close)}?" if close else None
        raise RequestFailed("unknown_store", f"nothing was added as {name}", suggestion) from error
    if not listed.stores:
        raise RequestFailed("unknown_store", f"there is no store {name}", "`collate stores` lists them")
    return listed.stores[0]


def _shown(path: Path) -> str:
    """Return *path* as the daemon shows it."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
