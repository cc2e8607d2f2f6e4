# does: leaves an array whose header asks for 100 GB
# stopped by: split
# status: failed
# says: cannot be read
import os
import zipfile
from pathlib import Path


def mix(x):
    folder = Path.cwd().parent / "evidence"
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (25000000000,), }"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    with zipfile.ZipFile(folder / "arrays.npz", "w") as archive:
        archive.writestr("a0.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
    (folder / "evidence.json").write_text('{"version": 1, "items": {"y": {"kind": "array", "array": "a0"}}}')
    for fd in range(3, 64):
        try:
            os.write(fd, b'\n{"outcome": "collected", "digests": {}}\n')
        except OSError:
            pass
    os._exit(0)
