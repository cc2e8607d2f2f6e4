"""The static picture: complete, without overlaps, the same bytes everywhere."""

from __future__ import annotations

import itertools
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from oplab.cli.main import main
from oplab.cli.models import show as command
from oplab.errors import OplabError
from oplab.viewer import show
from oplab.viewer.layout import Box, place
from oplab.viewer.onnx_graph import from_onnx
from oplab.viewer.panel import Look, _laid_out, domain_colours
from oplab.viewer.source import load
from tests.support import run_python
from tests.support import viewer_models as m

MODELS = {
    "conv": m.conv,
    "decomposed": m.decomposed,
    "custom": m.custom,
    "control_flow": m.control_flow,
    "chain": lambda: m.chain(12),
    "tangle": lambda: m.tangle(60),
    "transformer": lambda: m.transformer(2),
}


def overlaps(boxes: list) -> list:
    found = []
    for a, b in itertools.combinations(boxes, 2):
        wide = (a.width + b.width) / 2 - abs(a.x - b.x)
        high = (a.height + b.height) / 2 - abs(a.y - b.y)
        if wide > 0.01 and high > 0.01:
            found.append((a, b))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_no_box_lies_on_another(name: str) -> None:
    graph = load(MODELS[name]()).model.graph
    for right in (False, True):
        look_at_boxes(graph, right)


def look_at_boxes(graph, right: bool) -> None:
    items, edges, dashed, layout = _laid_out(graph, Look(domain_colours([graph])), right)
    assert overlaps(items) == []
    for item in items:
        assert item.x - item.width / 2 >= -0.01 and item.x + item.width / 2 <= layout.width + 0.01
        assert item.y - item.height / 2 >= -0.01 and item.y + item.height / 2 <= layout.height + 0.01
    for (a, b), route in zip(edges + dashed, layout.routes, strict=True):  # every line goes one way, from box to box
        along = [p[0] if right else p[1] for p in route]
        assert along == sorted(along)
        assert (items[a].x < items[b].x) if right else (items[a].y < items[b].y)


def test_layout_of_random_graphs(seed: int) -> None:
    for draw in range(seed, seed + 20):
        look_at_layout(np.random.default_rng(draw))


def look_at_layout(rng: np.random.Generator) -> None:
    n = int(rng.integers(2, 60))
    boxes = [Box(float(rng.integers(10, 200)), float(rng.integers(10, 80))) for _ in range(n)]
    edges = sorted({(int(i), int(j)) for i, j in (sorted(rng.choice(n, 2, replace=False)) for _ in range(2 * n))})
    layout = place(boxes, edges)
    assert overlaps(boxes) == []
    for (a, b), route in zip(edges, layout.routes, strict=True):
        assert route[0] == pytest.approx((boxes[a].x, boxes[a].y + boxes[a].height / 2))
        assert route[-1] == pytest.approx((boxes[b].x, boxes[b].y - boxes[b].height / 2))
        # a line that passes a layer does so beside its boxes
        for (x, y), (u, v) in itertools.pairwise(route):
            if abs(x - u) < 1e-6:
                for k, box in enumerate(boxes):
                    inside = abs(box.x - x) < box.width / 2 - 0.01 and y < box.y + box.height / 2 - 0.01
                    assert k in (a, b) or not (inside and v > box.y - box.height / 2 + 0.01)


@pytest.mark.parametrize("name", MODELS)
def test_the_picture_is_xml_and_says_everything(name: str) -> None:
    proto = MODELS[name]()
    view = show(proto)
    root = ET.fromstring(view.svg)
    text = " ".join("".join(e.itertext()) for e in root.iter() if e.tag.endswith("}text"))
    for node in proto.graph.node:
        assert node.op_type in text
        for attribute in node.attribute:
            if attribute.type in (1, 2, 6, 7) and not _default(proto, node, attribute.name):
                assert attribute.name in text, f"{node.op_type}.{attribute.name}"
    for value in (*proto.graph.input, *proto.graph.output):
        assert value.name in text
    assert "float32[" in text


def _default(proto, node, name: str) -> bool:
    graph = from_onnx(proto).graph
    return any(name in dict(n.defaults) for n in graph.nodes if n.op == node.op_type)


def test_custom_domains_are_marked_by_colour_and_by_name() -> None:
    svg = show(m.custom()).svg
    assert "oplab::MyAdd" in svg and "domain oplab" in svg and "#b34700" in svg
    assert "#b34700" not in show(m.decomposed()).svg.partition("</style>")[2]


