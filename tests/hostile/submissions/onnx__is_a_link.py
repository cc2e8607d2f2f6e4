# does: a link to a file of this machine in place of the model
# stopped by: split
# status: failed
# says: not an ONNX model
import os


def net(path):
    os.symlink("/etc/passwd", path)
