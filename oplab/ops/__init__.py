"""The course's compiled operators: ``load()`` for PyTorch, ``session()`` for ONNX Runtime.

Importing this package imports neither torch nor onnxruntime; each function imports what it needs.
"""

from oplab.ops.sessions import ort_library, session
from oplab.ops.torch_ops import load

__all__ = ["load", "ort_library", "session"]
