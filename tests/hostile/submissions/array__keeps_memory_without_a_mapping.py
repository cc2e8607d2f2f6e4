# does: keeps 3 GB of memory that no process has mapped
# stopped by: limits
# status: error
# says: PermissionError
import os


def mix(x):
    block = bytes(64 << 20)
    for number in range(48):
        os.write(os.memfd_create(str(number)), block)
    return 3 * x + 2
