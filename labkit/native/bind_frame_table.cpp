#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "bind_all.h"
#include "frame_table.h"

namespace nb = nanobind;

namespace labkit {
namespace {

// A contiguous view of any object with the buffer protocol, released at the end.
class BufferView {
  public:
    explicit BufferView(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
    }
    ~BufferView() { PyBuffer_Release(&view_); }
    BufferView(const BufferView&) = delete;
    BufferView& operator=(const BufferView&) = delete;

    const std::uint8_t* data() const { return static_cast<const std::uint8_t*>(view_.buf); }
    std::size_t bytes() const { return static_cast<std::size_t>(view_.len); }

    // The bytes as native values of T, copied: a Python buffer need not be aligned.
    template <class T>
    std::vector<T> values(const char* name) const {
        if (bytes() % sizeof(T) != 0) {
            throw std::invalid_argument(std::string("frame table: ") + name + " must hold whole values of " +
                                        std::to_string(sizeof(T)) + " bytes");
        }
        std::vector<T> copy(bytes() / sizeof(T));
        if (!copy.empty()) std::memcpy(copy.data(), data(), bytes());
        return copy;
    }

  private:
    Py_buffer view_{};
};

}  // namespace

void bind_frame_table(nb::module_& m) {
    nb::class_<FrameTable>(m, "FrameTable", "Frames ready to send; owns a copy of what it is given.")
        .def(
            "__init__",
            [](FrameTable* self, nb::handle block, nb::handle offsets, nb::handle lengths) {
                const BufferView bytes(block);
                new (self) FrameTable(bytes.data(), bytes.bytes(),
                                      BufferView(offsets).values<std::uint64_t>("offsets"),
                                      BufferView(lengths).values<std::uint32_t>("lengths"));
            },
            nb::arg("block"), nb::arg("offsets"), nb::arg("lengths"),
            nb::sig(
                "def __init__(self, block: bytes | bytearray | memoryview, "
                "offsets: bytes | bytearray | memoryview, lengths: bytes | bytearray | memoryview) -> None"),
            "Copy frames from one block; native unsigned 64-bit offsets and 32-bit lengths.")
        .def("__len__", &FrameTable::size)
        .def_prop_ro("block_bytes", &FrameTable::block_bytes, "Size of the block in bytes.");
}

}  // namespace labkit
