// Lookup(key; keys, values, otherwise = 0, missing = "use otherwise") -> value, unknown.
#include "oplab_kernel.h"

#include <map>

namespace {

using oplab::Tensor;
using Strings = std::vector<std::string>;
using Views = std::vector<std::string_view>;

struct Lookup {
  Lookup(const OrtApi*, const OrtKernelInfo* info)
      : otherwise(oplab::float_attribute(info, "otherwise", 0.0f)),
        missing(oplab::string_attribute(info, "missing", "use otherwise")) {
    const Strings keys = oplab::strings_attribute(info, "keys");
    const std::vector<float> values = oplab::floats_attribute(info, "values");
    if (keys.size() != values.size()) {
      oplab::refuse("there are ", keys.size(), " keys and ", values.size(), " values.");
    }
    if (missing != "use otherwise" && missing != "refuse") {
      oplab::refuse("missing must be \"use otherwise\" or \"refuse\", not \"", missing, "\".");
    }
    for (size_t i = 0; i < keys.size(); ++i) table[keys[i]] = values[i];
  }

  Ort::Status Compute(const Tensor<std::string_view>& key, Tensor<float>& value,
                      Tensor<std::string>& unknown) {
    const Views& from = key.Data();
    float* to = value.Allocate(key.Shape());
    Strings not_found;
    for (size_t i = 0; i < from.size(); ++i) {
      const auto found = table.find(from[i]);
      if (found == table.end()) not_found.emplace_back(from[i]);
      to[i] = found == table.end() ? otherwise : found->second;
    }
    if (missing == "refuse" && !not_found.empty()) {
      oplab::refuse("no value for \"", not_found.front(), "\".");
    }
    unknown.SetStringOutput(not_found, {static_cast<int64_t>(not_found.size())});
    return Ort::Status{nullptr};
  }

  const float otherwise;
  const std::string missing;
  std::map<std::string, float, std::less<>> table;  // less<>: find takes a view
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<Lookup>(made, "Lookup");
    return made;
  });
}
