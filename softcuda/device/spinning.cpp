// Threads that wait for another one's write: they read a word again and again, atomically or as volatile, and it stays
// the same. Such a thread lets the others of its block run. Where all that can run do so, the block rests, and others
// run. When every block that is there rests so, and no thread is in another state than when it last rested, it is a
// deadlock: what a thread knows lies on its stack, and nobody is left who could write.
#include <algorithm>
#include <cstring>

#include "executor.h"

namespace softcuda {
namespace {

constexpr unsigned enough = 256; // reads of what stays the same, after which others run
constexpr unsigned most_waits_told = 4;

struct Polled {
    uintptr_t address;
    uint64_t value;
    bool is_known; // once it is read a second time, so that it can be read at all
};

struct Spin { // of the thread that made the last such read
    unsigned thread = ~0u, count = 0, next = 0;
    Polled polled[4] {};
};
Spin spin;

uint64_t value_at(uintptr_t address, unsigned size)
{
    uint64_t value = 0;
    memcpy(&value, reinterpret_cast<const void*>(address), std::min(size, 8u));
    return value;
}

void rest_for_others(uintptr_t address, uintptr_t pc)
{
    Thread& thread = turns.threads[running.thread];
    thread.state = State::spinning;
    thread.site = pc;
    thread.polled[0] = address;
    for (unsigned i = 0, to = 1; i < 4; ++i)
        if (spin.polled[i].address != address && to < 4)
            thread.polled[to++] = spin.polled[i].address;
    turns.spinning.push_back(running.thread);
    wait_for_turn();
    spin.thread = ~0u;
}

} // namespace

void forget_spin() { spin.thread = ~0u; }

void polls(uintptr_t address, unsigned size, uintptr_t pc)
{
    if (spin.thread != running.thread) {
        spin = {};
        spin.thread = running.thread;
    }
    for (Polled& one : spin.polled) {
        if (one.address != address)
            continue;
        const uint64_t value = value_at(address, size);
        if (!one.is_known || one.value != value)
            one.value = value, one.is_known = true, spin.count = 0;
        else if (++spin.count == enough)
            rest_for_others(address, pc);
        return;
    }
    spin.polled[spin.next++ % 4] = {address, 0, false};
    spin.count = 0;
}

bool Turns::spinners_go_on()
{
    const bool all = spinning.size() == order.size(); // that ran
    order.swap(spinning);
    spinning.clear();
    position = 0;
    for (const unsigned number : order)
        threads[number].state = State::ready;
    stuck = all;
    return !all;
}

std::string waits_of(const std::vector<WaitingBlock>& blocks)
{
    std::vector<std::string> told;
    std::string text;
    for (const WaitingBlock& block : blocks)
        for (unsigned i = 0; i < block.turns.count && told.size() < most_waits_told; ++i) {
            const Thread& thread = block.turns.threads[i];
            const bool polls = std::count(block.turns.order.begin(), block.turns.order.end(), i);
            if (!polls && thread.state != State::at_barrier && thread.state != State::in_warp)
                continue;
            const std::string place = where(thread.site), key = place + std::to_string(polls ? thread.polled[0] : 0);
            if (std::count(told.begin(), told.end(), key))
                continue;
            told.push_back(key);
            text += "\n  " + place + ": " + who(i, block_that_ran(block.ordinal))
                + (polls                             ? " waits until " + name_of_place(thread.polled[0]) + " changes"
                        : thread.state == State::in_warp ? " waits in this warp function for other lanes"
                                                         : " waits at this barrier");
        }
    return text;
}

} // namespace softcuda
