"""Arrays by name in an .npz file, as a user hands them to a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from oplab.errors import OplabError

if TYPE_CHECKING:
    import numpy as np

_FIX = "Write it with numpy.savez(file, NAME=array, …), a name for each input of the model."


def read_npz(file: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz by name; nothing in it is unpickled."""
    import numpy as np

    if not file.is_file():
        raise OplabError(f"There is no file {file}.", _FIX)
    try:
        found = np.load(file, allow_pickle=False)
        if not hasattr(found, "files"):
            raise OplabError(f"{file} holds one array without a name.", _FIX)
        with found:
            return {name: found[name] for name in found.files}
    except OplabError:
        raise
    except (
        Exception
    ) as error:  # zipfile, zlib and numpy raise a dozen kinds; MemoryError where a header claims terabytes
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise OplabError(f"{file} cannot be read as .npz: {said[:160]}.", _FIX) from None
