"""`collate add` and `collate remove`: symlinks in the stores directory, and never the stores themselves."""

import difflib
import os
from collections.abc import Iterator
from pathlib import Path

from collated import protocol
from collated.client import DaemonUnreachable
from collated.errors import CollatedError, RequestFailed
from collated.places import stores_dir
from collated.settings import is_store_name

from . import overview
from .escape import visible
from .line import line
from .outcome import FOUND, NOTHING
from .session import Session

__all__ = ["add", "remove"]

_SUFFIX = ".sqlite"
# Where the programs leave their store in a project; the first pattern that matches decides.
_IN_PROJECT = (
    ".contextpull/store.sqlite",
    ".contextpull/*.sqlite",
    ".claude/cache/codebase-index/index.sqlite",
    "*.sqlite",
)


class LinkError(CollatedError):
    """What was typed cannot be added or removed; the message says why and what to do."""

    code = "invalid_link"


def add(session: Session) -> int:
    """Link a store into the stores directory, have the daemon look, and show the store's line."""
    store = _store_at(Path(session.arguments.path))
    link = _link(store, session)
    if not link.is_symlink():
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        link.symlink_to(store)
    with session.connect() as client:
        session.call(client, "rescan")
        listed: protocol.StoresResult = session.call(client, "stores")
    for each in listed.stores:
        if each.path == _shown(store):
            if session.arguments.json:
                session.show_json(each)
            else:
                session.show(overview.store(each))
            return NOTHING if each.state in ("refused", "unreadable") else FOUND
    raise LinkError(
        f"{link} was made, but the daemon does not look there; does it run with another XDG_DATA_HOME? "
        "`collate doctor` shows where it looks"
    )


def _store_at(path: Path) -> Path:
    """Return the real path of the store that *path* means: a file, or the one in a project directory."""
    try:
        real = path.expanduser().resolve(strict=True)
    except OSError as error:
        raise LinkError(f"{path}: {error.strerror}") from error
    except RuntimeError as error:  # a symlink that leads in a circle, before Python 3.13
        raise LinkError(f"{path} leads in a circle") from error
    if not real.is_dir():
        return real
    for pattern in _IN_PROJECT:
        if found := sorted(real.glob(pattern)):
            break
    else:
        raise LinkError(f"there is no store in {path}; make one with `contextpull ingest {path}`")
    if len(found) > 1:
        raise LinkError(f"{path} holds several stores; name one of them: {', '.join(map(str, found))}")
    return found[0].resolve()


def _link(store: Path, session: Session) -> Path:
    """Return the symlink that leads, or is to lead, to *store*."""
    directory = stores_dir(session.environ)
    wanted: str | None = session.arguments.name
    if wanted is not None and not is_store_name(wanted):
        raise LinkError(f"{wanted!r} cannot be a name; use a-z, 0-9, `.`, `_` and `-`")
    for link in _links(directory):
        if link.resolve() == store:
            if wanted is None or link.stem == wanted:
                return link
            raise LinkError(f"{store} was added as {link.stem}; run `collate remove {link.stem}` first")
    link = directory / ((wanted or _usual_name(store)) + _SUFFIX)
    if link.exists() or link.is_symlink():
        raise LinkError(f"the name {link.stem} is taken by {link.resolve()}; give another one with --name")
    return link


def _usual_name(store: Path) -> str:
    """Return the name that the daemon would give."""
    from collated.catalog import Found, assign_names

    return assign_names([Found(str(store), None, None)], {})[str(store)]


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
