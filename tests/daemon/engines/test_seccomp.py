"""The filter of system calls, run by an interpreter of its language: what passes, what fails and how."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.engines.seccomp import ARCHITECTURES, Architecture, program

ALLOWED = 0x7FFF0000
KILLED = 0x80000000
FORBIDDEN = 0x00050000 | errno.EPERM
ABSENT = 0x00050000 | errno.ENOSYS

machines = pytest.mark.parametrize("machine", ARCHITECTURES)


def verdict(
    architecture: Architecture, call: int, arguments: dict[int, int], audit: int | None = None
) -> int:
    """Return what the kernel would do; *arguments* by position, 0 where there is none."""
    data = {0: call, 4: architecture.audit if audit is None else audit}
    data |= {16 + 8 * position: value & 0xFFFFFFFF for position, value in arguments.items()}
    instructions = program(architecture)
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, operand = instructions[at]
        match code:
            case 0x20:
                accumulator = data.get(operand, 0)
            case 0x54:
                accumulator &= operand
            case 0x15:
                at += if_true if accumulator == operand else if_false
            case 0x35:
                at += if_true if accumulator >= operand else if_false
            case 0x06:
                return operand
            case _:
                raise AssertionError(f"no instruction {code}")
        at += 1


@machines
@given(st.integers(0, 600), st.dictionaries(st.integers(0, 5), st.integers(0, 1 << 32)))
def test_what_fails_is_what_the_table_says(machine: str, call: int, arguments: dict[int, int]) -> None:
    architecture = ARCHITECTURES[machine]
    found = verdict(architecture, call, arguments)
    conditions = [each for each in architecture.unless if each.call == call]
    if call in architecture.denied:
        assert found == FORBIDDEN
    elif call in architecture.absent or call > 462:
        assert found == ABSENT
    elif conditions:
        passes = all(arguments.get(c.argument, 0) & c.mask & 0xFFFFFFFF == c.value for c in conditions)
        assert found == (ALLOWED if passes else FORBIDDEN)
    else:
        assert found == ALLOWED


@pytest.mark.parametrize(
    ("flags", "passes"),
    [
        (os.O_RDONLY | os.O_CLOEXEC, True),
        (os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK, True),
        (os.O_WRONLY, False),
        (os.O_RDWR | os.O_CLOEXEC, False),
        (os.O_RDONLY | os.O_TRUNC, False),
        (os.O_RDONLY | os.O_CREAT, False),
        (os.O_WRONLY | os.O_APPEND, False),
    ],
)
@pytest.mark.parametrize(
    ("machine", "call", "position"), [("x86_64", 2, 1), ("x86_64", 257, 2), ("aarch64", 56, 2)]
)
def test_files_are_opened_to_be_read_alone(
    machine: str, call: int, position: int, flags: int, *, passes: bool
) -> None:
    expected = ALLOWED if passes else FORBIDDEN
    assert verdict(ARCHITECTURES[machine], call, {position: flags}) == expected


@pytest.mark.parametrize(("machine", "call"), [("x86_64", 56), ("aarch64", 220)])
def test_threads_are_made_and_processes_are_not(machine: str, call: int) -> None:
    architecture = ARCHITECTURES[machine]
    assert verdict(architecture, call, {0: 0x3D0F00}) == ALLOWED  # what glibc makes a thread with
    assert verdict(architecture, call, {0: 0x1200011}) == FORBIDDEN  # and a process


@machines
def test_a_call_by_the_convention_of_another_machine_ends_the_process(machine: str) -> None:
    assert verdict(ARCHITECTURES[machine], 0, {}, audit=0x40000003) == KILLED  # 32 bits of old


@machines
def test_a_call_of_x32_is_not_there(machine: str) -> None:
    assert verdict(ARCHITECTURES[machine], 0x40000000 | 2, {}) == ABSENT


@machines
def test_the_filter_is_as_short_as_the_kernel_wants_and_every_way_ends(machine: str) -> None:
    instructions = program(ARCHITECTURES[machine])
    assert len(instructions) <= 4096
    assert instructions[-1].code == 0x06
    assert all(
        at + 1 + max(i.if_true, i.if_false) < len(instructions) for at, i in enumerate(instructions[:-1])
    )
