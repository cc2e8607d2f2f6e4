# does: closes every file descriptor
# stopped by: grader
# status: error
import os


def mix(x):
    os.closerange(0, 1024)
    return x
