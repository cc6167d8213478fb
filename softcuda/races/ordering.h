// Which accesses of a launch are ordered by what its threads do (happened-before), and which are not.
//
// Threads of a block are ordered by __syncthreads, lanes of a warp also by warp functions, for the lanes that a mask
// names. Beyond that a thread is ordered by a fence and an atomic operation: it releases what lies before its fence
// when it changes a word atomically (or by a volatile write), and whoever changes that word later (or reads it as
// volatile) acquires it. So blocks are ordered, and warps between two barriers.
#pragma once

#include <cstring>

#include "device/internal.h"

namespace softcuda {

// What one cell remembers of one access, or of several of one kind. 16 bytes.
struct Epoch {
    uint32_t interval; // in which it was: a number that grows at each barrier and each block
    uint32_t clock;    // of the thread's lane then; of several threads: their place in `several`
    uint32_t site;     // instruction, from the start of the image's text
    uint16_t thread;   // of several threads: the first
    uint8_t bytes;     // which of the 4 were touched
    uint8_t flags;
};
// Plain reads of all 4 bytes, by lanes of one warp at one clock and one site, are an Epoch of another kind: then `site` has
// this bit, `clock` is of_lanes(), and in the place of thread, bytes and flags are the lanes.
constexpr uint32_t dense = 1u << 31;
constexpr unsigned dense_clock_bits = 27;
constexpr uint32_t of_lanes(unsigned warp, uint32_t clock) { return warp << dense_clock_bits | clock; }

constexpr uint8_t by_lanes = 1;    // several lanes of one warp
constexpr uint8_t by_warps = 2;    // threads of several warps
constexpr uint8_t by_earlier = 4;  // an earlier block too, which nothing had ordered before
constexpr uint8_t is_atomic = 8;
constexpr uint8_t is_volatile = 16;
constexpr uint8_t is_read = 32;    // in the place of a write that never was: an earlier block's read
constexpr uint8_t hands_on = 64;   // a volatile write, with no other since a fence of its thread
constexpr uint8_t is_tested = 64;  // of a plain write: its thread had just read the word
constexpr uint8_t of_block = 64;   // beside is_atomic: an operation of the block's scope

// Those of `by_lanes` and `by_warps`, in one interval. Nearly always lanes do the same at the same clock.
struct Several {
    uint32_t lanes; // of the first one's warp
    uint32_t clock; // of all of them, at the epoch's site
    uint32_t apart; // or else 1 + where each has its own
    uint32_t other_site;
    uint32_t other; // a thread of another warp
    uint32_t wide;  // or 1 + where each warp has its own
};
// Of each warp: lanes that did it since, the clock that all of them had reached, and where one was.
struct Wide {
    uint32_t lanes[max_threads / warp_size], clock[max_threads / warp_size], site[max_threads / warp_size];
};
struct Apart {
    uint32_t clock[warp_size], site[warp_size];
};
constexpr uint32_t max_several = 1u << 18, max_apart = 1u << 14, max_wide = 1u << 15;

// What is missing between two blocks: a fence behind the atomic operation that tells of the other one, or its scope.
enum class Lacks { all, fence, scope };

// What the accesses of the present thread are compared with, and become.
struct Present {
    uint64_t read, write; // the first 8 bytes of an Epoch: of a dense one, and of another one
    uint32_t lane, whole; // the last 4: a bit for the lane; the thread, all bytes and no flags
    uint32_t by_warps; // the interval in which words that several warps have read need not remember more
    bool is_dense; // the clock has room in a dense one
};

struct Ordering {
    uint32_t interval = 1, block_start = 1, launch_start = 1;
    Present present {};
    bool released = false; // some thread of this launch has handed something on
    // What a lane knows of the lanes of its warp: accesses up to that clock came before. Its own clock is its own.
    uint32_t lanes[max_threads][warp_size];
    uint32_t fenced[max_threads]; // the interval of a thread's last fence, until its next write
    bool met[max_threads / warp_size]; // some of that warp's rows are not as a barrier leaves them
    Several* several = nullptr;
    Apart* apart = nullptr;
    Wide* wide = nullptr;
    uint32_t several_used = 0, apart_used = 0, wide_used = 0;
    bool fine = false; // there are mbarriers, which order some threads: so of several warps it is kept who did what
    bool acquired = false; // a thread of this block has acquired something
    Lacks lacks = Lacks::all; // by which what was asked for last is not ordered
};
extern Ordering ordering;

inline uint32_t own_clock(unsigned thread) { return ordering.lanes[thread][thread % warp_size]; }

// To be called when the thread, its clock or the interval has changed.
inline void note_present()
{
    const unsigned me = running.thread;
    const uint32_t clock = own_clock(me);
    const auto first_half = [](uint32_t second) { return ordering.interval | uint64_t(second) << 32; };
    ordering.present = {first_half(of_lanes(me / warp_size, clock)), first_half(clock), 1u << me % warp_size,
        me | 0xfu << 16, ordering.fine ? ~0u : ordering.interval, clock >> dense_clock_bits == 0};
}

inline uint64_t first_half(const Epoch& epoch)
{
    uint64_t bytes;
    memcpy(&bytes, &epoch, sizeof bytes);
    return bytes;
}

inline uint32_t last_quarter(const Epoch& epoch)
{
    uint32_t bytes;
    memcpy(&bytes, &epoch.thread, sizeof bytes);
    return bytes;
}

inline void set(Epoch& epoch, uint64_t first, uint32_t site, uint32_t last)
{
    memcpy(&epoch, &first, sizeof first);
    epoch.site = site;
    memcpy(&epoch.thread, &last, sizeof last);
}

// The same as an Epoch of the other kind. `list`: the place of its lanes in `several`, where they are still asked for.
inline __attribute__((always_inline)) Epoch not_dense(const Epoch& epoch, uint32_t list = 0)
{
    if (!(epoch.site & dense))
        return epoch;
    const uint32_t lanes = last_quarter(epoch), clock = epoch.clock & ((1u << dense_clock_bits) - 1);
    const bool alone = !(lanes & (lanes - 1));
    const unsigned thread = (epoch.clock >> dense_clock_bits) * warp_size + unsigned(__builtin_ctz(lanes));
    return {epoch.interval, alone ? clock : list, epoch.site & ~dense, uint16_t(thread), 0xf, uint8_t(alone ? 0 : by_lanes)};
}

// Who it was of several, that the present thread is not ordered after.
struct Place {
    unsigned thread;
    uint32_t site;
};

// mbarrier_order.cpp: `culprit`, where given: who it was of several warps.
bool ordered_by_mbarriers(const Epoch& earlier, Place* culprit = nullptr);
void mbarrier_lanes_met(unsigned warp, unsigned mask);

bool ordered_in_interval(const Epoch& earlier);    // of another thread, since the last barrier
bool ordered_between_blocks(const Epoch& earlier); // of an earlier block of this launch
inline bool is_ordered(const Epoch& earlier)
{
    if (earlier.interval < ordering.launch_start)
        return true;
    if (earlier.interval < ordering.block_start)
        return ordered_between_blocks(earlier);
    if (earlier.interval < ordering.interval)
        return true;
    return (!(earlier.flags & (by_lanes | by_warps)) && earlier.thread == running.thread) || ordered_in_interval(earlier);
}

inline uint32_t clock_of(const Several& all, unsigned lane)
{
    return all.apart ? ordering.apart[all.apart - 1].clock[lane] : all.clock;
}

Place unordered_one(const Epoch& earlier);
bool ordinal_of(uint32_t interval, uint64_t& ordinal); // of the block whose interval it was; false where that is lost

void flags_after_fence(); // flags.cpp
void ordering_begin_launch();
void ordering_begin_block();
void ordering_next_interval();
void ordering_blocks_take_turns();
enum class Scope { shared, block, device };
// `relaxed`: what it acquires takes a fence behind it.
void release_and_acquire(uintptr_t word, Scope scope, bool releases, bool acquires, bool relaxed);
bool both_use_atomics(uint32_t interval); // the block whose interval it was, and the present one

} // namespace softcuda
