#include "cpp/errors.h"

#include <exception>

#include "restow/base/error.h"

namespace restow::python {
namespace {

namespace py = pybind11;

void Raise(const char* type, const py::tuple& arguments) {
  const py::object kind = py::module_::import("restow.errors").attr(type);
  PyErr_SetObject(kind.ptr(), kind(*arguments).ptr());
}

// None for a place that is not known.
py::object Place(const std::string& file) {
  return file.empty() ? py::object(py::none()) : py::object(py::str(file));
}
py::object Place(int count) {
  return count == 0 ? py::object(py::none()) : py::object(py::int_(count));
}

void RaiseError(const Error& error) {
  const SourcePosition& where = error.where();
  switch (error.code()) {
    case ErrorCode::kBadInput:
    case ErrorCode::kUsage:
      return Raise("InputError", py::make_tuple(error.message(), Place(where.file),
                                                Place(where.line), Place(where.column)));
    case ErrorCode::kUnsupported:
      return Raise("Unsupported", py::make_tuple(error.what()));
    case ErrorCode::kInternal:
      break;
  }
  Raise("Error", py::make_tuple(std::string("internal error: ") + error.what()));
}

void Translate(std::exception_ptr raised) {
  if (!raised) return;
  try {
    std::rethrow_exception(raised);
  } catch (const NothingFits& error) {
    Raise("NothingFits", py::make_tuple(error.what()));
  } catch (const Error& error) {
    RaiseError(error);
  }
}

}  // namespace

void RegisterErrors(py::module_&) { py::register_local_exception_translator(Translate); }

}  // namespace restow::python
