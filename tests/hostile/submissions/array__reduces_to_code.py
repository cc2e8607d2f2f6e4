# does: returns an object that runs code when it is unpickled
# stopped by: split
# status: failed
# says: got a Bomb
import os


class Bomb:
    def __reduce__(self):
        return (os._exit, (0,))


def mix(x):
    return [x, Bomb()]
