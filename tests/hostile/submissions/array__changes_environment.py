# does: changes environment, folder, locale, umask and random seeds
# stopped by: split
# status: failed
import os
import random

import numpy as np


def mix(x):
    os.environ.update(OPLAB_ROOT="/", OPLAB_TRACK="solutions", PYTHONPATH="/", LD_PRELOAD="/nowhere.so", PATH="")
    os.chdir("/")
    os.umask(0o777)
    random.seed(0)
    np.random.seed(0)
    np.random.default_rng = lambda *args: None
    return x
