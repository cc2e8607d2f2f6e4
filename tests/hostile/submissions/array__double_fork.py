# does: leaves a daemon behind: two forks, a session of its own, signals ignored
# stopped by: limits
# status: failed
# says: left running
import os
import signal
import time


def mix(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            time.sleep(300)
        os._exit(0)
    time.sleep(0.1)
    return x
