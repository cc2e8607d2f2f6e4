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
HERE = os.path.dirname(os.path.abspath(__file__))


def text(version):
    return ".".join(str(part) for part in version)


def fits(version):
    return OLDEST <= tuple(version[:2]) <= NEWEST


def ask(python):
    """(version, real path) of another interpreter, or None when it does not run (a shim with no Python behind it)."""
    code = "import sys; print('%d %d %d ' % sys.version_info[:3] + sys.executable)"
    try:
        out = subprocess.check_output([python, "-c", code], stderr=subprocess.DEVNULL).decode()
        parts = out.strip().split(" ", 3)
        return tuple(int(part) for part in parts[:3]), parts[3]
    except (OSError, ValueError, IndexError, subprocess.CalledProcessError):
        return None


def other_python():
    """The path of a Python on PATH that fits, or None."""
    for minor in (12, 13, 11, 14):
        python = shutil.which("python3.%d" % minor)
        answer = ask(python) if python else None
        if answer and fits(answer[0]):
            return answer[1]
    return None


def fail(message, fix):
    sys.stdout.flush()
    sys.stderr.write("\nSet-up stopped: %s\n  To fix it: %s\n" % (message, fix))
    sys.exit(2)


def hand_over(python):
    if os.environ.get("OPLAB_HANDED_OVER"):  # never twice: two paths may lead to one interpreter
        return
    os.environ["OPLAB_HANDED_OVER"] = "1"
    sys.stdout.flush()
    os.execv(python, [python] + [os.path.abspath(__file__)] + sys.argv[1:])


def main():
    wanted = os.environ.get("OPLAB_PYTHON")
    if wanted:
        python = shutil.which(os.path.expanduser(wanted))
        answer = ask(python) if python else None
        if not answer:
            fail(
                "OPLAB_PYTHON is %s, which is not a Python that runs." % wanted,
                "set OPLAB_PYTHON to the path of a Python %s or newer, or unset it." % text(OLDEST),
            )
        version, python = answer
        if not fits(version):
            fail(
                "Python %s or newer, up to %s, is needed; OPLAB_PYTHON is Python %s."
                % (text(OLDEST), text(NEWEST), text(version)),
                "set OPLAB_PYTHON to another Python, or unset it.",
            )
        if sys.executable != python:
            hand_over(python)
    elif not fits(sys.version_info):
        python = other_python()
        if python:
            if "--quiet" not in sys.argv:
                print("python3 is Python %s; %s is used instead." % (text(sys.version_info[:3]), python))
            hand_over(python)
        newer = tuple(sys.version_info[:2]) > NEWEST
        fail(
            "Python %s or newer%s is needed; this is Python %s (%s)."
            % (text(OLDEST), ", up to %s," % text(NEWEST) if newer else "", text(sys.version_info[:3]), sys.executable),
            "install one (Debian, Ubuntu: sudo apt-get install python3 python3-venv; macOS: brew install python@3.12), "
            "then run the same command with PYTHON=python3.12 behind it.",
        )
    sys.path.insert(0, HERE)
    import setup_steps

    return setup_steps.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
