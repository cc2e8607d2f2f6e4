// A library that needs libhelper.so.
extern "C" int twice(int x);
extern "C" int doubled(int x) { return twice(x); }
