# does: sets a limit of the process that watches it
# stopped by: limits
# status: error
# says: PermissionError
import os
import resource


def mix(x):
    resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))
    return 3 * x + 2
