# does: stops its own process group, so that no limit on processor time is ever reached
# stopped by: limits
# status: timeout
# says: longer than 6 s
import os
import signal


def mix(x):
    os.killpg(0, signal.SIGSTOP)
    return x
