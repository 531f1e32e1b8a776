"""Decides how the daemon is to find stores: so that new ones appear, and little is watched. Pure.

A project is watched through its parent folder, so that its neighbours are found as soon as they have a
store. Not so where the parent is the home, which changes all the time, or lies outside of the folders that
were named, or has too many subfolders: then the project alone is watched.
"""

from collections.abc import Collection
from pathlib import Path

from collated.settings import Pinned, Watched

from .model import Looked, Plan, SeenStore
from .toml import can_quote, quoted

__all__ = ["PROJECT_PATTERNS", "appended", "block", "planned"]

PROJECT_PATTERNS = (
    ".contextpull/*.sqlite",
    ".claude/cache/codebase-index/index.sqlite",
    ".contextful/context/*",
)
"""Where the programs leave their stores in a project: one pattern for each of `PROJECT_FOLDERS`."""

_BEGIN = "# >>> collate setup >>> `collate setup --undo` takes these entries back"
_END = "# <<< collate setup <<<"


def planned(looked: Looked, known: Collection[str], roots: Collection[str], home: str) -> Plan:
    """Return what finds the stores of *looked* that are not *known* by their paths.

    *roots* are the folders that were named, and *home* is the person's; all paths are absolute.
    """
    patterns: dict[str, dict[str, None]] = {}  # a set that keeps its order
    pinned: list[Pinned] = []
    linked: list[str] = []
    for path, store in sorted(looked.stores.items()):
        if path in known:
            continue
        folder, wanted = _place(store, looked, roots, home)
        if folder is not None and can_quote(folder):
            patterns.setdefault(folder, {}).update(dict.fromkeys(wanted))
        elif can_quote(path):
            pinned.append(Pinned(path))
        else:  # a path that no configuration can say; a symlink can
            linked.append(path)
    watched = (Watched(folder, tuple(wanted)) for folder, wanted in sorted(patterns.items()))
    return Plan(tuple(watched), tuple(pinned), tuple(linked))


def _place(
    store: SeenStore, looked: Looked, roots: Collection[str], home: str
) -> tuple[str | None, tuple[str, ...]]:
    """Return the folder to watch for a store, and with which patterns; None where its file alone is meant."""
    if store.project is None:
        folder, suffix = str(Path(store.path).parent), Path(store.path).suffix
        is_shared = (folder, suffix) in looked.strangers or not _may_be_watched(folder, looked, roots, home)
        return (None, ()) if is_shared else (folder, (f"*{suffix}",))
    parent, name = str(Path(store.project).parent), Path(store.project).name
    if name and not name.startswith(".") and _may_be_watched(parent, looked, roots, home):
        return parent, tuple(f"*/{pattern}" for pattern in PROJECT_PATTERNS)
    return store.project, PROJECT_PATTERNS


def _may_be_watched(folder: str, looked: Looked, roots: Collection[str], home: str) -> bool:
    is_inside = any(_is_below(folder, root) for root in roots)
    return is_inside and not _is_below(home, folder) and folder not in looked.crowded


def _is_below(path: str, folder: str) -> bool:
    """Tell whether *path* is *folder* or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def block(plan: Plan) -> str:
    """Return the entries of *plan* as TOML between two marks; empty when there are none."""
    if not (plan.watched or plan.pinned):
        return ""
    rows = [_BEGIN]
    for watched in plan.watched:
        patterns = ", ".join(map(quoted, watched.match))
        rows += ["[[watch]]", f"path = {quoted(watched.path)}", f"match = [{patterns}]", ""]
    for pinned in plan.pinned:
        rows += ["[[store]]", f"path = {quoted(pinned.path)}", ""]
    return "\n".join([*rows[:-1], _END, ""])


def appended(before: str, added: str) -> str:
    """Return a configuration's text with *added* at its end; what was there stays as it was."""
    if not before or not added:
        return before + added
    return before + ("\n" if before.endswith("\n") else "\n\n") + added
