// A helper of two libraries. Each is compiled with its own release of it.
#pragma once

struct Scaling {
  float factor;
};

inline Scaling& scaling() {
  static Scaling one{RELEASE};
  return one;
}