def test_the_image_has_words_that_name_the_operators() -> None:
    view = show(m.custom())
    assert view.alt.startswith("Graph of ") and " oplab::MyAdd" in view.alt.partition("Operators: ")[2]
    assert f'<img alt="{view.alt}"' in view.html
    pair = show(m.custom(), m.custom())
    assert pair.alt.startswith("Two graphs side by side") and "The graphs are the same." in pair.alt


@pytest.mark.nightly
def test_bytes_do_not_depend_on_the_process() -> None:
    code = (
        "import hashlib; from tests.support import viewer_models as m; from oplab.viewer import show\n"
        "h = hashlib.sha256()\n"
        "for p in (m.conv(), m.control_flow(), m.tangle(200), m.transformer(5)): h.update(show(p).html.encode())\n"
        "h.update(show(m.decomposed(), m.custom()).html.encode()); h.update(show(m.tangle(80), m.tangle(80, 2)).html.encode())\n"
        "print(h.hexdigest())"
    )
    found = set()
    for seed in ("0", "1", "4242"):
        run = run_python(code, env={"PYTHONHASHSEED": seed})
        assert run.returncode == 0, run.stderr
        found.add(run.stdout)
    assert len(found) == 1


def test_output_holds_nothing_of_this_machine(tmp_path: Path) -> None:
    import onnx

    onnx.save(m.conv(), tmp_path / "model.onnx")
    view = show(tmp_path / "model.onnx")
    for text in (view.html, view.text, view.svg):
        assert str(tmp_path) not in text and "127.0.0.1" not in text and "localhost" not in text
    assert view.title == "model"


def test_names_are_data_and_never_markup() -> None:
    evil = '</text><script>alert(1)</script>&"\x00\x1b\u202e'
    proto = m.model(
        [helper.make_node("Relu", ["x"], [evil], name=evil), helper.make_node("Neg", [evil], ["y"], doc_string=evil)],
        [m.info("x", [evil])],
        [m.info("y", None)],
        name=evil,
    )
    proto.graph.node[0].attribute.add(name=evil, type=3, s=evil.encode())
    view = show(proto, title=evil)
    ET.fromstring(view.svg)
    assert "<script>alert" not in view.html and "<script>alert" not in view.svg
    assert all(code not in text for code in "\x00\x1b\u202e" for text in (view.svg, view.text, view.alt))


def test_fifty_nodes_are_drawn_one_by_one_and_300_are_folded() -> None:
    small = show(m.transformer(2)).svg
    assert small.count(">Softmax<") == 2 and len(small) < 200_000
    view = show(m.transformer(14))  # 364 nodes
    assert "14 times the same" in view.svg and "occurs 14 times in a row, drawn once" in view.svg
    assert view.svg.count(">Softmax<") == 1 and "left out" not in view.svg
    assert len(view.svg) < 100_000
    assert "364 nodes" in view.svg


def test_nodes_that_depend_on_no_input_are_drawn_as_constants() -> None:
    """The onnx package ships nets of which half the nodes make weights."""
    net = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
    view = show(net)
    assert int(ET.fromstring(view.svg).get("width")) < 2000
    assert "239 nodes that depend on no input are drawn as the constants" in view.svg and "415 nodes" in view.svg
    assert "ConstantOfShape" not in view.svg and view.svg.count(">Conv<") >= 20
    assert "float32[64,3,7,7]" in view.svg


def test_twenty_thousand_nodes() -> None:
    view = show(m.tangle(20_000))
    assert "This picture shows a part of the graph: 19,8" in view.svg and "of its 20,000 nodes are left out" in view.svg
    assert len(view.html) < 300_000
    assert "… and 19,960 more nodes" in view.text


def test_bodies_of_if_and_loop_are_drawn() -> None:
    svg = show(m.control_flow()).svg
    for words in (
        "A: then_branch of If (choose)",
        "B: else_branch of If (choose)",
        "C: body of Loop",
        "from outside: x2",
    ):
        assert words in svg
    assert "stroke-dasharray" in svg  # what bodies read from around them


def test_functions_are_drawn() -> None:
    proto = m.custom()
    body = [helper.make_node("Add", ["a", "b"], ["y"])]
    proto.functions.append(
        helper.make_function("oplab", "MyAdd", ["a", "b"], ["y"], body, [helper.make_opsetid("", 20)])
    )
    svg = show(proto).svg
    assert "function oplab::MyAdd" in svg and "graph A" in svg


