# does: sleeps when the interpreter ends, and returns a wrong answer
# stopped by: limits
# status: failed
# fast: yes
import atexit
import time


def mix(x):
    atexit.register(time.sleep, 300)
    return x
