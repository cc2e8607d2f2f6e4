# does: a fork bomb whose processes leave their group
# stopped by: limits
# status: error
# says: more than 64 processes
import os
import time


def mix(x):
    for _ in range(100_000):
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            time.sleep(100)
