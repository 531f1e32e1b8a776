"""What `collate doctor` looks at on this machine, one function a subject; each returns its findings."""

import os
import resource
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from collated.errors import ConfigError
from collated.places import cache_dir, config_file, load_settings, state_dir, stores_dir
from collated.settings import Settings

__all__ = ["Finding", "Level", "check_configuration", "check_machine", "check_socket", "check_units"]

Level = Literal["ok", "note", "problem"]

_INOTIFY = Path("/proc/sys/fs/inotify")
# Below these a person with many projects meets "OS file watch limit reached" (DESIGN §4).
_FEWEST_WATCHES = 8_192
_FEWEST_INSTANCES = 16
_DESCRIPTORS_PER_STORE = 3  # the store, its WAL and the WAL's index
_SYSTEMCTL_TIMEOUT_S = 5.0


class Finding(Struct, frozen=True):
    """One thing that was looked at; `advice` says what to do about a problem."""

    subject: str
    level: Level
    message: str
    advice: str | None = None


def check_configuration(environ: Mapping[str, str]) -> tuple[Settings, list[Finding]]:
    """Return the settings, or the defaults where they are refused, and what there is to say of them."""
    path = config_file(environ)
    try:
        settings = load_settings(None, environ)
    except ConfigError as error:
        advice = "mend the file, then run `collated check`; a running daemon keeps its old settings"
        return Settings(), [Finding("configuration", "problem", f"{path}: {error}", advice)]
    message = f"{path} is valid" if path.exists() else f"no {path}; every setting is at its default"
    found = [*_check_watched(settings, environ), *_check_embedding(settings, environ)]
    return settings, [Finding("configuration", "ok", message), *found]


def _check_watched(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    for watched in settings.watch:
        path = Path(watched.path).expanduser()
        if not path.is_dir():
            yield Finding(
                "watched directory", "problem", f"{path} is no directory", "make it, or correct its [[watch]]"
            )
        elif not os.access(path, os.R_OK | os.X_OK):
            yield Finding("watched directory", "problem", f"{path} may not be read", f"chmod u+rx {path}")
    path = stores_dir(environ)
    message = f"{path}" if path.is_dir() else f"{path}, which `collate add` will make"
    yield Finding("watched directory", "ok", message)


def _check_embedding(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    from collated.embedding import obstacle, place

    for model, embedding in settings.embedding.items():
        if problem := obstacle(embedding, environ):
            advice = "until then stores of this model are searched by words alone"
            yield Finding("embedding", "problem", f"{model}: {problem}", advice)
        else:
            yield Finding("embedding", "ok", f"{model}: {place(embedding)}")


def check_socket(path: Path) -> list[Finding]:
    """Return what is wrong with the socket's directory and the socket."""
    directory = path.parent
    try:
        found = directory.stat()
    except FileNotFoundError:
        return [Finding("socket", "ok", f"{directory} is not there yet; the daemon makes it")]
    except OSError as error:
        return [
            Finding(
                "socket", "problem", f"{directory}: {error.strerror}", "set COLLATE_SOCKET to another path"
            )
        ]
    if found.st_uid != os.geteuid():
        message = f"{directory} belongs to user {found.st_uid}"
        return [Finding("socket", "problem", message, "set COLLATE_SOCKET to a path of your own")]
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o022 and not mode & stat.S_ISVTX:
        message = f"others may write to {directory} ({mode:04o})"
        return [Finding("socket", "problem", message, f"chmod 700 {directory}")]
    if path.exists() and not path.is_socket():
        return [Finding("socket", "problem", f"{path} is no socket", "remove it, or set COLLATE_SOCKET")]
    return [Finding("socket", "ok", f"{path}")]


def check_machine(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Return what the operating system and this Python allow."""
    yield from _check_inotify()
    yield _check_descriptors(settings)
    yield _check_fts5()
    for subject, directory in (("state", state_dir(environ)), ("cache", cache_dir(environ))):
        yield _check_directory(subject, directory)


def _check_inotify() -> Iterator[Finding]:
    for name, fewest in (("max_user_watches", _FEWEST_WATCHES), ("max_user_instances", _FEWEST_INSTANCES)):
        try:
            limit = int((_INOTIFY / name).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue  # not Linux, or /proc is hidden: the daemon says whether it can watch
        if limit >= fewest:
            yield Finding("inotify", "ok", f"{name} is {limit}")
        else:
            advice = f"sysctl fs.inotify.{name}=524288 as root, and a file in /etc/sysctl.d to keep it"
            yield Finding("inotify", "problem", f"{name} is only {limit}", advice)


def _check_descriptors(settings: Settings) -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.search.max_open_stores * _DESCRIPTORS_PER_STORE + settings.server.max_connections
    shown = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    if hard == resource.RLIM_INFINITY or hard >= needed:
        return Finding("open files", "ok", f"{shown} allowed, {needed} may be needed")
    advice = "raise `ulimit -Hn` (LimitNOFILE=), or lower search.max_open_stores or server.max_connections"
    return Finding("open files", "problem", f"{shown} allowed, {needed} may be needed", advice)


def _check_fts5() -> Finding:
    import sqlite3

    db = sqlite3.connect(":memory:")
    try:
        db.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
    except sqlite3.OperationalError as error:
        advice = "run collated with a Python whose SQLite has FTS5"
        return Finding("SQLite", "problem", f"{sqlite3.sqlite_version}, {error}", advice)
    finally:
        db.close()
    return Finding("SQLite", "ok", f"{sqlite3.sqlite_version} with FTS5")


def _check_directory(subject: str, directory: Path) -> Finding:
    nearest = next(each for each in (directory, *directory.parents) if each.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        advice = (
            f"make it writable; collated runs without it, slower (set XDG_{subject.upper()}_HOME to move it)"
        )
        return Finding(subject, "problem", f"{nearest} may not be written", advice)
    return Finding(subject, "ok", f"{directory}")


def check_units(environ: Mapping[str, str]) -> Finding:
    """Return whether the user's service manager knows the socket unit; it need not."""
    systemctl = shutil.which("systemctl")
    if systemctl is None or not Path(environ.get("XDG_RUNTIME_DIR", ""), "systemd", "private").is_socket():
        return Finding("systemd", "note", "no user manager runs; `collate` starts the daemon by itself")
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            [systemctl, "--user", "is-enabled", "collated.socket"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SYSTEMCTL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("systemd", "note", f"the user manager does not answer: {error}")
    said = done.stdout.decode("utf-8", "replace").strip() or "not installed"
    return Finding("systemd", "ok" if done.returncode == 0 else "note", f"collated.socket is {said}")
