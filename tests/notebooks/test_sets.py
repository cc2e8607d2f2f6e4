"""``make test TEST_ARGS="notebooks --sets"``: the variables that it sets are obeyed, and the notebooks run once for each set."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import run_tests

LOOK = """
import json, torch
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
print(json.dumps([torch.backends.cpu.get_cpu_capability(), [name for name in __cpu_dispatch__ if __cpu_features__[name]]]))
"""


@pytest.mark.nightly
@pytest.mark.parametrize("name", run_tests.older_sets())
def test_libraries_keep_to_the_set(name):
    env = {**os.environ, **run_tests.older_sets()[name]}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOOK], env=env, capture_output=True, text=True, check=True
    )
    aten, numpy = json.loads(done.stdout)
    assert aten == {"avx2": "AVX2", "plain": "DEFAULT"}[name]
    assert not any(feature.startswith("AVX512") or feature == "X86_V4" for feature in numpy)
    assert name == "avx2" or numpy == []


@pytest.mark.parametrize(("chosen", "sets"), [([], False), ([], True), (["04", "10"], True)])
def test_notebooks_run_once_for_each_set(chosen, sets, monkeypatch):
    seen, engines = [], []
    monkeypatch.setattr(run_tests, "run", lambda command, **variables: seen.append((command, variables)) or 0)
    monkeypatch.setattr(run_tests, "get_engines", lambda: engines.append(len(seen)))
    assert run_tests.notebooks(chosen, sets) == 0
    assert engines == ([] if chosen else [0]), "chapter 18 needs them, before it runs"
    ran = {}
    for command, variables in seen:
        assert "--nbval-cell-timeout=600" in command
        found = [word for word in command if word.endswith(".ipynb")]
        ran[variables.get("OPLAB_SIMD")] = ran.get(variables.get("OPLAB_SIMD"), []) + found
        if any("18_" in path for path in found) and variables.get("OPLAB_SIMD") == "plain":
            assert variables["ONEDNN_MAX_CPU_ISA"] == "AVX", "OpenVINO has no Resize with less"
    assert list(ran) == [None, *(run_tests.older_sets() if sets else ())]
    assert len({tuple(sorted(found)) for found in ran.values()}) == 1, "each set runs the same notebooks, each once"
    assert len(ran[None]) == 2 if chosen else len(ran[None]) > 2
