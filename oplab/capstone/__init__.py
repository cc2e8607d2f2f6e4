"""The report of chapter 16: what a network computes in PyTorch, ONNX Runtime and the C++ program, of what nodes, and how fast.

    python -m oplab.capstone              # your exercises: compiles your kernels, exports, compares, measures, prints where it is
    python -m oplab.capstone --to FOLDER  # the same, kept elsewhere

Each report is a folder of its own, ``build/capstone/report-001`` and so on, with one page, the models and the kernels: what would be
shipped, and the proof. No report replaces another.
"""

from oplab.capstone.answers import report, yours
from oplab.capstone.comparison import Kept, write
from oplab.capstone.projects import EXPORTERS, Project, point_cloud, super_resolution

__all__ = ["EXPORTERS", "Kept", "Project", "point_cloud", "report", "super_resolution", "write", "yours"]