def test_odd_values_and_edges() -> None:
    """Scalars, unknown ranks, sequences, optionals, unused outputs, a graph output that is an input, no nodes at all."""
    sequence = helper.make_value_info("s", helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2])))
    optional = helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(7, None)))
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"]),
        helper.make_node("TopK", ["x", "k"], ["", "i"]),
        helper.make_node("RandomNormal", [], ["r"], shape=[2]),
        helper.make_node("Add", ["x", "x"], ["d"]),
    ]
    tensors = (numpy_helper.from_array(np.array([1], np.int64), "k"), numpy_helper.from_array(np.float32(0.1), "c"))
    outputs = [sequence, m.info("i", None, TensorProto.INT64), m.info("x", [4]), m.info("c", [])]
    view = show(m.model(nodes, [m.info("x", [4]), optional], outputs, tensors))
    for words in ("sequence(float32[2])", "optional(int64)", "K = [1]", "RandomNormal", "c float32 scalar"):
        assert words in view.text + " ".join(ET.fromstring(view.svg).itertext()), words
    empty = show(m.model([], [m.info("x", [4])], [m.info("x", [4])]))
    assert "0 nodes" in empty.svg


def test_floats_that_may_differ_between_machines_are_not_printed() -> None:
    noisy = numpy_helper.from_array(np.array([0.1234567, 0.7654321], np.float32), "b")
    round_ = numpy_helper.from_array(np.array([1.0, 0.5], np.float32), "c")
    nodes = [helper.make_node("Add", ["x", "b"], ["t"]), helper.make_node("Mul", ["t", "c"], ["y"])]
    view = show(m.model(nodes, [m.info("x", [2])], [m.info("y", [2])], (noisy, round_)))
    assert "B float32[2]" in view.text and "B = [1.0, 0.5]" in view.text


def test_a_bad_height_is_refused() -> None:
    for height in (0, "420"):
        with pytest.raises(OplabError, match="height"):
            show(m.conv(), height=height)


# --- files ---


def test_files_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    onnx.save(m.decomposed(), tmp_path / "a.onnx")
    onnx.save(m.custom(), tmp_path / "b.onnx")
    command([tmp_path / "a.onnx"], tmp_path / "one.svg")
    ET.parse(tmp_path / "one.svg")
    command([tmp_path / "a.onnx", tmp_path / "b.onnx"], tmp_path / "two.html")
    page = (tmp_path / "two.html").read_text()
    assert "3 nodes (2 Mul, 1 Add) replaced by 1 oplab::MyAdd" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "3 nodes (2 Mul, 1 Add) replaced by 1 oplab::MyAdd" in capsys.readouterr().out
    for output, words in ((tmp_path / "x.pdf", "ends in .pdf"), (tmp_path / "no" / "x.svg", "cannot be written")):
        with pytest.raises(OplabError, match=words):
            command([tmp_path / "a.onnx"], output)
    with pytest.raises(OplabError, match="no file"):
        command([tmp_path / "c.onnx"], tmp_path / "x.svg")
    with pytest.raises(OplabError, match="3 models"):
        command(["a", "b", "c"], tmp_path / "x.svg")
    assert not (tmp_path / "x.svg").exists()


def test_no_command_writes_a_names_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They clear a terminal, or turn its direction of reading."""
    evil = "a\x1b[2J\u202eb\x9b"
    proto = m.model([helper.make_node("Relu", [evil], ["y" + evil])], [m.info(evil, [1])], [m.info("y" + evil, [1])])
    onnx.save(proto, tmp_path / "a.onnx")
    np.savez(tmp_path / "a.npz", **{evil: np.ones(1, np.float32)})
    for words in (
        ["debug", "tap", "a.onnx", "-i", "a.npz"],
        ["parity", "a.onnx", "--backends", "reference,ort"],
        ["show", evil],
    ):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["oplab", *words])
        with pytest.raises(SystemExit):
            main()
        said = "".join(capsys.readouterr())
        assert "a\ufffd[2J\ufffdb\ufffd" in said and "\x1b" not in said


def test_png_has_the_pictures_size_and_its_colours(tmp_path: Path) -> None:
    from PIL import Image

    view = show(m.custom())
    image = Image.open(view.save(tmp_path / "a.png")).convert("RGB")
    root = ET.fromstring(view.svg)
    assert image.size == (2 * int(root.get("width")), 2 * int(root.get("height")))
    colours = dict((colour, count) for count, colour in image.getcolors(1 << 20))
    assert colours[(0xB3, 0x47, 0)] > 1000  # the custom operator's head
    assert sum(count for colour, count in colours.items() if max(colour) < 90) > 300  # text
    assert view.save(tmp_path / "b.png").read_bytes() == (tmp_path / "a.png").read_bytes()
