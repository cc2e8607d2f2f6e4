# does: raises an exception whose message UTF-8 cannot encode, with a terminal's control characters
# stopped by: grader
# status: error
# says: ValueError: before
def mix(x):
    raise ValueError("before\ud800 \x1b[2J\x00 after")
