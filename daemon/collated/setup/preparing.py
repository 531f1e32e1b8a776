"""Reads what is there - configuration, stores, units - and makes the steps of a setup. Writes nothing."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from collated.catalog import Found, assign_names
from collated.errors import ConfigError
from collated.locate import listing, pinned_names
from collated.mounts import network_mounts
from collated.places import config_file, stores_dir
from collated.settings import Settings, Watched, parse

from .applying import content_of, digest_of
from .journal import Journal
from .manager import find_manager, shipped_units, units_folder
from .model import FileStep, LinkStep, Looked, Plan, Step
from .planning import appended, block, planned
from .units import UNITS, can_name, service_steps

__all__ = ["Prepared", "Seen", "Service", "command_in_use", "prepare_service", "prepare_stores"]

_SUFFIX = ".sqlite"
# A service starts without what is set in a shell; these would make it another daemon than the commands ask.
_OF_A_SHELL = ("COLLATE_CONFIG", "COLLATE_SOCKET")


class Seen(Struct, frozen=True):
    """A store as it is shown: the name that the daemon will give it, and whether it is new to the daemon."""

    name: str
    format: str
    path: str
    is_new: bool


class Prepared(Struct, frozen=True):
    """What is to be done so that the daemon finds the stores; *added* is what the configuration gets."""

    stores: list[Seen]
    left_out: Mapping[str, str]
    config: str
    added: str
    steps: list[Step]


class Service(Struct, frozen=True):
    """The steps towards a user service, and a sentence about it; *is_wanted* where it is to be started."""

    steps: list[Step]
    note: str
    is_wanted: bool = False


def prepare_stores(looked: Looked, roots: Sequence[str], environ: Mapping[str, str]) -> Prepared:
    """Return how the daemon is to find the stores that were *looked* up below *roots*.

    Raises:
        ConfigError: the configuration cannot be read or is refused, or cannot be added to.
        SetupError: its file is no file.
    """
    path = Path(os.path.realpath(config_file(environ)))  # a link to it stays one
    before = _read(path)
    text = _decoded(before, path)
    known = _found(parse(text, environ), environ)
    plan = planned(looked, known, roots, os.path.realpath(Path.home()))
    added = block(plan)
    after = appended(text, added)
    names = _names(_settings(after, path, environ, is_changed=bool(added)), plan, environ)
    stores = [
        Seen(names[each.path], each.format, each.path, each.path not in known)
        for each in looked.stores.values()
        if each.path in names  # or it went away since
    ]
    steps: list[Step] = [FileStep(str(path), after.encode(), before, added)] if added else []
    links = stores_dir(environ)
    steps += [LinkStep(str(links / (names[store] + _SUFFIX)), store) for store in plan.linked]
    ordered = sorted(stores, key=lambda each: (each.name, each.path))
    return Prepared(ordered, looked.left_out, str(path), added, steps)


def _read(path: Path) -> bytes | None:
    try:
        return content_of(path)
    except OSError as error:
        raise ConfigError(f"the configuration {path} cannot be read: {error}") from error


def _decoded(data: bytes | None, path: Path) -> str:
    try:
        return (data or b"").decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the configuration {path} cannot be read: {error}") from error


def _settings(text: str, path: Path, environ: Mapping[str, str], *, is_changed: bool) -> Settings:
    try:
        return parse(text, environ)
    except ConfigError as error:
        if not is_changed:
            raise
        advice = (
            "write its `watch` and `store` as [[watch]] and [[store]] tables, then run `collate setup` again"
        )
        raise ConfigError(f"nothing can be added to {path}: {error}; {advice}") from error


def _found(settings: Settings, environ: Mapping[str, str]) -> dict[str, Found]:
    """Return what a daemon with *settings* finds, by real path."""
    watched = (*settings.watch, Watched(str(stores_dir(environ))))
    return listing(watched, settings.store, network_mounts() or ()).found


def _names(settings: Settings, plan: Plan, environ: Mapping[str, str]) -> dict[str, str]:
    found = _found(settings, environ) | {path: Found(path, None, None) for path in plan.linked}
    return assign_names(found.values(), pinned_names(settings.store))


def prepare_service(journal: Journal, environ: Mapping[str, str]) -> Service:
    """Return what makes the daemon a service of the user, as far as that can be and is not so."""
    manager = find_manager(environ)
    if manager is None:
        return Service([], "no user service manager runs here; the commands start the daemon by themselves")
    set_here = [name for name in _OF_A_SHELL if environ.get(name)]
    if set_here:
        return Service([], f"no service: it would not know of {set_here[0]}, which is set here")
    home = Path.home()
    folder = units_folder(environ, home)
    said = manager.is_enabled()
    ours = {made.path: made.became for made in journal.made}
    if said and str(folder / UNITS[-1]) not in ours:
        return Service([], f"the service was installed before: collated.socket is {said}")
    shipped, command = shipped_units(), command_in_use("collated")
    if shipped is None or command is None or not can_name(command):
        return Service(
            [], "no service: the units or the command `collated` are not where an installation has them"
        )
    every = service_steps(folder, shipped, Path(command), home / ".local" / "bin" / "collated")
    steps = [_after(step) for step in every if not _is_done(step, ours)]
    note = "to be installed and started" if steps else "installed"
    return Service(
        steps, f"the user service collated.socket: {note}", is_wanted=bool(steps) or not manager.is_running()
    )


def _after(step: Step) -> Step:
    """Return a step as one that follows on what is there now."""
    return step if isinstance(step, LinkStep) else replace(step, before=content_of(Path(step.path)))


def _is_done(step: Step, ours: Mapping[str, str]) -> bool:
    """Tell whether a step needs not be done, or should not: what a person put there, or changed, stays."""
    if isinstance(step, LinkStep):
        return os.path.lexists(step.path)
    there = content_of(Path(step.path))
    return there is not None and (there == step.content or digest_of(there) != ours.get(step.path))


def command_in_use(name: str) -> str | None:
    """Return the absolute path of the command *name* of this installation, None where it is not found.

    Links are not followed: an installer's link outlives the environment that it leads to.
    """
    typed = Path(sys.argv[0]).absolute()
    beside = typed.with_name(name) if typed.name in ("collate", "collated") else None
    found = shutil.which(name)
    candidates = (beside, Path(found).absolute() if found else None, Path(sys.executable).with_name(name))
    return next((str(each) for each in candidates if each is not None and os.access(each, os.X_OK)), None)
