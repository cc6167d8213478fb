// Signed overflow: g++ -fsanitize=signed-integer-overflow calls a function where a sum, a difference or a product does
// not fit, and those functions are here. C++ leaves such a value undefined; an index made from it is 2^32 elements off.
#include "internal.h"

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

std::string number(const Type& type, uintptr_t value)
{
    const unsigned bits = 1u << (type.info >> 1);
    if (bits > 64) // a pointer to it
        return "a number of " + std::to_string(bits) + " bits";
    return std::to_string(int64_t(value << (64 - bits)) >> (64 - bits));
}

void overflow(const void* raw, const std::string& expression, uintptr_t pc)
{
    const Type& type = *static_cast<const Data*>(raw)->type;
    fault(launch_failed,
        "signed overflow " + in_kernel() + "\n  " + where(pc) + ": " + who(running.thread) + " computes " + expression
            + ", which does not fit in " + type.name + ": an index needs size_t");
}

} // namespace
} // namespace softcuda

using namespace softcuda;

#define ON_OVERFLOW(name, sign) \
    extern "C" EXPORT void __ubsan_handle_##name##_overflow(const void* data, uintptr_t left, uintptr_t right) \
    { \
        const Type& type = *static_cast<const Data*>(data)->type; \
        overflow(data, number(type, left) + " " sign " " + number(type, right), \
            reinterpret_cast<uintptr_t>(__builtin_return_address(0))); \
    }
ON_OVERFLOW(add, "+")
ON_OVERFLOW(sub, "-")
ON_OVERFLOW(mul, "*")
ON_OVERFLOW(divrem, "/") // the smallest number by -1
extern "C" EXPORT void __ubsan_handle_negate_overflow(const void* data, uintptr_t value)
{
    overflow(data, "-(" + number(*static_cast<const Data*>(data)->type, value) + ")",
        reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}
