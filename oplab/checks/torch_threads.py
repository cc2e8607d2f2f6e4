"""How a forked process of the grader uses torch's threads."""

from __future__ import annotations

import os


def use_one_thread() -> None:
    """Let this forked process begin its first backward without a race.

    A fork leaves torch's thread pool to be made again, and once a fake tensor was made (here or in the server) the first backward
    starts eight threads that all do so at once; that ends now and then in "Invalid thread pool!" and SIGABRT (torch 2.15). So the
    pool is made here, and one processor runs the threads one after the other.
    """
    import torch

    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
