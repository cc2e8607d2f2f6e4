# does: changes the mode of a file of the course, so that its author cannot read it
# stopped by: isolation
# status: passed
# isolated: error
import os
from pathlib import Path


def mix(x):
    file = Path(os.environ["OPLAB_ROOT"]) / ".git" / "answers.txt"
    file.chmod(0)
    if file.stat().st_mode & 0o777:
        raise PermissionError("the mode is as it was")
    return 3 * x + 2
