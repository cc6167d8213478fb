// Signed overflow: g++ -fsanitize=signed-integer-overflow calls a function where a sum, a difference or a product does
// not fit, and those functions are here. C++ leaves such a value undefined; an index made from it is 2^32 elements off.
// And the one that -fsanitize=bounds calls where an index is not one of a thread's own array.
#include "checker.h"

namespace softcuda {
namespace {

struct Type { // as g++ lays it out
    uint16_t kind, info; // of an integer: bit 0 says that it is signed, the others log2 of its bits
    char name[1];
};
struct Data {
    const char* file;
    uint32_t line, column;
    const Type* type;
};

struct Bounds {
    const char* variable; // by assembly.py; null where it is none of a thread's own
    uint32_t line, column;
    const Type *array, *index; // "'float [4]'", "'int'"
};

std::string number(const Type& type, uintptr_t value)
{
    const unsigned bits = 1u << (type.info >> 1);
    if (bits > 64) // a pointer to it
        return "a number of " + std::to_string(bits) + " bits";
    return std::to_string(int64_t(value << (64 - bits)) >> (64 - bits));
}

void overflow(const void* raw, const std::string& expression, uintptr_t pc, bool ends_launch = false)
{
    if (!is_different("signed overflow", pc))
        return;
    const Type& type = *static_cast<const Data*>(raw)->type;
    const std::string what = where(pc) + ": " + who(running.thread) + " computes " + expression + ", which does not fit in " + type.name;
    if (has_undefined_lanes && !ends_launch) // of what such a lane gave, which may be dropped
        add_note(Note::cause, "overflows " + what);
    else
        tell(launch_failed, "signed overflow " + in_kernel() + "\n  " + what + ": an index needs size_t");
}

} // namespace
} // namespace softcuda

using namespace softcuda;

#define ON_OVERFLOW(name, sign, ends) \
    extern "C" EXPORT void __ubsan_handle_##name##_overflow(const void* data, uintptr_t left, uintptr_t right) \
    { \
        const Type& type = *static_cast<const Data*>(data)->type; \
        overflow(data, number(type, left) + " " sign " " + number(type, right), \
            reinterpret_cast<uintptr_t>(__builtin_return_address(0)), ends); \
        if (ends) \
            end_launch(); \
    }
ON_OVERFLOW(add, "+", false)
ON_OVERFLOW(sub, "-", false)
ON_OVERFLOW(mul, "*", false)
ON_OVERFLOW(divrem, "/", true) // the smallest number by -1, which the host cannot divide either
extern "C" EXPORT void __ubsan_handle_negate_overflow(const void* data, uintptr_t value)
{
    overflow(data, "-(" + number(*static_cast<const Data*>(data)->type, value) + ")",
        reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}
// The access would be one of another variable of the thread, or of what a call returns to: so it ends the launch.
extern "C" EXPORT void __ubsan_handle_out_of_bounds(const void* raw, uintptr_t index)
{
    const auto& data = *static_cast<const Bounds*>(raw);
    if (!data.variable)
        return;
    const std::string type = data.array->name;
    const size_t begin = type.find('[') + 1;
    const std::string place = where(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
    fault(illegal_address,
        "out of bounds " + in_kernel() + "\n  " + place + ": " + who(running.thread) + " takes index " + number(*data.index, index)
            + " of local array " + data.variable + " of " + type.substr(begin, type.find(']') - begin) + " elements");
}

// An access that its type does not allow at that address (-fsanitize=alignment).
extern "C" EXPORT void __ubsan_handle_type_mismatch_v1(void* data, uintptr_t address)
{
    struct Mismatch { // as g++ lays it out
        const char* file;
        uint32_t line, column;
        const void* type;
        uint8_t log_alignment, kind;
    };
    const Mismatch& d = *static_cast<const Mismatch*>(data);
    const bool write = d.kind == 1;
    if (checker.active && address & ((uintptr_t(1) << d.log_alignment) - 1))
        misaligned(address, 1u << d.log_alignment, write, reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}

extern "C" EXPORT void __ubsan_handle_type_mismatch_v1_abort(void* data, uintptr_t address)
{
    __ubsan_handle_type_mismatch_v1(data, address);
}
