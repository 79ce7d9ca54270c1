// Restow's errors as Python's exceptions (python/restow/errors.py).
#pragma once

#include <pybind11/pybind11.h>

#include <stdexcept>

namespace restow::python {

// Becomes restow.NothingFits. Only a request to act on what does not fit raises it; a plan in which
// nothing fits is an answer.
class NothingFits : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// From here on: kBadInput and kUsage raise restow.InputError with the place, kUnsupported
// restow.Unsupported, kInternal restow.Error.
void RegisterErrors(pybind11::module_& m);

}  // namespace restow::python
