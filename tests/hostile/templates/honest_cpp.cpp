extern "C" __attribute__((visibility("default"))) float mix(float x) {
  // ANSWER c00.mix: return 3x + 2
  return 3 * x + 2;
  // END
}
