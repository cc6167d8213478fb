// Finds races of two threads: what is remembered of each 4 bytes that a kernel touches, and whether a further access
// races with it.
#pragma once

#include "checker.h"

// What is the same for each of the functions of checker.cpp that g++ calls, it makes a constant of there.
#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace softcuda {

// Accesses that may meet without being ordered. In one block `volatile` alone does not make them so: threads of a
// block that hand data on by it, as before Volta, have forgotten __syncwarp.
inline bool may_meet(const Epoch& earlier, const Access& access)
{
    if (earlier.interval < ordering.block_start && (checker.of_block || (earlier.flags & is_atomic && earlier.flags & of_block)))
        return false;
    const bool both_atomic = earlier.flags & is_atomic && access.is_atomic();
    const bool one_atomic = earlier.flags & is_atomic || access.is_atomic();
    const bool both_strong = earlier.flags & (is_atomic | is_volatile) && access.kind != Kind::plain;
    return both_atomic || (both_strong && (one_atomic || earlier.interval < ordering.block_start));
}

inline bool is_same_warp(unsigned a, unsigned b) { return a / warp_size == b / warp_size; }

inline bool set_apart(Several& all, uint32_t site)
{
    if (ordering.apart_used == max_apart)
        return false;
    Apart& fresh = ordering.apart[ordering.apart_used];
    for (unsigned lane = 0; lane < warp_size; ++lane)
        fresh.clock[lane] = all.clock, fresh.site[lane] = site;
    all.apart = ++ordering.apart_used;
    return true;
}

// What several warps did, of which each has its own clock: a lane that does it again forgets what the others did before.
inline void join_wide(Several& all, const Epoch& mine)
{
    if (!all.wide)
        return;
    Wide& wide = ordering.wide[all.wide - 1];
    const unsigned warp = mine.thread / warp_size;
    const uint32_t lane = 1u << mine.thread % warp_size;
    const bool again = wide.lanes[warp] & lane && mine.clock != wide.clock[warp];
    wide.clock[warp] = wide.lanes[warp] && !again && wide.clock[warp] < mine.clock ? wide.clock[warp] : mine.clock;
    wide.lanes[warp] = (again ? 0 : wide.lanes[warp]) | lane;
    wide.site[warp] = mine.site;
}

inline void begin_wide(Several& all, const Epoch& first)
{
    if (!ordering.fine || ordering.wide_used == max_wide)
        return;
    Wide& wide = ordering.wide[ordering.wide_used++] = {};
    all.wide = ordering.wide_used;
    const unsigned warp = first.thread / warp_size;
    wide.lanes[warp] = all.lanes, wide.clock[warp] = ~0u, wide.site[warp] = first.site;
    for (uint32_t lanes = all.lanes; lanes; lanes &= lanes - 1)
        if (const uint32_t clock = clock_of(all, unsigned(__builtin_ctz(lanes))); clock < wide.clock[warp])
            wide.clock[warp] = clock;
}

// One more thread that did the same in the same interval, to the same bytes. False where that cannot be kept.
inline bool join(Epoch& epoch, const Epoch& mine)
{
    if (epoch.flags & by_warps) {
        join_wide(ordering.several[epoch.clock], mine);
        return true;
    }
    if (!(epoch.flags & by_lanes)) {
        if (ordering.several_used == max_several)
            return false;
        ordering.several[ordering.several_used] = {1u << epoch.thread % warp_size, epoch.clock, 0, 0, 0, 0};
        epoch.clock = ordering.several_used++;
        epoch.flags |= by_lanes;
    }
    Several& all = ordering.several[epoch.clock];
    if (!is_same_warp(epoch.thread, mine.thread)) {
        epoch.flags = uint8_t((epoch.flags & ~by_lanes) | by_warps);
        all.other = mine.thread;
        all.other_site = mine.site;
        begin_wide(all, epoch);
        join_wide(all, mine);
        return true;
    }
    if (!all.apart && (mine.clock != all.clock || mine.site != epoch.site) && !set_apart(all, epoch.site))
        return false;
    const unsigned lane = mine.thread % warp_size;
    all.lanes |= 1u << lane;
    if (all.apart)
        ordering.apart[all.apart - 1].clock[lane] = mine.clock, ordering.apart[all.apart - 1].site[lane] = mine.site;
    return true;
}

