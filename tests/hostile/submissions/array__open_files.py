# does: opens a million files
# stopped by: limits
# status: error
# says: Too many open files


def mix(x):
    kept = [open("/dev/null") for _ in range(1_000_000)]
    return x * len(kept)
