// Barriers in shared memory (mbarrier) and the block's numbered ones (barrier.sync 1, 64): counts of arrivals and of
// bytes, phases, and threads that wait for a phase to end.
//
// All of a barrier's state is in its 8 bytes, as on a GPU. What a thread did before it arrived is ordered before what
// a thread does after it has waited for that phase: mbarrier_order.cpp. A numbered barrier is one whose count is set by
// the first that comes.
#include "mbarriers.h"

#include <algorithm>
#include <array>

#include "executor.h"
#include "races/ordering.h"

namespace softcuda {

namespace {

constexpr unsigned marked = 2, max_fruitless = 10000;

struct Word {
    uint64_t pending : 20, expected : 20;
    int64_t bytes : 21;
    uint64_t phase : 1, mark : 2; // `marked`: it has been initialised
};
static_assert(sizeof(Word) == 8);

struct Waiter {
    unsigned thread;
    uintptr_t barrier;
    unsigned parity;
    bool polls; // it goes on when nobody else can, with the answer no
};
std::vector<Waiter> waiters;
unsigned fruitless = 0; // times that those who poll got no for an answer, and nothing has happened since

std::array<Word, 16> numbered;

Word& word_at(uintptr_t barrier) { return *reinterpret_cast<Word*>(barrier); }

std::string name_barrier(uintptr_t barrier)
{
    const Word* const word = &word_at(barrier);
    if (word >= numbered.data() && word < numbered.data() + numbered.size())
        return "barrier " + std::to_string(word - numbered.data());
    return "the mbarrier at " + name_shared(barrier);
}

[[noreturn]] void barrier_error(uintptr_t site, const std::string& what)
{
    fault(launch_failed, "barrier error " + in_kernel() + "\n  " + where(site) + ": " + who(running.thread) + what);
}

// The barrier, which has been initialised.
Word& used(uintptr_t barrier, bool write, uintptr_t site)
{
    if (barrier % 8)
        fault(misaligned_address, "misaligned access " + in_kernel() + "\n  " + where(site) + ": " + who(running.thread)
                + " uses an mbarrier at an address that is no multiple of 8");
    order_begins(); // a block that rested at the barrier of the grid has initialised it before
    check_atomic(barrier, 8, write, site);
    Word& word = word_at(barrier);
    if (word.mark != marked)
        barrier_error(site, " uses " + name_barrier(barrier) + ", which is not initialised");
    return word;
}

void go_on(unsigned thread)
{
    turns.threads[thread].state = State::ready;
    turns.order.push_back(thread);
}

// Ends the phase when all have arrived but copies that come as late as they may; those come now.
void end_phase_if_complete(uintptr_t barrier)
{
    Word& word = word_at(barrier);
    fruitless = 0;
    if (word.bytes || word.pending != tied_arrivals(barrier))
        return;
    land_tied(barrier);
    word.phase ^= 1;
    word.pending = word.expected;
    order_phase_end(barrier);
    const auto rest = std::stable_partition(waiters.begin(), waiters.end(),
        [&](const Waiter& waiter) { return waiter.barrier != barrier || waiter.parity == word.phase; });
    std::for_each(rest, waiters.end(), [](const Waiter& waiter) { go_on(waiter.thread); });
    waiters.erase(rest, waiters.end());
    for (unsigned thread = 0; thread < turns.count; ++thread)
        arrive_where_all_came(thread);
}

void wait_for_phase(const Waiter& waiter, uintptr_t site)
{
    stop_if_time_is_over(site);
    waiters.push_back(waiter);
    turns.threads[running.thread].state = State::at_mbarrier;
    turns.threads[running.thread].site = site;
    wait_for_turn();
}

[[noreturn]] void phase_does_not_end()
{
    // One where some have arrived tells more than one where nobody has, which may only wait for the other.
    const auto some = std::find_if(waiters.begin(), waiters.end(),
        [](const Waiter& waiter) { return word_at(waiter.barrier).pending != word_at(waiter.barrier).expected; });
    const Waiter& first = some == waiters.end() ? waiters.front() : *some;
    const Word word = word_at(first.barrier);
    const Thread& thread = turns.threads[first.thread];
    std::string missing = std::to_string(word.pending) + " of " + std::to_string(word.expected) + " arrivals are";
    if (word.bytes)
        missing = (word.pending ? missing + " missing and " : "") + std::to_string(word.bytes) + " bytes are";
    unsigned ended = 0;
    for (unsigned i = 0; i < turns.count; ++i)
        ended += turns.threads[i].state == State::ended;
    fault(launch_failed,
        "barrier error " + in_kernel() + "\n  " + where(thread.site) + ": " + who(first.thread) + " waits for "
            + name_barrier(first.barrier) + ", where " + missing + " missing that never come: "
            + (ended ? std::to_string(ended) + " threads of the block have ended, and all others wait" : "all threads of the block wait"));
}

} // namespace

void forget_mbarriers()
{
    waiters.clear();
    fruitless = 0;
    numbered = {};
    forget_mbarrier_order();
}

bool answer_those_who_poll()
{
    if (waiters.empty())
        return false;
    const auto polls = std::stable_partition(waiters.begin(), waiters.end(), [](const Waiter& waiter) { return !waiter.polls; });
    if (polls == waiters.end() || ++fruitless == max_fruitless)
        phase_does_not_end();
    turns.order.clear();
    turns.position = 0;
    std::for_each(polls, waiters.end(), [](const Waiter& waiter) { go_on(waiter.thread); });
    waiters.erase(polls, waiters.end());
    return true;
}

void arrive_for_copies(uintptr_t barrier, unsigned thread, bool later)
{
    const unsigned present = running.thread;
    running.thread = thread;
    if (later)
        order_arrival(barrier);
    running.thread = present;
    note_present();
    Word& word = word_at(barrier);
    if (word.mark == marked && word.pending)
        --word.pending;
}

void copies_have_come(uintptr_t barrier) { end_phase_if_complete(barrier); }

} // namespace softcuda

