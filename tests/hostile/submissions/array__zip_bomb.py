# does: leaves an archive of a few kilobytes that unpacks to gigabytes
# stopped by: split
# status: failed
# says: arrays of the exercise's run are too large
import json
import os
import zipfile
from pathlib import Path


def mix(x):
    folder = Path.cwd().parent / "evidence"
    with zipfile.ZipFile(folder / "arrays.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("a0.npy", "w", force_zip64=True) as stream:
            for _ in range(300):
                stream.write(bytes(1 << 20))
    items = {"y": {"kind": "array", "array": "a0"}}
    (folder / "evidence.json").write_text(json.dumps({"version": 1, "items": items}))
    for fd in range(3, 64):
        try:
            os.write(fd, b'\n{"outcome": "collected", "digests": {}}\n')
        except OSError:
            pass
    os._exit(0)
