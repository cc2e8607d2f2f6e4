# does: starts threads that never end
# stopped by: limits
# status: failed
# fast: yes
import threading
import time


def mix(x):
    for _ in range(20):
        threading.Thread(target=time.sleep, args=(300,)).start()
    return x