// Makes what a cell remembers of reads an Epoch that is not dense.
__attribute__((noinline)) inline void loosen(Epoch& read)
{
    const uint32_t lanes = last_quarter(read), clock = read.clock & ((1u << dense_clock_bits) - 1);
    const bool is_listed = read.interval == ordering.interval && lanes & (lanes - 1) && ordering.several_used != max_several;
    read = not_dense(read, ordering.several_used);
    if (is_listed)
        ordering.several[ordering.several_used++] = {lanes, clock, 0, 0, 0, 0};
    else if (read.interval == ordering.interval) // as far as there is room
        read.clock = clock, read.flags = 0;
}

// The read of an earlier block, which `mine` takes the place of.
inline void keep_earlier_read(Cell& cell, Epoch& mine)
{
    if (cell.write.interval >= ordering.launch_start && !(cell.write.flags & is_read)) {
        mine.flags |= by_earlier;
        return;
    }
    mine.flags |= cell.read.flags & by_earlier;
    cell.write = cell.read;
    cell.write.flags |= is_read;
}

inline void remember_read(Cell& cell, Epoch mine)
{
    Epoch& read = cell.read;
    if (read.interval == mine.interval && read.bytes == mine.bytes) {
        const uint8_t flags = uint8_t(read.flags & ~(is_volatile & ~mine.flags));
        const bool same = read.thread == mine.thread && !(read.flags & (by_lanes | by_warps));
        if (!same && join(read, mine)) {
            read.flags &= uint8_t(flags | by_lanes | by_warps);
            return;
        }
        mine.flags = uint8_t((mine.flags & flags) | (flags & by_earlier));
    } else if (read.interval == mine.interval && read.thread == mine.thread && read.clock == mine.clock
        && !(read.flags & (by_lanes | by_warps))) {
        mine.bytes |= read.bytes;
        mine.flags = uint8_t((mine.flags & read.flags) | (read.flags & by_earlier));
    } else if (read.interval >= ordering.launch_start && read.bytes & mine.bytes) {
        if (read.interval >= ordering.block_start)
            mine.flags |= read.flags & by_earlier;
        else if (!is_ordered(read))
            keep_earlier_read(cell, mine);
    }
    read = mine;
}

inline void remember_write(Cell& cell, Epoch mine, bool compares)
{
    Epoch& write = cell.write;
    const bool alone = !(write.flags & (by_lanes | by_warps));
    const bool again = write.interval == mine.interval && write.thread == mine.thread && alone;
    if (mine.flags & is_atomic) {
        if (again && write.clock == mine.clock && !(write.flags & is_atomic))
            return; // to others it is still the plain write that it was
        // A plain read that a compare-and-swap follows is no more than a guess, which that proves.
        if (compares && cell.read.interval == mine.interval && cell.read.thread == mine.thread
            && !(cell.read.flags & (by_lanes | by_warps)))
            cell.read.interval = 0;
        if (!again && write.interval == mine.interval && write.flags & is_atomic && write.bytes == mine.bytes
            && join(write, mine)) {
            write.flags |= mine.flags & of_block;
            return;
        }
    } else {
        if (again && write.clock == mine.clock && !(write.flags & is_atomic)) {
            mine.bytes |= write.bytes;
            mine.flags &= write.flags;
        }
        if (!(cell.read.bytes & ~mine.bytes))
            cell.read.interval = 0; // who is ordered after this write is ordered after those reads
    }
    write = mine;
}

