"""The grading server keeps the dynamo path's registry: exports take a fraction of the time, and get what they would get otherwise."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CODE = """
import json, os, re, sys
from torch.onnx._internal.exporter import _registration
from torch.onnx._internal.exporter._registration import ONNXRegistry
from oplab.grading.warm import keep_registry

reads = []
original = _registration.onnxscript_apis.get_torchlib_ops
_registration.onnxscript_apis.get_torchlib_ops = lambda: reads.append(1) or original()

def content(registry):
    return re.sub("0x[0-9a-f]+", "", repr([registry.opset_version, [
        (str(target), [(str(d.onnx_function), d.is_custom, d.is_complex, d.opset_introduced) for d in found])
        for target, found in registry.functions.items()
    ]]))

def all_of_them():
    return [content(ONNXRegistry.from_torchlib(opset)) for opset in (18, 21, 25)] + [content(ONNXRegistry.from_torchlib())]

said = {}
before = all_of_them()
said["reads before"] = len(reads)
keep_registry()
reads.clear()
said["the same"] = all_of_them() == before
said["reads after"] = len(reads)
ONNXRegistry.from_torchlib().functions.clear()
said["still the same"] = all_of_them() == before
def has_vision():
    return any("torchvision" in str(target) for target in ONNXRegistry.from_torchlib().functions)
said["vision before"] = has_vision()
import torchvision
said["vision after"] = has_vision() and has_vision()
said["reads with torchvision"] = len(reads)
print(json.dumps(said), flush=True)
os._exit(0)
"""


@pytest.mark.nightly
def test_the_registry_is_built_once_and_is_what_the_exporter_would_build():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["the same"] and said["still the same"]
    assert said["reads before"] == 4, "the exporter keeps it by itself now: keep_registry can go"
    assert said["reads after"] == 1
    assert not said["vision before"] and said["vision after"] and said["reads with torchvision"] == 2
