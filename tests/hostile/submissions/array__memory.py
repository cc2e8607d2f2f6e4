# does: asks for memory until there is none
# stopped by: limits
# status: error
# says: Out of memory


def mix(x):
    kept = []
    while True:
        kept.append(bytearray(64 << 20))
