// Flags by which threads of one block hand data on, with no barrier and no atomic operation: one writes the data, then a
// fence, then a volatile flag, which the other reads as volatile until it is set. A sum in a tree of volatile words looks
// alike, whose lanes have forgotten __syncwarp. The difference is how the words are read: who waits for a flag reads it
// until it changes, and does not go on to write what others read before it has a fence of its own.
#include <algorithm>

#include "checker.h"
#include "device/executor.h"

namespace softcuda {

namespace {

std::vector<Guess>& taken = *new std::vector<Guess>; // reads of a flag that was set, by threads that had not waited

bool waits_for(unsigned thread, uintptr_t address)
{
    const uintptr_t* polled = turns.threads[thread].polled;
    return std::find(polled, polled + 4, address) != polled + 4;
}

bool all_others_wait_for(const Epoch& readers, uintptr_t address)
{
    if (!(readers.flags & (by_lanes | by_warps)))
        return waits_for(readers.thread, address);
    const auto is_fine = [&](unsigned thread) { return thread == running.thread || waits_for(thread, address); };
    const Several& all = ordering.several[readers.clock];
    for (unsigned lane = 0; lane < warp_size; ++lane)
        if (all.lanes >> lane & 1u && !is_fine(readers.thread / warp_size * warp_size + lane))
            return false;
    return !(readers.flags & by_warps) || is_fine(all.other); // of further warps it is not kept who it was
}

} // namespace

void forget_flags() { taken.clear(); }

void flags_after_fence()
{
    const unsigned me = running.thread;
    ordering.fenced[me] = ordering.interval;
    taken.erase(std::remove_if(taken.begin(), taken.end(), [&](const Guess& read) { return read.thread == me; }), taken.end());
}

bool is_flag_write()
{
    const unsigned me = running.thread;
    for (size_t i = 0; i < taken.size(); ++i)
        if (taken[i].thread == me) {
            const Guess race = taken[i];
            taken.erase(taken.begin() + long(i--));
            data_race(race.earlier, true, race.access, race.region);
        }
    return ordering.fenced[me] == ordering.interval;
}

bool is_flag(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region)
{
    if (access.kind != Kind::is_volatile || earlier.interval < ordering.block_start)
        return false;
    if (!wrote)
        return access.write && checker.volatile_flags & hands_on && earlier.flags & is_volatile && all_others_wait_for(earlier, access.address);
    if (access.write || !(earlier.flags & is_volatile && earlier.flags & hands_on) || earlier.flags & (by_lanes | by_warps))
        return false;
    if (!waits_for(running.thread, access.address) && taken.size() < max_threads)
        taken.push_back({earlier, access, running.thread, region});
    return true;
}

} // namespace softcuda
