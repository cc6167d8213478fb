// Cells for the halves or the bytes of one word, where threads touch them apart: a cell remembers one write, and a write
// of one half must not make it forget that of the other. Included by checker.cpp and cached_reads.cpp.
#pragma once

#include "kernel_races.h"

namespace softcuda {

constexpr uint8_t is_split = 128; // of Epoch::flags: write.clock is the place of the parts' cells, write.bytes their size
constexpr size_t max_parts = size_t(1) << 20; // cells of 32 bytes; beyond them words are not split

struct Parts {
    std::vector<Cell> cells;
    size_t shared_used = 0, global_used = 0; // from the two ends: those of shared memory are given back with each block
};
inline Parts parts;

inline void forget_parts(bool of_shared_memory_alone)
{
    parts.shared_used = 0;
    if (!of_shared_memory_alone)
        parts.global_used = 0;
}

// Where so many cells are; max_parts where there are none.
inline size_t take_parts(size_t count, bool shared)
{
    if (parts.cells.empty())
        parts.cells.resize(max_parts);
    if (parts.shared_used + parts.global_used + count > max_parts)
        return max_parts;
    (shared ? parts.shared_used : parts.global_used) += count;
    return shared ? parts.shared_used - count : max_parts - parts.global_used;
}

// What an epoch says of some of its bytes. Of several threads, it has a list of its own, which others may join.
inline Epoch part_of_epoch(Epoch epoch, uint8_t bytes)
{
    epoch.bytes &= bytes;
    if (!epoch.bytes || epoch.interval < ordering.launch_start)
        return Epoch {};
    if (epoch.interval != ordering.interval || !(epoch.flags & (by_lanes | by_warps)))
        return epoch;
    Several all = ordering.several[epoch.clock];
    if (ordering.several_used == max_several || (all.apart && ordering.apart_used == max_apart))
        return Epoch {};
    if (all.apart) {
        ordering.apart[ordering.apart_used] = ordering.apart[all.apart - 1];
        all.apart = ++ordering.apart_used;
    }
    if (all.wide && ordering.wide_used < max_wide) {
        ordering.wide[ordering.wide_used] = ordering.wide[all.wide - 1];
        all.wide = ++ordering.wide_used;
    }
    ordering.several[ordering.several_used] = all;
    epoch.clock = ordering.several_used++;
    return epoch;
}

// Splits a cell into parts of `size` bytes. False where there is no room.
inline bool split(Cell& cell, unsigned size, bool shared)
{
    const bool again = cell.write.flags & is_split;
    const unsigned old_size = again ? cell.write.bytes : 4;
    const size_t place = take_parts(4 / size, shared);
    if (place == max_parts)
        return false;
    for (unsigned at = 0; at < 4; at += size) {
        const Cell& from = again ? parts.cells[cell.write.clock + at / old_size] : cell;
        const uint8_t bytes = uint8_t(((1u << size) - 1) << at);
        parts.cells[place + at / size] = {part_of_epoch(from.write, bytes), part_of_epoch(from.read, bytes)};
    }
    cell = Cell {};
    cell.write = {ordering.interval, uint32_t(place), 0, 0, uint8_t(size), is_split};
    return true;
}

// Whether an access of these bytes would make a cell forget one of others.
inline bool has_other_bytes(const Cell& cell, uint8_t bytes)
{
    const auto other = [&](const Epoch& epoch) { return epoch.interval >= ordering.launch_start && epoch.bytes != bytes; };
    return other(cell.write) || other(cell.read);
}

__attribute__((noinline)) inline void touch_parts(Cell& cell, uint8_t bytes, const Access& access, const SharedRegion* region)
{
    if (cell.write.flags & is_split && cell.write.interval < ordering.launch_start)
        cell = Cell {};
    const unsigned size = bytes == all_written ? 4 : bytes == 0x3 || bytes == 0xc ? 2 : 1;
    const bool is_whole = !(cell.write.flags & is_split);
    if (is_whole ? size < 4 && has_other_bytes(cell, bytes) : size < cell.write.bytes)
        split(cell, size, region);
    if (!(cell.write.flags & is_split)) {
        touch(cell, bytes, access, region);
        return;
    }
    const unsigned step = cell.write.bytes;
    for (unsigned at = 0; at < 4; at += step)
        if (const uint8_t of_part = uint8_t(bytes & ((1u << step) - 1) << at))
            touch(parts.cells[cell.write.clock + at / step], of_part, access, region);
}

ALWAYS_INLINE void touch_word(Cell& cell, uint8_t bytes, const Access& access, const SharedRegion* region)
{
    if (cell.read.site & dense)
        loosen(cell.read);
    if (__builtin_expect(bytes != all_written || cell.write.flags & is_split, 0))
        touch_parts(cell, bytes, access, region);
    else
        touch(cell, bytes, access, region);
}

} // namespace softcuda
