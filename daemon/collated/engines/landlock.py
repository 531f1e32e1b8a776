"""Landlock: the kernel's own way for a process to give up rights that no later code can take back.

Rights that are handled and granted nowhere are gone everywhere. Reading is not handled, so it stays as it
was. What is inherited with open files stays too, and some changes Landlock does not know: modes, owners,
time stamps, extended attributes, and every protocol but TCP; `seccomp` knows those.
"""

import ctypes
import os
import sys

__all__ = ["available_abi", "restrict"]

# The numbers are the same on all architectures but one that Python does not run on.
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_VERSION_FLAG = 1

# rights by the ABI that brought them: all but reading files (1 << 2) and directories (1 << 3)
_FILES = {1: 0x1FFF & ~0b1100, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_NETWORK = {4: 0b11}
_SCOPES = {6: 0b11}


class _Attributes(ctypes.Structure):
    """`struct landlock_ruleset_attr`; a kernel that knows less of it wants the rest to be zero."""

    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


def available_abi() -> int:
    """Return the kernel's ABI of Landlock, 0 without."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, _syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


def restrict() -> int:
    """Take from this thread, and from those it starts, what it would need to change anything; return the ABI.

    Gone are: writing, making, moving, truncating and removing files, running programs, controlling devices,
    and by ABI TCP, foreign abstract sockets, and signals to processes that are not so restricted.
    0 means that nothing was done. Without `PR_SET_NO_NEW_PRIVS` it needs privileges.
    """
    abi = available_abi()
    if not abi:
        return 0
    attributes = _Attributes(*(_known(rights, abi) for rights in (_FILES, _NETWORK, _SCOPES)))
    ruleset = _syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    if ruleset < 0:
        return 0
    try:
        return abi if _syscall(_RESTRICT_SELF, ruleset, 0) == 0 else 0
    finally:
        os.close(ruleset)


def _known(rights: dict[int, int], abi: int) -> int:
    return sum(bits for since, bits in rights.items() if since <= abi)


def _syscall(number: int, *arguments: object) -> int:
    typed = (ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    return int(function(ctypes.c_long(number), *typed))
