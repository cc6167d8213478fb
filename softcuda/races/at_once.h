// The accesses that are most frequent, judged in a few instructions: whole words, read or written plainly, where nothing
// has to be asked for. Included by checker.cpp; whatever takes more goes the way of kernel_races.h, which finds the same.
#pragma once

#include "narrow_cells.h"

namespace softcuda {

// A word was written before the present interval, if ever, and has no cells for its parts.
ALWAYS_INLINE bool is_settled(const Epoch& write) { return is_written_before(write) && !(write.flags & is_split); }

ALWAYS_INLINE void add_lane(Epoch& read)
{
    const uint32_t lanes = last_quarter(read) | ordering.present.lane;
    memcpy(&read.thread, &lanes, sizeof lanes);
}

ALWAYS_INLINE bool is_by_earlier(const Epoch& read) { return !(read.site & dense) && read.flags & by_earlier; }

ALWAYS_INLINE bool is_by_warps(const Epoch& read)
{
    return read.interval == ordering.present.by_warps && !(read.site & dense) && last_quarter(read) >> 16 == uint32_t(0xf | by_warps << 8);
}

// Whether it is a read of shared memory that lanes of the same warp have done before, or several warps.
template <unsigned size> ALWAYS_INLINE bool is_read_again(const Near& near, size_t word, uint32_t site)
{
    Cell* cells = near.cells + word;
    constexpr unsigned count = size / 4;
    bool dense_ones = true;
    for (unsigned i = 0; i < count; ++i)
        dense_ones &= first_half(cells[i].read) == ordering.present.read && cells[i].read.site == (site | dense);
    for (unsigned i = 0; dense_ones && i < count; ++i)
        add_lane(cells[i].read);
    if (dense_ones)
        return true;
    for (unsigned i = 0; i < count; ++i)
        if (!is_by_warps(cells[i].read) || near.written[word + i] != all_written || !is_written_before(cells[i].write))
            return false;
    return true;
}

// A further read of a word in one interval, by a lane as those before, by one of several warps, or by the thread that has
// read it.
template <class IsSet> ALWAYS_INLINE bool read_again(Cell& cell, IsSet is_set)
{
    const uint32_t last = last_quarter(cell.read);
    if (cell.read.site & dense || !is_set())
        return false;
    if (is_by_warps(cell.read))
        return is_written_before(cell.write);
    return first_half(cell.read) == ordering.present.write && last == ordering.present.whole;
}

// The first read of a word in an interval. `is_set`: all of it has been written.
template <class IsSet> ALWAYS_INLINE bool read_first(Cell& cell, uint32_t site, bool shared, IsSet is_set)
{
    Epoch& read = cell.read;
    if (!is_settled(cell.write) || !ordering.present.is_dense || is_by_earlier(read))
        return false;
    const bool is_of_launch = shared || read.interval >= ordering.launch_start;
    if (!(is_of_launch && read.interval && read.site & dense) && !is_set())
        return false;
    if (!shared && is_of_launch && read.interval < ordering.block_start) {
        const bool is_write = cell.write.interval >= ordering.launch_start && !(cell.write.flags & is_read);
        if (ordering.released || is_write || !(read.site & dense))
            return false;
        cell.write = not_dense(read); // as keep_earlier_read
        cell.write.flags |= is_read;
    }
    set(read, ordering.present.read, site | dense, ordering.present.lane);
    return true;
}

template <class IsSet> ALWAYS_INLINE bool read_at_once(Cell& cell, uint32_t site, bool shared, IsSet is_set)
{
    const Present& now = ordering.present;
    if (first_half(cell.read) == now.read && cell.read.site == (site | dense)) {
        add_lane(cell.read);
        return true;
    }
    return cell.read.interval == ordering.interval ? read_again(cell, is_set) : read_first(cell, site, shared, is_set);
}

// Whether a write need not be held against what has been read: before the last barrier, or by the same thread.
ALWAYS_INLINE bool is_read_before(const Epoch& read, bool shared)
{
    if (!shared && read.interval < ordering.block_start)
        return read.interval < ordering.launch_start;
    if (is_by_earlier(read))
        return false;
    const bool is_own = read.site & dense && last_quarter(read) == ordering.present.lane
        && read.clock >> dense_clock_bits == running.thread / warp_size;
    return read.interval < ordering.interval || is_own;
}

// `is_tested`: asked for where the write is remembered.
template <class IsTested> ALWAYS_INLINE bool write_at_once(Cell& cell, uint32_t site, bool shared, IsTested tested)
{
    const Present& now = ordering.present;
    Epoch& write = cell.write;
    if (first_half(write) == now.write && (last_quarter(write) & ~(uint32_t(is_tested) << 24)) == now.whole)
        return true;
    const bool is_of_reads = write.flags & is_read && write.interval >= ordering.launch_start;
    if (!is_settled(write) || is_of_reads || !is_read_before(cell.read, shared))
        return false;
    set(write, now.write, site, now.whole | uint32_t(tested() ? is_tested : 0) << 24);
    cell.read.interval = 0;
    ordering.fenced[running.thread] = 0;
    return true;
}

// Whether it touches bytes of a variable that the launch has touched likewise: then nothing of it is new.
template <unsigned size, bool write> ALWAYS_INLINE bool variable_at_once(uintptr_t address)
{
    const NearVariable& near = checker.variable;
    const size_t offset = address - near.first;
    if (offset >= near.size || near.size - offset < size || address % size)
        return false;
    bool all = true;
    for (unsigned i = 0; i < size; ++i)
        all &= (near.marks[offset + i] & (write ? wrote_plainly : read_plainly)) != 0;
    return all;
}

} // namespace softcuda
