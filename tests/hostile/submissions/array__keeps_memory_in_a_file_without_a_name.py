# does: writes 2 GB to a file that has no name any more
# stopped by: limits
# status: error
# says: It wrote more than 512 MB
import os
import tempfile


def mix(x):
    block = bytes(1 << 20)
    for _ in range(8):
        stream = open(tempfile.mktemp(), "wb")
        os.unlink(stream.name)
        for _ in range(256):
            stream.write(block)
        globals().setdefault("kept", []).append(stream)
    import time

    time.sleep(5)
    return 3 * x + 2
