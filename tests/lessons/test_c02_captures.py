"""Chapter 02's picture of three captures says what their graphs hold, and its program on libtorch is compiled once."""

from __future__ import annotations

import pytest
import torch

from oplab.figures.captures import captures

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::torch.jit.TracerWarning")


class Volume(torch.nn.Module):
    def forward(self, x):
        if x.max() > 1:
            return torch.tanh(x)
        return x * 3


class VolumeCond(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.max() > 1, torch.tanh, lambda x: x * 3, (x,))


@pytest.fixture
def columns():
    quiet = torch.tensor([0.1, 0.2])
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    models = {
        "trace": torch.jit.trace(Volume(), quiet, check_trace=False),
        "script": torch.jit.script(Volume()),
        "export": torch.export.export(VolumeCond(), (quiet,), dynamic_shapes=shapes),
    }
    return {axes.get_title(): axes.texts for axes in captures(models).axes}


def solid(texts):
    """The boxes with a solid frame: what the graph has."""
    return [t.get_text() for t in texts if t.get_bbox_patch() and t.get_bbox_patch().get_linestyle() == "-"]


def test_each_column_shows_the_steps_of_its_graph_and_dashes_what_it_lacks(columns):
    assert solid(columns["trace"]) == ["x, sizes [2]", "aten::mul"]
    steps = ["aten::max", "aten::gt", "aten::Bool", "prim::If", "aten::tanh", "aten::mul"]
    assert solid(columns["script"]) == ["x, sizes None", *steps]
    steps = ["aten.max.default", "aten.gt.Scalar", "cond", "aten.tanh.default", "aten.mul.Tensor"]
    assert solid(columns["export"]) == ["x, sizes [s]", *steps]
    dashed = {t.get_text() for t in columns["trace"] if t.get_bbox_patch()} - set(solid(columns["trace"]))
    assert dashed == {"max", "gt", "bool", "cond", "tanh"}
