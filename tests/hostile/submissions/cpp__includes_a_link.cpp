// does: includes a link next to it, which leads to the solution
// stopped by: reading
// status: build_failed
// says: may not be included
// neighbour: neighbour.h
#include "neighbour.h"
