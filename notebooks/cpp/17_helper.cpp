// A library that another one needs.
extern "C" int twice(int x) { return 2 * x; }
