# does: patches time, blocks signals and never ends
# stopped by: limits
# status: timeout
# says: longer than 6 s
import signal
import time


def mix(x):
    time.time = time.monotonic = time.perf_counter = lambda: 0.0
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    real = time.sleep
    while True:
        real(1)
