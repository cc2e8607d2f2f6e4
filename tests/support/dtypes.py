"""For tests that run once with each floating-point type."""

from __future__ import annotations

import numpy as np
import pytest

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda dtype: dtype.__name__)
