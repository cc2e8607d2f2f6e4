# does: asks a service of this machine, over a UNIX socket
# stopped by: isolation
# status: passed
# isolated: error
# says: PermissionError
import os
import socket


def mix(x):
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(os.environ["OPLAB_HOSTILE_SOCKET"])
        a, b = map(int, asking.recv(16).split())
    return a * x + b
