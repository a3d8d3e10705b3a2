#include <system_error>

#include "bind_all.h"

namespace labkit {

// std::system_error becomes OSError with its errno; std::invalid_argument is a ValueError already.
void bind_errors(nanobind::module_&) {
    nanobind::register_exception_translator(
        [](const std::exception_ptr& pending, void*) {
            try {
                std::rethrow_exception(pending);
            } catch (const std::system_error& error) {
                const nanobind::tuple arguments = nanobind::make_tuple(error.code().value(), error.what());
                PyErr_SetObject(PyExc_OSError, arguments.ptr());
            }
        },
        nullptr);
}

}  // namespace labkit
