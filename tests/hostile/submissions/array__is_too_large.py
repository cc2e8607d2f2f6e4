# does: the submitted file has two million characters
# stopped by: reading
# status: error
# says: larger than 1 MB
# submitted as: a large file
def mix(x):
    return 3 * x + 2
