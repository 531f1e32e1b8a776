"""The files that say who is admitted. Everything here blocks.

Credentials are read again when the file's stat changes, the denylist for each request.
"""

import errno
import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from collated.errors import ConfigError

from . import credentials
from .credentials import Credential, NotAdmitted

__all__ = ["Keyring", "Keys", "add", "new_token"]

_TOKEN_BYTES = 32


class Keys(NamedTuple):
    """Who may be admitted at one moment."""

    credentials: Sequence[Credential]
    denied: frozenset[str]


class _Known(NamedTuple):
    stamp: tuple[int, ...]
    credentials: Sequence[Credential]


class Keyring:
    """The credentials and the denylist as they are on disk; any number of threads may ask at once."""

    def __init__(self, path: Path, denylist: Path | None = None) -> None:
        """Read the credentials at *path*.

        Raises:
            ConfigError: they cannot be read, others may read them, or they are refused.
        """
        self._path = path
        self._denylist = denylist
        self._known = _Known((), ())
        self._credentials()

    def keys(self) -> Keys:
        """Return who may be admitted now.

        Raises:
            NotAdmitted: `CredentialsUnreadable`, `DenylistUnreadable`.
        """
        try:
            found = self._credentials()
        except ConfigError as error:
            raise NotAdmitted("CredentialsUnreadable", "the server cannot read its credentials") from error
        return Keys(found, self._denied())

    def _credentials(self) -> Sequence[Credential]:
        try:
            with _opened(self._path) as descriptor:
                found = os.fstat(descriptor)
                _check_private(self._path, found)
                stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
                known = self._known  # once: another thread may put its own there
                if stamp != known.stamp:
                    self._known = known = _Known(stamp, credentials.parse(_read(descriptor)))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the credentials {self._path} cannot be read: {error}") from error
        return known.credentials

    def _denied(self) -> frozenset[str]:
        if self._denylist is None:
            return frozenset()
        try:
            with _opened(self._denylist) as descriptor:
                return credentials.revoked(_read(descriptor))
        except (OSError, UnicodeDecodeError) as error:
            raise NotAdmitted("DenylistUnreadable", "the server cannot read its denylist") from error


def add(path: Path, new: Credential) -> None:
    """Append *new* to the credentials at *path*, which is made when it is not there; whole or not at all.

    Raises:
        ConfigError: the file cannot be read or written, others may read it, or it has the id already.
    """
    path = Path(os.path.realpath(path))  # a symbolic link stays one
    text = credentials.entry(new)
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)  # of two that add at once, neither is lost
            _replace(path, _appended(path, text))
        finally:
            os.close(directory)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the credentials {path} cannot be written: {error}") from error


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


@contextmanager
def _opened(path: Path) -> Generator[int]:
    # A pipe of that name must not hold up whoever asks.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> str:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read().decode()


def _check_private(path: Path, found: os.stat_result) -> None:
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"others may read or write the credentials {path}; run `chmod 600 {path}`")


def _appended(path: Path, entry: str) -> str:
    try:
        with _opened(path) as descriptor:
            _check_private(path, os.fstat(descriptor))
            before = _read(descriptor)
    except FileNotFoundError:
        return entry
    end = "" if before.endswith("\n") else "\n"
    text = f"{before}{end}\n{entry}" if before else entry
    credentials.parse(text)
    return text


def _replace(path: Path, text: str) -> None:
    descriptor, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # of mode 600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        Path(made).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(made).unlink()
        raise