using namespace softcuda;
#define HERE reinterpret_cast<uintptr_t>(__builtin_return_address(0))

extern "C" {
EXPORT void softcuda_mbarrier_init(void* barrier, unsigned count)
{
    if (uintptr_t(barrier) % 8)
        fault(misaligned_address, "misaligned access " + in_kernel() + "\n  " + where(HERE) + ": " + who(running.thread)
                + " initialises an mbarrier at an address that is no multiple of 8");
    if (!count || count >= 1u << 20)
        barrier_error(HERE, " initialises an mbarrier for " + std::to_string(count) + " arrivals; it takes 1 to 1,048,575");
    check_access(uintptr_t(barrier), 8, true, HERE);
    order_begins();
    word_at(uintptr_t(barrier)) = {count, count, 0, 0, marked};
}

EXPORT void softcuda_mbarrier_invalidate(void* barrier)
{
    used(uintptr_t(barrier), true, HERE);
    check_access(uintptr_t(barrier), 8, true, HERE);
    word_at(uintptr_t(barrier)) = {};
}

// Arrives so many times, after it expects so many bytes more; `drops`: later phases expect these arrivals no more.
// Returns the state from before, of which a wait needs the phase.
EXPORT uint64_t softcuda_mbarrier_arrive(void* barrier, unsigned count, int drops, long bytes)
{
    Word& word = used(uintptr_t(barrier), true, HERE);
    const Word before = word;
    if (!count || count > word.pending)
        barrier_error(HERE, " arrives " + std::to_string(count) + " times at " + name_barrier(uintptr_t(barrier)) + ", whose phase takes "
                + std::to_string(word.pending) + " more of " + std::to_string(word.expected));
    word.bytes += bytes;
    word.pending -= count;
    if (drops)
        word.expected -= count;
    order_arrival(uintptr_t(barrier));
    end_phase_if_complete(uintptr_t(barrier));
    uint64_t state;
    __builtin_memcpy(&state, &before, sizeof state);
    return state;
}

EXPORT void softcuda_mbarrier_expect(void* barrier, long bytes) // or, where negative: they have come
{
    used(uintptr_t(barrier), true, HERE).bytes += bytes;
    if (bytes < 0)
        end_phase_if_complete(uintptr_t(barrier));
}

EXPORT unsigned softcuda_mbarrier_pending(uint64_t state)
{
    Word word;
    __builtin_memcpy(&word, &state, sizeof word);
    return unsigned(word.pending);
}

// Whether the phase of this parity has ended, once that is so; where `polls`, or once nobody else can go on.
EXPORT int softcuda_mbarrier_wait(void* barrier, unsigned parity, int polls)
{
    parity &= 1;
    if (used(uintptr_t(barrier), false, HERE).phase == parity)
        wait_for_phase({running.thread, uintptr_t(barrier), parity, polls != 0}, HERE);
    if (word_at(uintptr_t(barrier)).phase == parity)
        return 0;
    order_wait(uintptr_t(barrier));
    return 1;
}

EXPORT unsigned softcuda_mbarrier_phase(uint64_t state)
{
    Word word;
    __builtin_memcpy(&word, &state, sizeof word);
    return unsigned(word.phase);
}

// Arrives at one of the block's sixteen barriers, for so many threads (0: all of the block), and waits for them.
EXPORT void softcuda_numbered_barrier(unsigned number, unsigned threads, int waits)
{
    if (number >= numbered.size())
        barrier_error(HERE, " is at barrier " + std::to_string(number) + "; a block has 0 to 15");
    if (threads % warp_size || threads > (turns.count + warp_size - 1) / warp_size * warp_size)
        barrier_error(HERE, " is at barrier " + std::to_string(number) + " for " + std::to_string(threads)
                + " threads; it takes whole warps, of the block's " + std::to_string(turns.count) + " threads at most");
    threads = threads ? threads : turns.count;
    Word& word = numbered[number];
    const auto barrier = uintptr_t(&word);
    order_begins();
    if (word.pending == word.expected)
        word = {threads, threads, 0, word.phase, marked};
    else if (word.expected != threads)
        barrier_error(HERE, " is at barrier " + std::to_string(number) + " for " + std::to_string(threads)
                + " threads, where others are for " + std::to_string(word.expected));
    const unsigned phase = word.phase;
    --word.pending;
    order_arrival(barrier);
    end_phase_if_complete(barrier);
    if (!waits)
        return;
    if (word.phase == phase)
        wait_for_phase({running.thread, barrier, phase, false}, HERE);
    order_wait(barrier);
}

// The barrier waits for the asynchronous copies that this thread has begun. `counted`: that is one of the arrivals which
// it expects; if not, it is one more.
EXPORT void softcuda_mbarrier_track_copies(void* barrier, int counted)
{
    Word& word = used(uintptr_t(barrier), true, HERE);
    if (!counted)
        ++word.pending;
    else if (tied_arrivals(uintptr_t(barrier)) >= word.pending)
        barrier_error(HERE, " has its copies arrive at " + name_barrier(uintptr_t(barrier)) + ", whose phase takes no more arrivals");
    tie_copies(uintptr_t(barrier), HERE);
    order_arrival(uintptr_t(barrier));
    arrive_where_all_came(running.thread);
    end_phase_if_complete(uintptr_t(barrier));
}
}
