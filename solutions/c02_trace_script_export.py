"""Chapter 02: what a capture keeps of a model, and how to keep what it
would lose.

Check one with ``make check EX=c02.predict``.
"""

from __future__ import annotations

import onnx
import torch
from torch import nn

from oplab import todo


def predict(
    model: nn.Module, example: tuple[torch.Tensor, ...]
) -> dict[str, tuple[bool, list[int]] | None]:
    """Report what each capture keeps of a model.

    The three captures are ``torch.jit.trace(model, example)``,
    ``torch.jit.script(model)`` and
    ``torch.export.export(model, example)``. For each of them the answer
    is

    - ``None`` where the capture raises an exception;
    - else ``(decides, inputs)``. ``decides``: the graph still contains
      a decision (a branch or a loop), including one from a submodule:
      ``prim::If`` or ``prim::Loop`` in TorchScript, ``torch.cond`` or
      ``torch.while_loop`` in an exported graph. ``inputs``: the
      positions of the tensors of ``example`` that at least one node of
      the graph reads, in increasing order.

    ::

        def forward(self, x, k):
            if k > 0:
                return x * 2
            return x

        >>> predict(model, (torch.ones(3), torch.tensor(1.0)))
        {'trace': (False, [0]), 'script': (True, [0, 1]), 'export': None}

    Args:
        model: any module, in eval mode. It may have weights and
            submodules. A capture may run it; change nothing else.
        example: its inputs, one tensor for each argument of
            ``forward``. Do not change them.

    About 20 lines.
    """

    # ANSWER c02.predict: report for each capture whether it decides and which inputs it reads
    def torchscript(graph: torch.Graph) -> tuple[bool, list[int]]:
        decides = any(node.kind() in ("prim::If", "prim::Loop") for node in graph.nodes())
        values = list(graph.inputs())[1:]  # the first one is the module itself
        return decides, [i for i, value in enumerate(values) if value.uses()]

    def exported(program: torch.export.ExportedProgram) -> tuple[bool, list[int]]:
        control = (torch.ops.higher_order.cond, torch.ops.higher_order.while_loop)
        places = [node for node in program.graph.nodes if node.op == "placeholder"]
        read = {node.name for node in places if node.users}
        decides = any(node.target in control for node in program.graph.nodes)
        # The other placeholders are weights and buffers.
        names = program.graph_signature.user_inputs
        return decides, [i for i, name in enumerate(names) if name in read]

    captures = {
        "trace": lambda: torchscript(torch.jit.trace(model, example).inlined_graph),
        "script": lambda: torchscript(torch.jit.script(model).inlined_graph),
        "export": lambda: exported(torch.export.export(model, example)),
    }
    answer = {}
    for name, capture in captures.items():
        try:
            answer[name] = capture()
        except Exception:  # each capture has its own zoo of them
            answer[name] = None
    return answer
    # END


def control_flow(gate: nn.Module) -> nn.Module:
    """Rewrite a module with a Python ``if`` so that its ONNX model has
    both branches.

    ``gate`` is a trained module of this class. It arrives in train
    mode, and the dynamo path cannot export it::

        class Gate(nn.Module):
            def __init__(self, width, limit):
                super().__init__()
                self.calm, self.loud = nn.Linear(width, width), nn.Linear(width, width)
                self.drop, self.limit = nn.Dropout(0.5), limit

            def forward(self, x):
                if x.abs().max() > self.limit:
                    return torch.tanh(self.loud(x)) * self.limit
                return self.drop(self.calm(x))

    Returns:
        a module with one float32 input ``[batch, width]`` that the
        grader exports without changes, with
        ``torch.onnx.export(module, (x,), dynamo=True)`` and a dynamic
        batch. The file has one ``If`` node. It computes only the layer
        of the branch that is taken, with the weights of ``gate``, and
        returns what ``gate`` returns in eval mode.

    About 10 lines.
    """

    # ANSWER c02.control_flow: return a module that decides with torch.cond, ready for inference
    class Exportable(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = gate

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def loud(x: torch.Tensor) -> torch.Tensor:
                return torch.tanh(gate.loud(x)) * gate.limit

            def calm(x: torch.Tensor) -> torch.Tensor:
                return gate.drop(gate.calm(x))

            return torch.cond(x.abs().max() > gate.limit, loud, calm, (x,))

    return Exportable().eval()
    # END


def frozen(model: bytes, declared: list[str]) -> dict[str, str]:
    """Find the inputs that an export has baked into a model.

    For each declared input, the answer is

    - ``"used"``: an output of the graph depends on it;
    - ``"unused"``: it is an input of the graph, but no output depends
      on it;
    - ``"missing"``: it is not an input of the graph.

    ::

        >>> frozen(data, ["x", "factor"])
        {'x': 'used', 'factor': 'missing'}

    Args:
        model: the bytes of an ONNX file, as ``onnx.load_from_string``
            reads them. The bodies of If and Loop nodes can read values
            of the surrounding graph, without listing them among the
            node's inputs.
        declared: the names of the inputs that the model is supposed to
            have.

    About 20 lines.
    """

    # ANSWER c02.frozen: report for each declared input whether it is used, unused or missing
    def reads(node: onnx.NodeProto) -> set[str]:
        names = set(node.input) - {""}
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names |= {value.name for value in attribute.g.output}
                names |= {name for inner in attribute.g.node for name in reads(inner)}
        return names

    graph = onnx.load_from_string(model).graph
    inputs = {value.name for value in graph.input}
    alive = {value.name for value in graph.output}
    # The nodes are sorted, so one pass from the outputs backwards is enough.
    for node in reversed(graph.node):
        if alive & set(node.output):
            alive |= reads(node)
    return {
        name: "missing" if name not in inputs else "used" if name in alive else "unused"
        for name in declared
    }
    # END
