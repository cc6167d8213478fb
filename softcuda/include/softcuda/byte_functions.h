// memcpy, memmove and memset of a checked kernel: g++ makes moves of them, and calls of libc's, that no checker sees.
#pragma once

#include <string.h>

namespace softcuda {

// Loops over words where all are aligned, then over bytes; from the end where the ranges overlap that way.
__attribute__((always_inline)) inline void copy_bytes(char* to, const char* from, size_t size, bool from_the_end)
{
    const size_t words = (size_t(to) | size_t(from)) & 3 ? 0 : size / 4;
    if (from_the_end)
        for (size_t i = size; i > 4 * words; --i)
            to[i - 1] = from[i - 1];
    for (size_t i = 0; i < words; ++i) {
        const size_t place = 4 * (from_the_end ? words - 1 - i : i);
        *reinterpret_cast<unsigned*>(to + place) = *reinterpret_cast<const unsigned*>(from + place);
    }
    if (!from_the_end)
        for (size_t i = 4 * words; i < size; ++i)
            to[i] = from[i];
}

// Sizes that g++ makes one access of, which is seen.
constexpr bool is_one_access(size_t size) { return size == 1 || size == 2 || size == 4 || size == 8; }

} // namespace softcuda

#define SOFTCUDA_SEEN extern inline __attribute__((always_inline, gnu_inline, artificial))

extern "C" {

SOFTCUDA_SEEN void* memcpy(void* __restrict to, const void* __restrict from, size_t size) noexcept
{
    if (__builtin_constant_p(size) && softcuda::is_one_access(size))
        return __builtin_memcpy(to, from, size);
    softcuda::copy_bytes(static_cast<char*>(to), static_cast<const char*>(from), size, false);
    return to;
}

SOFTCUDA_SEEN void* memmove(void* to, const void* from, size_t size) noexcept
{
    softcuda::copy_bytes(static_cast<char*>(to), static_cast<const char*>(from), size, to > from);
    return to;
}

SOFTCUDA_SEEN void* memset(void* to, int value, size_t size) noexcept
{
    char* bytes = static_cast<char*>(to);
    const size_t words = size_t(to) & 3 ? 0 : size / 4;
    for (size_t i = 0; i < words; ++i)
        reinterpret_cast<unsigned*>(bytes)[i] = 0x01010101u * static_cast<unsigned char>(value);
    for (size_t i = 4 * words; i < size; ++i)
        bytes[i] = static_cast<char>(value);
    return to;
}
}

#undef SOFTCUDA_SEEN
