# does: a file of 100 MB
# stopped by: split
# status: failed
# says: too large


def net(path):
    with open(path, "wb") as stream:
        stream.truncate(100 << 20)
