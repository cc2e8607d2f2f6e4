# does: asks for memory in many processes, each below the limit
# stopped by: limits
# status: error
# says: memory together
import os
import time


def mix(x):
    for _ in range(8):
        if os.fork() == 0:
            kept = b"x" * (300 << 20)
            time.sleep(100)
            os._exit(len(kept) & 1)
    time.sleep(100)
