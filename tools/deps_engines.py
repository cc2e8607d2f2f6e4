"""``make deps-engines``: other engines next to ONNX Runtime, with the course's operators compiled for them.

Only ``oplab parity`` with their names and chapter 18 need them. Installed without their dependencies: OpenVINO and ncnn need
NumPy, which is there; OpenVINO's telemetry, ncnn's packages for fetching models and pnnx's PyTorch are for tools that the course
does not use.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import extras

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    try:
        if not extras.install("engines", size="100 MB, 300 MB on disk", dependencies=False):
            print(
                "\nThe engines could not be installed; the lines above say why. Everything else works without them.",
                file=sys.stderr,
            )
            return 2
        # In another process, which sees the new packages; it prints what it compiles.
        return subprocess.run([sys.executable, "-m", "oplab.toolchain.build"], cwd=ROOT).returncode
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to resume.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
