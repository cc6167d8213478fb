// What the host and copies write: the marks of which bytes of global memory have been written at all (kernel_races_coarse.cpp).
#include <algorithm>

#include "checker.h"

namespace softcuda {

void mark_written(uintptr_t address, size_t size, bool written)
{
    if (address - arena.first >= arena.size || size == 0)
        return;
    for (; size && address & 3; ++address, --size) {
        uint32_t& cell = arena.shadow[(address - arena.first) >> 2];
        cell = (cell & all_written & ~(1u << (address & 3))) | (written ? 1u << (address & 3) : 0);
    }
    std::fill_n(arena.shadow + ((address - arena.first) >> 2), size / 4, written ? all_written : 0u);
    for (address += size / 4 * 4, size &= 3; size; ++address, --size) {
        uint32_t& cell = arena.shadow[(address - arena.first) >> 2];
        cell = (cell & all_written & ~(1u << (address & 3))) | (written ? 1u << (address & 3) : 0);
    }
}

void copy_marks(uintptr_t to, uintptr_t from, size_t size)
{
    for (size_t i = 0; i < size; ++i) {
        const uint32_t mark = arena.shadow[(from + i - arena.first) >> 2] >> ((from + i) & 3) & 1u;
        uint32_t& cell = arena.shadow[(to + i - arena.first) >> 2];
        cell = (cell & all_written & ~(1u << ((to + i) & 3))) | mark << ((to + i) & 3);
    }
}

} // namespace softcuda
