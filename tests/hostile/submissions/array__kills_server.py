# does: kills its parent's parent, the fork server
# stopped by: scopes
# status: error
# says: Operation not permitted
import os


def mix(x):
    with open(f"/proc/{os.getppid()}/stat") as stream:
        server = int(stream.read().rpartition(")")[2].split()[1])
    os.kill(server, 9)
    return x
