# does: leaves a named pipe as evidence, on which a reader would never return
# stopped by: split
# status: failed
# says: no evidence
import os
from pathlib import Path


def mix(x):
    os.mkfifo(Path.cwd().parent / "evidence" / "evidence.json")
    for fd in range(3, 64):
        try:
            os.write(fd, b'\n{"outcome": "collected", "digests": {}}\n')
        except OSError:
            pass
    os._exit(0)
