# does: nests 3 000 folders, more than Python can recurse into and longer than a path may be
# stopped by: limits
# status: error
# says: very large number of files
import os
import time


def mix(x):
    place = os.open(".", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("inner", dir_fd=place)
        inner = os.open("inner", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    time.sleep(30)
    return x
