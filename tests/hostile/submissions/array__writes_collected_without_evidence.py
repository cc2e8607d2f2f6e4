# does: tells the pipe that all was collected, without evidence
# stopped by: split
# status: failed
# says: no evidence
import os


def mix(x):
    for fd in range(3, 64):
        try:
            os.write(fd, b'\n{"outcome": "collected", "digests": {}}\n')
        except OSError:
            pass
    os._exit(0)
