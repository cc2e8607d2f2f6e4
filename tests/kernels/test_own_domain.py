"""Your domain, declared in a file next to its library: models that ask it for what it does not have are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from oplab import OplabError, ops
from oplab.parity import parity
from oplab.toolchain.build import compile_library
from oplab.toolchain.recipes import SUFFIX
from tests.support.cpp import TWICE
from tests.support.cpp import library as source_of
from tests.support.models import model_of

pytestmark = pytest.mark.usefixtures("compiled")
DECLARED = 'domain = "acme"\nversions = [1, 3]\n\n[operators]\nTwice = ["spatial_scale"]\nPlain = []\n'
X = {"a": np.float32([1, 2])}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "roi.cpp").write_text(source_of(TWICE, "Twice", "acme"))
    made = folder / f"roi{SUFFIX}"
    made.write_bytes(compile_library(folder / "roi.cpp", "ort").read_bytes())
    return made


@pytest.fixture
def library(built: Path, tmp_path: Path) -> Path:
    """The library in a separate folder, with its declaration."""
    made = tmp_path / built.name
    made.symlink_to(built)
    made.with_suffix(".toml").write_text(DECLARED)
    return made


def model(version: int = 1, **attributes) -> onnx.ModelProto:
    node = helper.make_node("Twice", ["a"], ["y"], domain="acme", **attributes)
    return model_of([node], {"a": np.float32}, {"y": np.float32}, domains=[("acme", version)])


def opened(library: Path, proto: onnx.ModelProto):
    return ops.session(proto, libraries=[library])


def test_what_it_has_runs(library: Path):
    for proto in (model(), model(3), model(spatial_scale=0.5), model(plugin_version="1")):
        assert opened(library, proto).run(None, X)[0].tolist() == [2, 4]


def test_an_attribute_or_a_version_that_it_lacks(library: Path):
    with pytest.raises(OplabError, match="Twice has no attribute spatial_scal: it has spatial_scale") as caught:
        opened(library, model(spatial_scal=0.5))
    assert caught.value.fix
    with pytest.raises(
        OplabError, match="imports version 7 of the domain acme, which has the versions 1 and 3"
    ) as caught:
        opened(library, model(7))
    assert "add it to roi.toml" in caught.value.fix


@pytest.mark.parametrize("backend", ["ort", "host"])
def test_parity_says_it(library: Path, backend: str):
    report = parity(model(spatial_scal=1.0), X, ["eager", backend], module=lambda a: 2 * a, libraries=[library])
    assert report.rows[-1].verdict == "failed" and "no attribute spatial_scal" in report.rows[-1].reason


def test_without_the_file_nothing_is_checked(library: Path):
    library.with_suffix(".toml").unlink()
    assert opened(library, model(7, spatial_scal=0.5)).run(None, X)[0].tolist() == [2, 4]


def test_the_course_s_own_domain_is_checked_with_it(library: Path):
    nodes = [
        helper.make_node("Twice", ["a"], ["t"], domain="acme"),
        helper.make_node("MyAdd", ["t", "a"], ["y"], domain="oplab", gamma=1.0),
    ]
    both = model_of(nodes, {"a": np.float32}, {"y": np.float32}, domains=[("oplab", 1), ("acme", 1)])
    with pytest.raises(OplabError, match="MyAdd has no attribute gamma"):
        opened(library, both)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("domain = ", "cannot be read"),
        ("versions = [1]\n[operators]\n", "domain has to be a name"),
        ('domain = "acme"\nversions = 1\n[operators]\n', "versions has to be a list of positive integers"),
        ('domain = "acme"\nversions = [1]\n', "operators has to be a table"),
        ('domain = "acme"\nversions = [1]\n[operators]\nTwice = "scale"\n', "operators has to be a table"),
        ('domain = "acme"\nversions = [1]\nversion = 2\n[operators]\n', "version is not known"),
    ],
)
def test_a_file_that_declares_nothing(library: Path, text: str, words: str):
    library.with_suffix(".toml").write_text(text)
    with pytest.raises(OplabError, match=words) as caught:
        opened(library, model())
    assert "roi.toml" in str(caught.value) and caught.value.fix
