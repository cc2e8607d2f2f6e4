"""The first thing that ``make`` runs: finds a Python that is new enough and hands over to ``setup_steps``.

Usage: python3 tools/bootstrap.py [--quiet] [-- ARGUMENTS]   ARGUMENTS go to the environment's Python afterwards.

This file alone must be readable by every Python that a machine may call ``python3``, also by one that is far too old:
only then can it say so in a sentence. So: no annotations, no f-strings, nothing that is newer than Python 3.2.
"""

import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)  # torch 2.15 and onnxruntime 1.31.1 ask for it
NEWEST = (3, 14)  # the newest Python for which every pinned package has a wheel
NEEDED = "Python 3.11 or newer, up to 3.14, is needed"


def ask(name):
    """(version, path) of an interpreter, or None when it does not run (a shim with no Python behind it)."""
    code = "import sys; print('%d %d %d ' % sys.version_info[:3] + sys.executable)"
    try:
        out = subprocess.check_output([shutil.which(name) or name, "-c", code], stderr=subprocess.DEVNULL).decode()
        parts = out.strip().split(" ", 3)
        return tuple(int(part) for part in parts[:3]), parts[3]
    except (OSError, ValueError, IndexError, subprocess.CalledProcessError):
        return None


def fail(message, fix):
    sys.stderr.write("\nSet-up stopped: %s\n  To fix it: %s\n" % (message, fix))
    sys.exit(2)


def main():
    wanted = os.environ.get("OPLAB_PYTHON")
    here = tuple(sys.version_info[:3]), sys.executable
    found = here
    if wanted:
        found = ask(os.path.expanduser(wanted))
        if not found:
            fail("OPLAB_PYTHON is %s, which is not a Python that runs." % wanted, "correct its path, or unset it.")
    elif not OLDEST <= here[0][:2] <= NEWEST:
        others = [ask("python3.%d" % minor) for minor in (12, 13, 11, 14)]
        found = ([other for other in others if other] + [here])[0]
    version = "%d.%d.%d" % found[0]
    if not OLDEST <= found[0][:2] <= NEWEST:
        fail(
            "%s; this is Python %s (%s)." % (NEEDED, version, found[1]),
            "install one (Debian, Ubuntu: sudo apt-get install python3 python3-venv; macOS: brew install python@3.12), "
            "then add PYTHON=python3.12 to the same command.",
        )
    if found != here and not os.environ.get("OPLAB_HANDED_OVER"):  # not twice: two paths may lead to one interpreter
        if not wanted and "--quiet" not in sys.argv:
            print("python3 is Python %d.%d.%d; %s is used instead." % (here[0] + found[1:]))
        os.environ["OPLAB_HANDED_OVER"] = "1"
        sys.stdout.flush()
        os.execv(found[1], [found[1], os.path.abspath(__file__)] + sys.argv[1:])
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import setup_steps

    return setup_steps.main(sys.argv[1:])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # before the set-up began
        sys.stderr.write("\nStopped.\n")
        sys.exit(130)
