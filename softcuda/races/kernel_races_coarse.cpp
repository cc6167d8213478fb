// Races in that part of global memory for which there are no cells of 32 bytes: 4 bytes for each 4 bytes.
//
//   bits 31..18  interval of the last access: a number that grows at each barrier and each block
//   bits 17..8   thread of that access
//   bit 7        it wrote        bit 6  several threads read in that interval
//   bit 5        it was atomic   bit 4  an earlier block of this launch wrote here
//   bits 7, 6, 5 together: it changed the word atomically, and read it as an ordinary variable too
//   bits 3..0    which of the 4 bytes have been written at all (kept here for all of global memory)
// Not enough for every order: lanes that have met since the last barrier count as ordered ever after, and so do blocks
// once any has released something. Parts of a word are not searched for races.
#include <algorithm>

#include "checker.h"

namespace softcuda {
namespace {

constexpr uint32_t wrote = 1u << 7, several = 1u << 6, atomic_access = 1u << 5, by_earlier_block = 1u << 4;
constexpr uint32_t last_interval = (1u << 14) - 1;

struct Coarse {
    uint32_t interval = 1, block_start = 1, launch_start = 1;
    bool used = false; // since the intervals began
    bool earlier_blocks_marked = false; // some cell has by_earlier_block set
};
Coarse coarse;

// Intervals have 14 bits: before they begin again, what the cells remember of them is cleared.
void forget_intervals(bool in_launch)
{
    for (size_t i = 0; i < allocation_count() && (coarse.used || coarse.earlier_blocks_marked); ++i) {
        const Allocation& array = allocation_number(i);
        if (!array.live)
            continue;
        uint32_t* cell = arena.shadow + ((array.base - arena.first) >> 2);
        for (uint32_t* end = cell + (array.size + 3) / 4; cell != end; ++cell) {
            const uint32_t then = *cell >> 18;
            const bool earlier = in_launch && *cell & wrote && !(*cell & atomic_access)
                && then >= coarse.launch_start && then < coarse.block_start;
            const uint32_t keep = in_launch ? *cell & by_earlier_block : 0;
            *cell = (*cell & all_written) | (earlier ? by_earlier_block : keep);
        }
    }
    coarse.earlier_blocks_marked = in_launch && coarse.used;
    coarse.interval = coarse.block_start = coarse.launch_start = 1;
    coarse.used = coarse.earlier_blocks_marked;
}

bool has_met(unsigned other) // in this interval, at some time
{
    const unsigned me = running.thread;
    return other == me || (other / warp_size == me / warp_size && ordering.lanes[me][other % warp_size] > 0);
}

void block_race(uint32_t c, const Access& access)
{
    if (!ordering.released)
        found_race({0, 0, 0, 0, all_written, uint8_t(c & atomic_access ? is_atomic : 0)}, true, access, nullptr);
}

} // namespace

CoarseTouch coarse_touch(uint32_t cell)
{
    const uint32_t then = cell >> 18;
    const bool any = coarse.used && then >= coarse.launch_start && then <= coarse.interval;
    const bool earlier = cell & by_earlier_block; // that was forgotten with the launch before
    return {any || earlier, (any && cell & wrote) || earlier, any && cell & atomic_access && !(cell & several) && !earlier};
}

void coarse_begin_launch()
{
    if (coarse.earlier_blocks_marked)
        forget_intervals(false);
    coarse_next_interval();
    coarse.launch_start = coarse.interval;
}

void coarse_begin_block() { coarse.block_start = coarse.interval; }

void coarse_next_interval()
{
    if (++coarse.interval > last_interval)
        forget_intervals(checker.active);
}

void touch_coarse(uint32_t& cell, uint32_t bytes, const Access& access)
{
    const uint32_t c = cell, tag = coarse.interval << 10 | running.thread;
    const bool write = access.write, atomic = access.is_atomic();
    coarse.used = true;
    if (bytes != all_written) {
        cell = c | (write ? bytes : 0);
        return;
    }
    if (c >> 8 == tag && !(c & (several | atomic_access)) && (!write || c & wrote) && !atomic) { // what it did before
        cell = c | (write ? all_written : 0);
        return;
    }
    if (c >> 8 == tag && c & atomic_access && !write) {
        cell = c | several;
        return;
    }
    const uint32_t then = c >> 18;
    const bool by_block = then >= coarse.launch_start && then < coarse.block_start && c & wrote;
    uint32_t keep = c & by_earlier_block;
    if (then == coarse.interval) {
        const unsigned other = c >> 8 & 1023;
        const bool others = c >> 8 != tag || (c & several && !(c & wrote));
        const bool both_atomic = atomic && c & atomic_access && !(c & several);
        if (others && (write || c & wrote) && !both_atomic && !has_met(other) && !ordering.acquired) {
            const uint8_t flags = c & atomic_access && !(c & several) ? is_atomic : 0;
            const Epoch earlier {ordering.interval, 0, 0, uint16_t(other), all_written, flags};
            found_race(earlier, c & wrote, access, nullptr);
        }
        if (others && !write && !(c & wrote)) {
            cell = c | several;
            return;
        }
    } else if (by_block) {
        if (!(access.kind != Kind::plain && c & atomic_access))
            block_race(c, access);
        if (!(c & atomic_access)) {
            keep = by_earlier_block;
            coarse.earlier_blocks_marked = true;
        }
    }
    if (keep)
        block_race(c & ~atomic_access, access);
    cell = tag << 8 | (write ? wrote | all_written : c & all_written) | (atomic ? atomic_access : 0) | keep;
}

} // namespace softcuda
