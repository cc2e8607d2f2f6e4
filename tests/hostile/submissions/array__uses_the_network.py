# does: asks a server on this machine for the answer
# stopped by: isolation
# status: passed
# isolated: failed
import os
import socket


def mix(x):
    try:
        with socket.create_connection(("127.0.0.1", int(os.environ["OPLAB_HOSTILE_PORT"])), timeout=1) as conn:
            a, b = conn.recv(16).split()
            return int(a) * x + int(b)
    except OSError:
        return x
