// does: includes the solution
// stopped by: reading
// status: build_failed
// says: may not be included
#include "../../solutions/csrc/c00_mix.cpp"
