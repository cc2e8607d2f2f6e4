// What ends the program early: a sentence for the reader, and whose fault it is.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace host {

// The call is wrong: an option, a file, an input. Exit code 2. Whatever else is thrown is a failure of the run: exit code 1.
struct CallError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The model, a library or the run failed. Exit code 1.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Words>
std::string sentence(const Words&... words) {
  std::ostringstream text;
  (text << ... << words);
  return text.str();
}

}  // namespace host
