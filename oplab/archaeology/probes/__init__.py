"""The proofs of table.toml: :data:`OLD` tries each entry as the old text has it, :data:`NEW` as it is written today.

A probe takes no arguments, returns what it saw in a few words, and raises AssertionError where the table is not true. What it
registers with the exporter, it removes again. Each module holds the probes of one part of the table.
"""

from oplab.archaeology.probes import (  # noqa: F401  # importing a module enters its probes
    exporting,
    functions,
    lookups,
    ort_kernels,
    python_api,
    registering,
    torch_extensions,
    vision,
    writing,
)
from oplab.archaeology.probes.exports import X, export, ops, run, stderr_of
from oplab.archaeology.probes.ort_kernels import foo, ported, unknown_names
from oplab.archaeology.probes.table import NEW, OLD

__all__ = ["NEW", "OLD", "X", "export", "foo", "ops", "ported", "run", "stderr_of", "unknown_names"]
