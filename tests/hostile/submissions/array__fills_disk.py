# does: fills the disk
# stopped by: limits
# status: error
# says: It wrote more than 512 MB


def mix(x):
    block = bytes(1 << 20)
    for number in range(10_000):
        with open(f"{number}.bin", "wb") as stream:
            for _ in range(64):
                stream.write(block)
