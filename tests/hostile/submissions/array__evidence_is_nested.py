# does: leaves JSON that is nested 100 000 times
# stopped by: split
# status: failed
# says: cannot be read
import os
from pathlib import Path


def mix(x):
    (Path.cwd().parent / "evidence" / "evidence.json").write_text("[" * 100_000)
    for fd in range(3, 64):
        try:
            os.write(fd, b'\n{"outcome": "collected", "digests": {}}\n')
        except OSError:
            pass
    os._exit(0)
