"""``make deps-class``: Dask next to the course's packages. Only ``oplab class grade --cluster`` needs it."""

from __future__ import annotations

import sys

import extras


def install() -> bool:
    """Whether Dask and what it makes certificates with are installed now. If not, pip has printed why."""
    return extras.install("class", size="10 MB")


def main() -> int:
    try:
        if install():
            return 0
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to resume.", file=sys.stderr)
        return 130
    print(
        "\nDask could not be installed; the lines above say why. `oplab class grade --jobs` works without it.",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main())
