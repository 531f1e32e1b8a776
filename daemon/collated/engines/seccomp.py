"""A filter of system calls: what changes files, opens sockets, makes processes or reaches into others fails.

It is the second wall beside Landlock, and where there is none the first. Calls that are newer than the
table are answered as an older kernel would, so that nothing new gets by. Reading, memory and threads
are left alone. The program is made by `program`, which is pure.
"""

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["ARCHITECTURES", "Architecture", "Instruction", "Unless", "program", "restrict"]

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06

_NEWEST = 462  # the last call that was looked at for what follows
_WRITES = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
_CLONE_THREAD = 0x10000


class Instruction(NamedTuple):
    """One `struct sock_filter`."""

    code: int
    if_true: int
    if_false: int
    operand: int


class Unless(NamedTuple):
    """A call that fails unless the low half of *argument*, masked, is *value*."""

    call: int
    argument: int
    mask: int
    value: int


class Architecture(NamedTuple):
    """How a machine numbers its calls: what always fails, what is not there, what depends."""

    audit: int
    denied: frozenset[int]
    absent: frozenset[int]
    unless: tuple[Unless, ...]


# The same numbers everywhere: pidfd_send_signal, io_uring_*, open_tree, move_mount, fsopen, fsconfig,
# fsmount, fspick, pidfd_open, pidfd_getfd, process_madvise, mount_setattr, fchmodat2.
_COMMON_DENIED = frozenset({424, 425, 426, 427, 428, 429, 430, 431, 432, 433, 434, 438, 440, 442, 452})
_COMMON_ABSENT = frozenset({435, 437})  # clone3, openat2: their flags lie in memory; libraries do without

ARCHITECTURES = {
    "x86_64": Architecture(
        0xC000003E,
        _COMMON_DENIED
        | {
            82,
            264,
            316,
            83,
            258,
            84,
            86,
            265,
            87,
            263,
            88,
            266,
        }  # rename* mkdir* rmdir link* unlink* symlink*
        | {85, 133, 259, 76, 77, 285, 304}  # creat mknod* truncate ftruncate fallocate open_by_handle_at
        | {90, 91, 268, 92, 93, 94, 260}  # chmod fchmod fchmodat chown fchown lchown fchownat
        | {132, 235, 261, 280, 188, 189, 190, 197, 198, 199}  # utime* *setxattr *removexattr
        | {240, 241, 41, 53}  # mq_open mq_unlink socket socketpair
        | {57, 58, 59, 322, 62, 200, 234, 129, 297}  # fork vfork execve* kill tkill tgkill rt_*sigqueueinfo
        | {101, 310, 311}  # ptrace process_vm_readv process_vm_writev
        | {272, 308, 165, 166, 155, 161}  # unshare setns mount umount2 pivot_root chroot
        | {321, 298, 323, 248, 249, 250},  # bpf perf_event_open userfaultfd add_key request_key keyctl
        _COMMON_ABSENT,
        (
            Unless(2, 1, _WRITES, 0),  # open
            Unless(257, 2, _WRITES, 0),  # openat
            Unless(56, 0, _CLONE_THREAD, _CLONE_THREAD),  # clone
            Unless(302, 0, 0xFFFFFFFF, 0),  # prlimit64, of itself
        ),
    ),
    "aarch64": Architecture(
        0xC00000B7,
        _COMMON_DENIED
        | {38, 276, 34, 37, 35, 36}  # renameat renameat2 mkdirat linkat unlinkat symlinkat
        | {33, 45, 46, 47, 265}  # mknodat truncate ftruncate fallocate open_by_handle_at
        | {52, 53, 54, 55}  # fchmod fchmodat fchownat fchown
        | {88, 5, 6, 7, 14, 15, 16}  # utimensat *setxattr *removexattr
        | {180, 181, 198, 199}  # mq_open mq_unlink socket socketpair
        | {221, 281, 129, 130, 131, 138, 240}  # execve execveat kill tkill tgkill rt_*sigqueueinfo
        | {117, 270, 271}  # ptrace process_vm_readv process_vm_writev
        | {97, 268, 40, 39, 41, 51}  # unshare setns mount umount2 pivot_root chroot
        | {280, 241, 282, 217, 218, 219},  # bpf perf_event_open userfaultfd add_key request_key keyctl
        _COMMON_ABSENT,
        (
            Unless(56, 2, _WRITES, 0),  # openat
            Unless(220, 0, _CLONE_THREAD, _CLONE_THREAD),  # clone
            Unless(261, 0, 0xFFFFFFFF, 0),  # prlimit64, of itself
        ),
    ),
}


def program(architecture: Architecture) -> tuple[Instruction, ...]:
    """Return the filter for one machine. A call of another one's convention kills the process. Pure."""
    return tuple(_program(architecture))


def _program(architecture: Architecture) -> Iterator[Instruction]:
    yield Instruction(_LOAD, 0, 0, _ARCHITECTURE_AT)
    yield Instruction(_EQUAL, 1, 0, architecture.audit)
    yield Instruction(_RETURN, 0, 0, _KILL)
    yield Instruction(_LOAD, 0, 0, _NUMBER_AT)
    yield Instruction(_AT_LEAST, 0, 1, _NEWEST + 1)  # those of x32 too
    yield Instruction(_RETURN, 0, 0, _ERROR | errno.ENOSYS)
    for call, argument, mask, value in architecture.unless:  # first: they are called most
        yield Instruction(_EQUAL, 0, 5, call)
        yield Instruction(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)
        yield Instruction(_AND, 0, 0, mask)
        yield Instruction(_EQUAL, 0, 1, value)
        yield Instruction(_RETURN, 0, 0, _ALLOW)
        yield Instruction(_RETURN, 0, 0, _ERROR | errno.EPERM)
    for calls, number in ((architecture.absent, errno.ENOSYS), (architecture.denied, errno.EPERM)):
        for call in sorted(calls):
            yield Instruction(_EQUAL, 0, 1, call)
            yield Instruction(_RETURN, 0, 0, _ERROR | number)
    yield Instruction(_RETURN, 0, 0, _ALLOW)


class _Filter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Filter)))


def restrict() -> bool:
    """Filter the calls of this thread and of those it starts, for good; False where that cannot be.

    It needs `PR_SET_NO_NEW_PRIVS`, or privileges.
    """
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None or not sys.platform.startswith("linux") or sys.maxsize < 1 << 32:
        return False
    instructions = program(architecture)
    filters = (_Filter * len(instructions))(*(_Filter(*each) for each in instructions))
    whole = _Program(len(instructions), filters)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return int(prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(whole), 0, 0)) == 0
