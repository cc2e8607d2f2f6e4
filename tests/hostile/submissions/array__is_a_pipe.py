# does: the submitted file is a pipe that has no writer
# stopped by: reading
# status: error
# says: is not a plain file
# submitted as: a pipe
