# does: makes shared memory of System V, which outlives its process
# stopped by: isolation
# status: passed
# isolated: error
# says: PermissionError
import ctypes
import os

REMOVE = 0


def mix(x):
    libc = ctypes.CDLL(None, use_errno=True)
    made = libc.shmget(0, 4096, 0o1600)
    if made < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    libc.shmctl(made, REMOVE, None)
    return 3 * x + 2
