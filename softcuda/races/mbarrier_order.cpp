// What arrivals at mbarriers and waits for them order, between two barriers of the block.
//
// Each thread knows of every other one up to which of its clocks it is ordered after it. A thread that arrives leaves at
// the barrier what it knows, and one that has waited takes what those left who arrived in the phase that has ended.
#include <algorithm>
#include <unordered_map>

#include "device/executor.h"
#include "device/mbarriers.h"

namespace softcuda {

namespace {

using Clocks = std::vector<uint32_t>; // of each thread of the block
struct Left {
    Clocks arriving, ended; // in the phase of now, and in those that have ended
};

struct Order {
    uint32_t interval = 0; // of all of it
    std::unordered_map<uintptr_t, Left> left;
    std::unordered_map<unsigned, Clocks> known;
};
Order order;

Order& of_now()
{
    if (order.interval != ordering.interval) {
        order.left.clear();
        order.known.clear();
        order.interval = ordering.interval;
    }
    return order;
}

void join(Clocks& clocks, const Clocks& others)
{
    clocks.resize(turns.count);
    for (size_t i = 0; i < others.size(); ++i)
        clocks[i] = std::max(clocks[i], others[i]);
}

uint32_t known_of(const Clocks* known, unsigned thread)
{
    const unsigned me = running.thread;
    if (thread == me)
        return ~0u;
    const uint32_t by_barriers = known ? (*known)[thread] : 0;
    return thread / warp_size == me / warp_size ? std::max(by_barriers, ordering.lanes[me][thread % warp_size]) : by_barriers;
}

// The first of these lanes that the present thread is not ordered after; no lane where there is none.
template <class ClockOf> unsigned first_unordered(const Clocks* known, unsigned warp, uint32_t lanes, ClockOf clock)
{
    for (; lanes; lanes &= lanes - 1) {
        const unsigned lane = unsigned(__builtin_ctz(lanes));
        if (known_of(known, warp * warp_size + lane) < clock(lane))
            return lane;
    }
    return warp_size;
}

} // namespace

void order_begins()
{
    ordering.fine = checker_is_active();
    note_present();
}

void forget_mbarrier_order()
{
    ordering.fine = false;
    order.interval = 0;
    note_present();
}

void order_arrival(uintptr_t barrier)
{
    if (!ordering.fine)
        return;
    const unsigned me = running.thread, lane = me % warp_size;
    Order& now = of_now();
    Clocks& arriving = now.left[barrier].arriving;
    arriving.resize(turns.count);
    if (const auto mine = now.known.find(me); mine != now.known.end())
        join(arriving, mine->second);
    for (unsigned other = 0; other < warp_size && me - lane + other < turns.count; ++other)
        arriving[me - lane + other] = std::max(arriving[me - lane + other], ordering.lanes[me][other]);
    ++ordering.lanes[me][lane]; // what comes after it is not covered by it
    ordering.met[me / warp_size] = true;
    note_present();
}

void order_phase_end(uintptr_t barrier)
{
    if (!ordering.fine)
        return;
    Left& left = of_now().left[barrier];
    join(left.ended, left.arriving);
    left.arriving.clear();
}

void order_wait(uintptr_t barrier)
{
    if (ordering.fine)
        join(of_now().known[running.thread], of_now().left[barrier].ended);
}

void mbarrier_lanes_met(unsigned warp, unsigned mask)
{
    Order& now = of_now();
    if (now.known.empty())
        return;
    Clocks all;
    for (unsigned lane = 0; lane < warp_size; ++lane)
        if (const auto one = now.known.find(warp * warp_size + lane); mask >> lane & 1u && one != now.known.end())
            join(all, one->second);
    for (unsigned lane = 0; lane < warp_size && !all.empty(); ++lane)
        if (mask >> lane & 1u)
            now.known[warp * warp_size + lane] = all;
}

bool ordered_by_mbarriers(const Epoch& earlier, Place* culprit)
{
    const auto found = of_now().known.find(running.thread);
    const Clocks* known = found == order.known.end() ? nullptr : &found->second;
    const unsigned warp = earlier.thread / warp_size;
    if (!(earlier.flags & (by_lanes | by_warps)))
        return known_of(known, earlier.thread) >= earlier.clock;
    const Several& all = ordering.several[earlier.clock];
    if (earlier.flags & by_lanes)
        return first_unordered(known, warp, all.lanes, [&](unsigned lane) { return clock_of(all, lane); }) == warp_size;
    if (!all.wide)
        return known; // who they are is forgotten
    const Wide& wide = ordering.wide[all.wide - 1];
    for (unsigned each = 0; each < max_threads / warp_size; ++each) {
        const unsigned lane = first_unordered(known, each, wide.lanes[each], [&](unsigned) { return wide.clock[each]; });
        if (lane != warp_size) {
            if (culprit)
                *culprit = {each * warp_size + lane, wide.site[each]};
            return false;
        }
    }
    return true;
}

} // namespace softcuda
