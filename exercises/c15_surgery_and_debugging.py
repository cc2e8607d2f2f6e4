"""Chapter 15: cut a model, find its fault, put other nodes in.

Check one with ``make check EX=c15.extract``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
from onnx import helper, numpy_helper

from oplab import todo


def extract(model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.ModelProto:
    """Cut out the part of a model that computes ``outputs`` from ``inputs``.

    The part is a model of its own:

    - its graph inputs and outputs are the values named, in the order given, with their types. Types come from
      ``onnx.shape_inference``; what it cannot know stands in the file's own ``value_info``;
    - it has exactly the nodes that the outputs need, in their old order, and exactly the initialisers that these read;
    - the IR version and the imported opsets are those of the model. The model itself stays as it is.

    Args:
        model: valid. No node has a body, and there are no model-local functions.
        inputs, outputs: values of the model. An input may also be one that is not needed: it stays an input.

    Raises:
        ValueError: the outputs need further graph inputs of the model, which were not named. The message contains the name of
            **each** of them.

    Do not use ``oplab.debug`` here. About 20 lines.
    """
    # TODO c15.extract: return the part between inputs and outputs, or raise a ValueError that names what is missing
    raise todo("c15.extract")


def find_the_bug(model: onnx.ModelProto, compare: Callable[[list[str]], dict[str, float]]) -> str:
    """Return the name of the node at which a model begins to differ from its reference.

    Somebody changed **one** node of ``model``. The result of that node is wrong, although everything that it reads is right, and
    because of it the model's output is wrong.

    The reference runs on a phone. You can see it only through ``compare``: it runs both models and returns the error of some values,
    by name. An error up to 1e-3 is rounding. It is NaN where one of the two values holds a NaN.

    - ``compare`` takes at most 8 names, and you may call it at most 12 times.
    - The model has up to 300 nodes with one output each, in an order in which makers come first. Branches run beside each other and meet
      again. After each node, at most 8 values are still needed.

    ::

        >>> compare(["conv_3", "relu_7"])
        {'conv_3': 2.4e-07, 'relu_7': 0.81}

    About 15 lines.
    """
    # TODO c15.find_the_bug: return the name of the first wrong node, with few calls of compare
    raise todo("c15.find_the_bug")


def replace_subgraph(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which each group ``p * a + q * b`` is one node ``oplab::MyAdd(a, b; alpha=p, beta=q)``.

    A group is an ``Add`` of two ``Mul``. Each ``Mul`` has one input that is an initialiser with a single float32 number, p or q, at
    either place. Replace a group only where nothing else changes:

    - the result of neither ``Mul`` is read anywhere else, and none is an output of the model;
    - ``a`` and ``b`` have equal shapes, as far as ``onnx.shape_inference`` finds them out: ``MyAdd`` does not broadcast. Equal means
      the same rank, and each axis with the same number or the same name.

    The copy is a valid model that runs with the course's kernels, and nothing in it speaks of nodes that are gone: nodes stand in an
    order in which makers come first, the result keeps the name of the ``Add``'s output, version 1 of the domain ``oplab`` is imported
    (also where a group was replaced and the model knew other domains only), initialisers that nobody reads are gone, and
    ``value_info`` has no entry for a value that no longer exists. A model without a group is returned unchanged.

    Args:
        model: valid, float32, each value but the numbers with at least one axis. No node has a body, and there are no model-local
            functions.

    Do not use ``oplab.debug`` here. About 35 lines.
    """
    # TODO c15.replace_subgraph: return a copy in which MyAdd stands for each group that it can stand for
    raise todo("c15.replace_subgraph")
