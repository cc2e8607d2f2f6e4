# does: leaves a module next to the grader, a compiled file, a library in the cache, and a file in the home folder
# stopped by: files
# status: error
# says: 4 of 4 places refused
import os
import pwd
from pathlib import Path


def mix(x):
    root, refused = Path(__file__).parents[1], 0
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    places = (
        "oplab/answers.py",
        "oplab/__pycache__/errors.cpython-311.pyc",
        "build/x.so",
        home / f".oplab-{os.getpid()}",
    )
    for place in places:
        try:
            (root / place).parent.mkdir(exist_ok=True)
            (root / place).write_bytes(b"")
            (root / place).unlink()
        except OSError:
            refused += 1
    if refused:
        raise ValueError(f"{refused} of {len(places)} places refused")
    return 3 * x + 2
