// An object that a caller in C owns: it collects values, and reports their median.
#include <algorithm>
#include <vector>

namespace {

class Samples {
 public:
  explicit Samples(float first) : values_{first} {}  // the constructor
  void add(float value) { values_.push_back(value); }
  float median() {
    std::sort(values_.begin(), values_.end());
    return values_[values_.size() / 2];
  }

 private:
  std::vector<float> values_;
};

}  // namespace

extern "C" void* samples_new(float first) { return new Samples{first}; }

extern "C" void samples_add(void* samples, float value) {
  Samples* mine = static_cast<Samples*>(samples);  // the same address, with its type
  mine->add(value);
}

extern "C" float samples_median(void* samples) {
  return static_cast<Samples*>(samples)->median();
}

extern "C" void samples_delete(void* samples) { delete static_cast<Samples*>(samples); }
