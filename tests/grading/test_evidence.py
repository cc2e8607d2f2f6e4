"""Evidence crosses from the learner's process to the judge's: what was recorded comes back, and forged evidence is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from oplab.checks.draws import rng_for
from oplab.checks.errors import LearnerError
from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.parity.arrays import WrongAnswer


@pytest.fixture
def collect(tmp_path):
    (tmp_path / "scratch").mkdir()
    return Collect(None, Path(__file__), None, rng_for(1, "c01.x"), tmp_path / "scratch", tmp_path)


def judge(folder) -> Judge:
    return Judge(folder, rng_for(1, "c01.x"))


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(6, dtype=torch.int32).reshape(2, 3).T,
        torch.zeros(0, 3, dtype=torch.float64),
        torch.ones(2, requires_grad=True) * 2,
        np.arange(3),
    ],
)
def test_arrays_keep_shape_dtype_and_values(value, collect, tmp_path):
    collect.value("y", value)
    collect.finish()
    got = judge(tmp_path).array("y")
    wanted = value.detach().numpy() if isinstance(value, torch.Tensor) else value
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    np.testing.assert_array_equal(got, wanted)


def test_plain_values_come_back(collect, tmp_path):
    value = [True, None, 3, -1.5, float("nan"), "text", (1, [torch.ones(1)])]
    collect.value("v", value)
    collect.finish()
    got = judge(tmp_path).value("v")
    assert got[:4] == [True, None, 3, -1.5] and np.isnan(got[4]) and got[5] == "text"
    assert got[6][0] == 1 and got[6][1][0].tolist() == [1]


class Liar(np.ndarray):
    def __eq__(self, other):
        return True


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, np.zeros(2).view(Liar), type("N", (int,), {})(3), np.array([None]), "x" * 200_000]
)
def test_other_types_are_named_not_trusted(value, collect, tmp_path):
    collect.value("y", value)
    collect.finish()
    with pytest.raises(WrongAnswer, match="got a"):
        judge(tmp_path).array("y")


def test_an_exception_is_evidence_with_its_line(collect, tmp_path):
    def fail():
        raise ValueError("no such thing")

    assert collect.attempt("y", fail) is None
    collect.value("y", 3)  # must not cover the exception
    collect.finish()
    verdict = judge(tmp_path)
    assert verdict.error("y").type == "ValueError"
    with pytest.raises(LearnerError, match=r"ValueError: no such thing \(test_evidence.py, line \d+\)"):
        verdict.value("y")


def test_a_file_that_was_not_written_is_named(collect, tmp_path):
    collect.file("model", tmp_path / "scratch" / "m.onnx")
    collect.finish()
    with pytest.raises(WrongAnswer, match="m.onnx was not written"):
        judge(tmp_path).bytes("model")


def evidence(folder: Path, items: object, arrays: bytes = b"") -> Judge:
    (folder / "evidence.json").write_text(json.dumps({"version": 1, "items": items}))
    (folder / "arrays.npz").write_bytes(arrays)
    return judge(folder)


@pytest.mark.parametrize(
    "item",
    [
        {"kind": "file", "file": "../secret.bin"},
        {"kind": "file", "file": "link.bin"},
        {"kind": "what"},
        {"kind": "int", "value": "3"},
        {"kind": "int", "value": 1 << 64},
        {"kind": "array", "array": "nope"},
        {"kind": "list", "items": [3]},
    ],
)
def test_forged_paths_and_kinds_are_refused(item, tmp_path):
    (tmp_path / "secret.bin").write_bytes(b"secret")
    folder = tmp_path / "evidence"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "f0.bin").write_bytes(b"x")
    stream = io.BytesIO()
    np.savez(stream)
    verdict = evidence(folder, {"y": item}, stream.getvalue())
    with pytest.raises(WrongAnswer):
        verdict.bytes("y") if item["kind"] == "file" else verdict.value("y")
