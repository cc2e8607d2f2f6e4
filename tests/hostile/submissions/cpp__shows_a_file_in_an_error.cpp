// does: includes a file that is not C++, so that the compiler quotes it
// stopped by: reading
// status: build_failed
// says: /etc/passwd may not be included
#include "/etc/passwd"
extern "C" __attribute__((visibility("default"))) float mix(float x) { return x; }
