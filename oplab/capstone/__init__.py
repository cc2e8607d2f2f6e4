"""The report of chapter 16: what a network computes in PyTorch, ONNX Runtime and the C++ program, with which nodes, and how fast.

    oplab capstone           # your exercises: compiles your kernels, exports, compares, measures, and prints where the report is
    oplab capstone --to DIR  # the same, kept in another folder
    oplab capstone DIR       # your own operator: the project that `oplab new-operator` has made in DIR

Each report is a new folder, ``build/capstone/report-001`` and so on, with one page, the models and the kernels: what would be
shipped, and the proof. No report replaces another.
"""

from oplab.capstone.answers import report, yours
from oplab.capstone.comparison import Kept, write
from oplab.capstone.projects import EXPORTERS, Project, point_cloud, super_resolution

__all__ = ["EXPORTERS", "Kept", "Project", "point_cloud", "report", "super_resolution", "write", "yours"]
