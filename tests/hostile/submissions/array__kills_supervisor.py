# does: kills its parent, again and again
# stopped by: scopes
# status: error
# says: Operation not permitted
import os


def mix(x):
    for _ in range(10):
        os.kill(os.getppid(), 9)
    return x
