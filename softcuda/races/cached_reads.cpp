// Reads through textures and surfaces. Their cache does not see what the same launch writes, whatever barriers and fences
// lie between ("Read/Write Coherency" of CUDA's programming guide): so such a read is a fault even where it is ordered.
#include "device/arrays.h"
#include "narrow_cells.h"

namespace softcuda {
namespace {

bool is_of_this_launch(const Epoch& write, uint8_t bytes)
{
    return write.interval >= ordering.launch_start && !(write.flags & is_read) && write.bytes & bytes;
}

// The write of this launch to some bytes of a word; null where there is none, or nothing is remembered of it.
const Epoch* write_to(uintptr_t word, uint8_t bytes)
{
    const Cell* cell = cell_of(word);
    if (!cell)
        return nullptr;
    if (!(cell->write.flags & is_split))
        return is_of_this_launch(cell->write, bytes) ? &cell->write : nullptr;
    if (cell->write.interval < ordering.launch_start)
        return nullptr;
    for (unsigned part = 0; part < 4 / cell->write.bytes; ++part) {
        const Epoch& write = parts.cells[cell->write.clock + part].write;
        if (is_of_this_launch(write, bytes))
            return &write;
    }
    return nullptr;
}

} // namespace

void check_read_only(uintptr_t address, unsigned size, uintptr_t pc)
{
    if (!checker_is_active())
        return;
    for (uintptr_t word = address & ~uintptr_t(3); word < address + size; word += 4)
        if (const Epoch* write = write_to(word, size >= 4 ? all_written : uint8_t(((1u << size) - 1) << (address & 3))))
            return stale_read_only(*write, address, size, pc);
}

void check_cached_read(uintptr_t address, unsigned size, uintptr_t pc)
{
    if (!checker_is_active())
        return;
    for (uintptr_t word = address & ~uintptr_t(3); word < address + size; word += 4) {
        const uint8_t bytes = size >= 4 ? all_written : uint8_t(((1u << size) - 1) << (address & 3));
        if (const Epoch* write = write_to(word, bytes))
            stale_read(*write, address, size, pc);
    }
    check_access(address, size, false, pc);
}

} // namespace softcuda
