"""The files of the user service: the units as shipped, a drop-in that names the command, two links. Pure."""

import re
from collections.abc import Mapping
from pathlib import Path

from .model import FileStep, LinkStep, Step

__all__ = ["UNITS", "can_name", "service_steps"]

UNITS = ("collated.service", "collated.socket")

_DROP_IN = "collated.service.d/collate-setup.conf"
# What `systemctl --user enable` would link, by the units' own [Install] sections.
_WANTED = {"default.target.wants": "collated.service", "sockets.target.wants": "collated.socket"}
_PLAIN = re.compile(r"[\w/.,:+@~ -]+", re.ASCII)


def can_name(command: str) -> bool:
    """Tell whether a unit can name *command* without anything being made of its characters."""
    return _PLAIN.fullmatch(command) is not None


def service_steps(folder: Path, shipped: Mapping[str, bytes], command: Path, usual: Path) -> list[Step]:
    """Return what makes *command* a user service that is enabled, in the units' *folder*.

    *usual* is where the shipped units look for it; another path takes a drop-in.
    """
    steps: list[Step] = [FileStep(str(folder / name), shipped[name]) for name in UNITS]
    if command != usual:
        text = f'# Made by `collate setup`.\n[Service]\nExecStart=\nExecStart="{command}" run\n'
        steps.append(FileStep(str(folder / _DROP_IN), text.encode()))
    return steps + [
        LinkStep(str(folder / wants / unit), str(folder / unit)) for wants, unit in _WANTED.items()
    ]
