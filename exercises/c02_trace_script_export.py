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

    # TODO c02.predict: report for each capture whether it decides and which inputs it reads
    raise todo("c02.predict")


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

    # TODO c02.control_flow: return a module that decides with torch.cond, ready for inference
    raise todo("c02.control_flow")


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

    # TODO c02.frozen: report for each declared input whether it is used, unused or missing
    raise todo("c02.frozen")
