"""Chapter 17: shipping.

`make check EX=c17` grades this file and `csrc/c17_*.cpp`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from oplab import todo


def abi_symbols(
    library: Path,
    exports: Collection[str],
    needed: Collection[str],
    newest: Mapping[str, str],
) -> dict[str, list[str]]:
    """Find what would keep a shared library for Linux from loading
    elsewhere.

    Args:
        library: an ELF file. It is read and never loaded.
        exports: the symbols that it may export, for example
            `{"RegisterCustomOps"}`.
        needed: the libraries that every machine has, for example
            `{"libc.so.6"}`.
        newest: the newest version of each family, for example
            `{"GLIBC": "2.28"}`.

    Returns four lists of text, each sorted and without repetitions:

    - `"exports"`: functions and variables that the library defines for
      others, and that are not in `exports`. Weak ones count: `inline`
      functions and templates of C++ are weak. The name of a version
      that the library defines is a symbol as well (SHN_ABS), and does
      not count.
    - `"needed"`: the libraries that it asks for by name, and that are
      not in `needed`.
    - `"versions"`: the symbol versions that it asks for and that are
      too new: `"GLIBC_2.34"`. The family ends at the first `_`.
      Versions are compared number by number: 2.4 is older than 2.28. In
      a family that `newest` names, a version that is not made of
      numbers, as `"GLIBC_PRIVATE"` or `"GLIBC_ABI_DT_RELR"`, is always
      too new; other families are not limited.
    - `"paths"`: the folders of RPATH and RUNPATH, separated by `:`,
      that begin neither with `$ORIGIN` nor with `${ORIGIN}`. An empty
      one is the current folder, and counts.
    """

    # TODO c17.abi_symbols: list what keeps a library from loading on another machine
    raise todo("c17.abi_symbols")
