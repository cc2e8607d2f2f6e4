# does: makes a million files
# stopped by: limits
# status: error
# says: very large number of files


def mix(x):
    for number in range(1_000_000):
        open(f"{number}", "w").close()
    return x
