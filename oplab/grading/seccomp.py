"""System calls that a worker has no use for, refused by seccomp: what Landlock and namespaces do not cover.

Every worker is refused memory that belongs to no file and no mapping, which no limit counts, and limits of another process; an isolated
one all of the list.

A refused call fails with EPERM. Two exceptions: ``clone3`` fails with ENOSYS, because a filter cannot see its flags, and the C library
then uses ``clone``; and calls that change a file's mode, owner, times or extended attributes succeed and change nothing, because
Landlock cannot tell the worker's own files from others there, and ``shutil.copy`` makes such calls.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Iterable

# Numbers of system calls on x86-64 and on AArch64; 0 where there is none of that name.
_UNCOUNTED_MEMORY = ((319, 279), (447, 447))  # memfd_create, memfd_secret
_REFUSED = {
    "sockets, also those between processes of this machine": ((41, 198),),  # socketpair stays
    "io_uring, which could open a socket without that call": ((425, 425), (426, 426), (427, 427)),
    "System V shared memory": ((29, 194), (30, 196), (31, 195), (67, 197)),
    "System V semaphores": ((64, 190), (65, 193), (66, 191), (220, 192)),
    "System V messages": ((68, 186), (69, 189), (70, 188), (71, 187)),
    "POSIX messages": ((240, 180), (241, 181), (242, 182), (243, 183), (244, 184), (245, 185)),
    "namespaces and mounts": (
        *((272, 97), (308, 268), (165, 40), (166, 39), (155, 41), (161, 51)),
        *((428, 428), (429, 429), (430, 430), (431, 431), (432, 432), (433, 433), (442, 442)),
    ),
    "keys": ((248, 217), (249, 218), (250, 219)),
    "other processes": ((101, 117), (310, 270), (311, 271), (312, 272), (424, 424), (434, 434), (438, 438)),
    "the kernel's own tools": ((298, 241), (321, 280), (323, 282)),
}
_IGNORED = (
    *((90, 0), (91, 52), (268, 53), (452, 452)),  # chmod
    *((92, 0), (93, 55), (94, 0), (260, 54)),  # chown
    *((132, 0), (235, 0), (261, 0), (280, 88)),  # utime
    *((188, 5), (189, 6), (190, 7), (197, 14), (198, 15), (199, 16)),  # extended attributes
)
# Calls that name a process, and how many of their first arguments have to be 0: that is the caller itself.
_ONLY_FOR_ITSELF = {
    "prlimit64": ((302, 261), 1),
    "sched_setparam": ((142, 118), 1),
    "sched_setscheduler": ((144, 119), 1),
    "sched_setaffinity": ((203, 122), 1),
    "sched_setattr": ((314, 274), 1),
    "setpriority": ((141, 140), 2),  # which = PRIO_PROCESS
}
_IOPRIO_SET = (251, 30)  # which = IOPRIO_WHO_PROCESS, who = 0
_CLONE, _CLONE3 = (56, 220), (435, 435)
_NEW_NAMESPACES = 0x7E020080  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME

_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}  # seccomp's number, place in the pairs above
_LOAD, _EQUAL, _ABOVE, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = (
    0,
    4,
    16,
)  # offsets in what a filter sees; of an argument, the low half is looked at
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38

_Instruction = tuple[int, int, int, int]


def offered() -> bool:
    """Whether there is a list for this machine's processor: x86-64 and AArch64, on Linux."""
    return platform.system() == "Linux" and platform.machine() in _MACHINES


def refuse_calls(isolated: bool = True) -> None:
    """Apply the filter to this process and all that it starts; it cannot be removed. Nothing happens where :func:`offered` is False.

    Args:
        isolated: refuse all of the list; else only what every worker is refused.

    Raises:
        OSError: the kernel refuses the filter.
    """
    if not offered():
        return
    machine, place = _MACHINES[platform.machine()]
    code = b"".join(struct.pack("=HBBI", *line) for line in _program(machine, place, isolated))
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(_PR_SET_SECCOMP, 2, header, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def _program(machine: int, place: int, isolated: bool) -> list[_Instruction]:
    """The filter. Each block begins with the call's number loaded, and ends the filter or leaves the number loaded."""
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_ABOVE, 0, 1, 0x40000000),  # x32 calls have their own numbers
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    program += _answered((pair[place] for pair in _UNCOUNTED_MEMORY), errno.EPERM)
    if not isolated:
        numbers, count = _ONLY_FOR_ITSELF["prlimit64"]
        return [*program, *_when(numbers[place], _arguments_are([0] * count)), (_RETURN, 0, 0, _ALLOW)]
    refused = [pair for pairs in _REFUSED.values() for pair in pairs]
    program += _answered((pair[place] for pair in refused), errno.EPERM)
    program += _answered((pair[place] for pair in _IGNORED if pair[place]), 0)
    program += _answered([_CLONE3[place]], errno.ENOSYS)
    program += _when(_CLONE[place], [(_LOAD, 0, 0, _ARGUMENTS), (_BITS, 1, 0, _NEW_NAMESPACES)])
    for numbers, count in _ONLY_FOR_ITSELF.values():
        program += _when(numbers[place], _arguments_are([0] * count))
    program += _when(_IOPRIO_SET[place], _arguments_are([1, 0]))
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _answered(numbers: Iterable[int], code: int) -> list[_Instruction]:
    """These calls return with this error; 0 is success."""
    return [line for number in numbers for line in ((_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | code))]


def _when(number: int, condition: list[_Instruction]) -> list[_Instruction]:
    """A call that is allowed where a condition goes on to the next instruction, and refused where it jumps over that one."""
    block = [*condition, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    return [(_EQUAL, 0, len(block), number), *block]


def _arguments_are(values: list[int]) -> list[_Instruction]:
    """A condition: the first arguments have these values."""
    lines: list[_Instruction] = []
    for place, value in enumerate(values):
        over = 2 * (len(values) - place) - 1  # the rest of the condition, and the instruction after it
        lines += [(_LOAD, 0, 0, _ARGUMENTS + 8 * place), (_EQUAL, 0, over, value)]
    return lines
