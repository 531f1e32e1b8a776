"""Stores that are directories: context stores, the one such format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .failure import from_os

if TYPE_CHECKING:
    from collated_readers.contextful.stamp import Stamp

__all__ = ["is_directory_store", "look_into"]


def is_directory_store(path: Path) -> bool:
    """Tell whether the directory at *path* is such a store."""
    return (path / "tables").is_dir()


def look_into(path: Path) -> Stamp:
    """Return what a walk of the store's directory sees, by `stat` alone.

    Raises:
        StoreError: the codes of the system's errors.
    """
    from collated_readers.contextful.stamp import stamp_of  # only where there is such a store

    try:
        return stamp_of(os.fspath(path))
    except OSError as error:
        raise from_os(error) from error
