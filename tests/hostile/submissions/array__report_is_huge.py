# does: writes a report of its own with a message of 200 kB into every open file descriptor, then ends
# stopped by: limits
# status: error
# says: before the exercise was done
import os

from oplab.grading import protocol


def mix(x):
    line = b"\n" + protocol.encode(protocol.Report("error", "x" * 200_000)) + b"\n"
    for fd in range(3, 64):
        try:
            os.write(fd, line)
        except OSError:
            pass
    os._exit(0)
