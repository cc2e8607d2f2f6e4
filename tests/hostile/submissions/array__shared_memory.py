# does: asks for shared memory, which the limit on a process's own data does not count
# stopped by: limits
# status: error
# says: memory together
import mmap
import time


def mix(x):
    kept = []
    for _ in range(64):
        block = mmap.mmap(-1, 64 << 20)
        for place in range(0, 64 << 20, 4096):
            block[place] = 1
        kept.append(block)
    time.sleep(100)