// Whether the write of a cell is one that any read of now is ordered after, seen at a glance.
ALWAYS_INLINE bool is_written_before(const Epoch& write)
{
    return write.interval < ordering.launch_start || write.flags & is_read
        || (write.interval < ordering.interval && write.interval >= ordering.block_start);
}

// An access of `bytes` of a cell that changes nothing of what it remembers, and that nothing has to be asked for.
ALWAYS_INLINE bool is_repeated(const Cell& cell, const Access& access, uint8_t bytes, unsigned me, uint32_t clock)
{
    const Epoch& before = access.write ? cell.write : cell.read;
    if (before.interval != ordering.interval || bytes & ~before.bytes || access.is_atomic())
        return false;
    const uint8_t flags = before.flags & ~(before.flags & (is_volatile | is_atomic) ? by_earlier : uint8_t(by_earlier | is_tested));
    if (!access.write && flags == by_warps && !ordering.fine && bytes == before.bytes)
        return is_written_before(cell.write);
    return before.thread == me && before.clock == clock && flags == (access.kind == Kind::is_volatile ? is_volatile : 0);
}

// `region`: of shared memory, or null.
__attribute__((noinline)) inline void touch_afresh(Cell& cell, uint8_t bytes, const Access& access, const SharedRegion* region)
{
    const bool wrote = !(cell.write.flags & is_read);
    if (cell.write.bytes & bytes && (wrote || access.write) && !is_ordered(cell.write) && !may_meet(cell.write, access))
        found_race(cell.write, wrote, access, region);
    if (access.write && cell.read.bytes & bytes) {
        if (!is_ordered(cell.read)) {
            if (!may_meet(cell.read, access))
                found_race(cell.read, false, access, region);
        } else if (cell.read.flags & by_earlier && cell.read.interval >= ordering.launch_start && !ordering.acquired) {
            Epoch lost = cell.read; // the earlier block's own is overwritten
            lost.interval = 0, lost.flags = 0;
            found_race(lost, false, access, region);
        }
    }
    const uint8_t flags = access.is_atomic() ? uint8_t(is_atomic | (checker.of_block ? of_block : 0)) : access.kind == Kind::is_volatile ? checker.volatile_flags
        : access.write && checker.reads[running.thread].reader(access.address) ? is_tested
                                                                              : 0;
    const unsigned me = running.thread;
    const Epoch mine {ordering.interval, own_clock(me), uint32_t(access.pc - checker.text), uint16_t(me), bytes, flags};
    if (access.write) {
        ordering.fenced[me] = 0;
        remember_write(cell, mine, access.kind == Kind::compare);
    } else {
        remember_read(cell, mine);
    }
}

// The most frequent of the others, done here for speed: false where it takes more.
ALWAYS_INLINE bool read_simply(Cell& cell, const Access& access, uint8_t bytes, unsigned me, uint32_t clock)
{
    if (access.write || access.kind != Kind::plain || !is_written_before(cell.write))
        return false;
    Epoch& before = cell.read;
    const Epoch mine {ordering.interval, clock, uint32_t(access.pc - checker.text), uint16_t(me), bytes, 0};
    if (before.interval == mine.interval)
        return before.bytes == bytes && before.thread != me && !(before.flags & is_volatile) && join(before, mine);
    const bool of_this_block = before.interval >= ordering.block_start && !(before.flags & by_earlier);
    if (!of_this_block && before.interval >= ordering.launch_start)
        return false;
    before = mine;
    if (bytes == all_written && ordering.present.is_dense)
        set(before, ordering.present.read, mine.site | dense, ordering.present.lane);
    return true;
}

ALWAYS_INLINE void touch(Cell& cell, uint8_t bytes, const Access& access, const SharedRegion* region)
{
    const unsigned me = running.thread;
    const uint32_t clock = own_clock(me);
    if (!is_repeated(cell, access, bytes, me, clock) && !read_simply(cell, access, bytes, me, clock))
        touch_afresh(cell, bytes, access, region);
}

} // namespace softcuda
