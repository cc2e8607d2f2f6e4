// does: makes a library of 1.5 GB
// stopped by: limits
// status: build_failed
asm(".section .data\n.fill 1500000000, 1, 7\n.text");
extern "C" __attribute__((visibility("default"))) float mix(float x) { return 3 * x + 2; }
