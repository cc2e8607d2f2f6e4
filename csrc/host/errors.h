// The exceptions that end the program: the message is for the user, and the type decides the exit code.
#pragma once

#include <stdexcept>

#include "../common/text.h"

namespace host {

using oplab::make_string;
using oplab::shape_text;

// The command line is wrong: an option, a file, an input. Exit code 2; any other exception is exit code 1.
struct CallError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The model, a library or the run failed. Exit code 1.
struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace host
