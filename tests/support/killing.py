"""A call that dies, as by kill -9, after a number of changes of the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

GIT = ("fetch", "checkout-index", "reset", "read-tree", "update-ref")  # commands that write
CHANGES = ((os, "replace"), (os, "rename"), (os, "unlink"), (subprocess, "run"))


def killed_after(count: int, action: Callable[[], object]) -> bool:
    """Run in a child process that ends without any cleanup after so many renames, removals and git commands that write.

    Returns:
        whether it ended so.
    """
    child = os.fork()
    if child == 0:
        done, run = 0, subprocess.run

        def counted(function):
            def call(*arguments, **options):
                nonlocal done
                result = function(*arguments, **options)
                done += function is not run or arguments[0][1] in GIT
                if done == count:
                    os._exit(9)
                return result

            return call

        for module, name in CHANGES:
            setattr(module, name, counted(getattr(module, name)))
        code = 1
        try:
            action()
            code = 0
        except BaseException as error:
            print(error, file=sys.stderr)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9
