// Barriers and warp functions: what a thread waits for, and what is wrong when that cannot come.
#include <algorithm>
#include <chrono>
#include <numeric>

#include "executor.h"
#include "mbarriers.h"

namespace softcuda {

bool has_undefined_lanes = false;

void Turns::begin_launch(const Dim& block)
{
    count = block.x * block.y * block.z;
    for (unsigned i = 0; i < count; ++i)
        threads[i].index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
}

void Turns::begin_block()
{
    alive = count;
    for (unsigned i = 0; i < count; ++i) {
        threads[i].fiber = nullptr;
        std::fill_n(threads[i].polled, 4, 0);
        threads[i].state = State::ready;
    }
    order.resize(count);
    std::iota(order.begin(), order.end(), 0u);
    next_order.clear();
    asking.clear();
    at_grid.clear();
    spinning.clear();
    resting = stuck = false;
    position = 0;
    for (auto& meeting : meetings)
        meeting.clear();
}

namespace {

std::string list(const std::vector<unsigned>& chosen)
{
    const Dim index = thread_index(chosen.front());
    std::string text = std::to_string(chosen.size()) + (chosen.size() == 1 ? " thread" : " threads");
    return text + " (first: (" + std::to_string(index.x) + ", " + std::to_string(index.y)
        + (running.launch->block.z > 1 ? ", " + std::to_string(index.z) : "") + "))";
}

std::vector<unsigned> those_in(State state)
{
    std::vector<unsigned> chosen;
    for (unsigned i = 0; i < turns.count; ++i)
        if (turns.threads[i].state == state)
            chosen.push_back(i);
    return chosen;
}

std::string lane_list(unsigned mask)
{
    std::string text;
    for (unsigned lane = 0; lane < warp_size; ++lane)
        if (mask >> lane & 1u)
            text += (text.empty() ? "" : ", ") + std::to_string(lane);
    return text;
}

// Lanes that wait for others, and every thread of the block has ended or waits itself.
void lanes_do_not_come()
{
    for (auto& warp : turns.meetings)
        for (const Meeting& meeting : warp)
            if (meeting.arrived != meeting.mask) {
                const unsigned warp_number = unsigned(&warp - turns.meetings);
                const unsigned missing = meeting.mask & ~meeting.arrived;
                const unsigned first = warp_number * warp_size + unsigned(__builtin_ctz(missing));
                const Thread& absent = turns.threads[first];
                fault(launch_failed,
                    "barrier error " + in_kernel() + "\n  " + where(meeting.site) + ": a warp function waits for lane(s) "
                        + lane_list(missing) + " of warp " + std::to_string(warp_number) + " in "
                        + who(first) + ", which its mask names and which never come: that thread waits at "
                        + where(absent.site));
            }
}

// A barrier is for the threads that have not exited (CUDA C++ Programming Guide, independent thread scheduling; PTX
// ISA, exit), so those that returned before it are not missed. Those that went around it are: its condition has to
// be the same for the whole block. Without checks nobody notes return statements.
void threads_do_not_come(const std::vector<unsigned>& waiting)
{
    std::vector<unsigned> ended = those_in(State::ended);
    const bool noted = running.launch->function->module->image->checked;
    ended.erase(std::remove_if(ended.begin(), ended.end(), [&](unsigned i) { return !noted || has_returned(i); }), ended.end());
    if (ended.empty())
        return;
    fault(launch_failed,
        "barrier error " + in_kernel() + "\n  " + where(turns.threads[waiting.front()].site)
            + ": __syncthreads is reached by " + list(waiting) + " of block ("
            + std::to_string(running.block_index.x) + ", " + std::to_string(running.block_index.y) + ", "
            + std::to_string(running.block_index.z) + "), and not by " + list(ended) + ", the first of which "
            + how_it_ended(ended.front()));
}

void threads_do_not_come_to_grid()
{
    if (turns.at_grid.empty())
        return;
    const std::vector<unsigned> ended = those_in(State::ended), waiting = those_in(State::at_barrier);
    const unsigned absent = ended.empty() ? waiting.front() : ended.front();
    fault(launch_failed,
        "barrier error " + in_kernel() + "\n  " + where(turns.threads[turns.at_grid.front()].site)
            + ": the barrier of the grid is reached by " + list(turns.at_grid) + ", and not by " + who(absent) + ", which "
            + (ended.empty() ? "waits at " + where(turns.threads[absent].site) : how_it_ended(absent)));
}

void threads_wait_elsewhere(const std::vector<unsigned>& waiting)
{
    // The compiler may have made two calls of one, so what counts is the line, and it is asked for late.
    const uintptr_t first = turns.threads[waiting.front()].site;
    for (const unsigned other : waiting) {
        const uintptr_t site = turns.threads[other].site;
        if (site != first && where(site) != where(first))
            fault(launch_failed,
                "barrier error " + in_kernel() + "\n  " + where(first) + ": " + who(waiting.front())
                    + " waits at this __syncthreads, and\n  " + where(site) + ": " + who(other) + " waits at that one");
    }
}

// Lanes in the same call of __activemask are active together, as on a GPU once the others went another way. All of
// them are there only when nobody can run any more.
void answer_activemask()
{
    // The compiler may have made two calls of one, so what counts is the line.
    const auto is_same_call = [](uintptr_t site, uintptr_t other) {
        return site == other || (!lines_of(site).empty() && lines_of(site) == lines_of(other));
    };
    for (const unsigned thread : turns.asking) {
        turns.threads[thread].active = 0;
        for (const unsigned other : turns.asking)
            if (other / warp_size == thread / warp_size && is_same_call(turns.threads[other].site, turns.threads[thread].site))
                turns.threads[thread].active |= 1u << other % warp_size;
        turns.threads[thread].state = State::ready;
    }
    turns.order.swap(turns.asking);
    turns.asking.clear();
    turns.position = 0;
}

} // namespace

bool Turns::advance()
{
    if (alive == 0) {
        checker_end_block();
        return false;
    }
    if (at_grid.size() == count) {
        checker_end_block();
        order.swap(at_grid);
        resting = true;
        return false;
    }
    stop_if_time_is_over(next_order.empty() ? 0 : threads[next_order.front()].site);
    if (!asking.empty()) {
        answer_activemask();
        return true;
    }
    if (answer_those_who_poll())
        return true;
    if (!spinning.empty())
        return spinners_go_on();
    if (next_order.size() != count) { // some have ended, or wait for lanes of their warp
        lanes_do_not_come();
        threads_do_not_come_to_grid();
        threads_do_not_come(those_in(State::at_barrier));
    }
    const uintptr_t site = threads[next_order.front()].site;
    bool one_site = true;
    reduced[0] = 0, reduced[1] = 1, reduced[2] = 0;
    for (const unsigned number : next_order) {
        Thread& thread = threads[number];
        one_site &= thread.site == site;
        reduced[0] += thread.predicate != 0;
        reduced[1] &= thread.predicate != 0;
        reduced[2] |= thread.predicate != 0;
        thread.state = State::ready;
    }
    if (!one_site && running.launch->function->module->image->checked)
        threads_wait_elsewhere(next_order);
    order.swap(next_order);
    next_order.clear();
    position = 0;
    checker_barrier();
    return true;
}

namespace {

void wait_at_barrier(uintptr_t site, int predicate)
{
    Thread& thread = turns.threads[running.thread];
    thread.state = State::at_barrier;
    thread.site = site;
    thread.predicate = predicate;
    turns.next_order.push_back(running.thread);
    wait_for_turn();
}

void check_mask(unsigned mask, uintptr_t site)
{
    const unsigned lane = running.thread % warp_size, first = running.thread - lane;
    if (mask >> lane & 1u && first + warp_size <= turns.count)
        return; // the warp is whole: nearly always
    std::string problem;
    if (!(mask >> lane & 1u))
        problem = "whose mask does not name its own lane " + std::to_string(lane);
    for (unsigned other = 0; other < warp_size && problem.empty(); ++other) {
        if (!(mask >> other & 1u))
            continue;
        if (first + other >= turns.count) {
            // A block's last warp may be short. CUDA's default mask names all 32 lanes, and that is not a fault.
            if (mask != 0xffffffffu)
                problem = "whose mask names lane " + std::to_string(other) + ", which the block does not have";
        }
    }
    if (!problem.empty())
        fault(launch_failed,
            "barrier error " + in_kernel() + "\n  " + where(site) + ": " + who(running.thread)
                + " calls a warp function " + problem);
}

constexpr int gathering = 9; // behind the kinds of warp_functions.h

unsigned long votes(const Meeting& meeting, unsigned lane)
{
    unsigned long all = 1, any = 0, ballot = 0, match = 0;
    for (unsigned i = 0; i < warp_size; ++i)
        if (meeting.mask >> i & 1u) {
            all &= meeting.values[i] != 0, any |= meeting.values[i] != 0;
            ballot |= (unsigned long)(meeting.values[i] != 0) << i;
            match |= (unsigned long)(meeting.values[i] == meeting.values[lane]) << i;
        }
    switch (meeting.kind) { // in the order of warp_functions.h
    case 1: return ballot;
    case 2: return any;
    case 3: return all;
    default: return match;
    }
}

// What a lane reads from one that its mask does not name, or that has ended, is undefined. Most code drops it; where it
// is used, it shows.
unsigned long from_outside(const Meeting& meeting, unsigned from)
{
    const unsigned thread = running.thread / warp_size * warp_size + from;
    const std::string whose = thread >= turns.count     ? "the block does not have"
        : meeting.named >> from & 1u ? how_it_ended(thread)
                                     : "the mask does not name";
    add_note(Note::cause, "shuffles  " + where(meeting.site) + ": " + who(running.thread) + " reads from lane " + std::to_string(from)
            + ", which " + whose + ": that value is undefined");
    has_undefined_lanes = true;
    return 0xfffefefefffefefe; // a NaN, and no index
}

unsigned long answer(const Meeting& meeting, unsigned lane, int source, int width)
{
    const int base = int(lane) & ~(width - 1), end = base + width - 1;
    int from = int(lane);
    switch (meeting.kind) { // in the order of warp_functions.h
    case 4: from = base + (source & (width - 1)); break;
    case 5: from = int(lane) - source >= base ? int(lane) - source : int(lane); break;
    case 6: from = int(lane) + source <= end ? int(lane) + source : int(lane); break;
    case 7: from = (int(lane) ^ source) <= end ? int(lane) ^ source : int(lane); break;
    case 1: case 2: case 3: case 8: return votes(meeting, lane);
    default: return 0; // __syncwarp
    }
    if (~meeting.mask & meeting.named & 1u << from) {
        const unsigned thread = running.thread - lane + unsigned(from);
        const std::string finding = "barrier error " + in_kernel() + "\n  " + where(meeting.site) + ": " + who(running.thread)
            + " calls a warp function that reads from lane " + std::to_string(from) + ", which " + how_it_ended(thread);
        if (!is_accepted(finding))
            fault(launch_failed, finding);
    }
    return meeting.mask >> from & 1u || !checker_is_active() ? meeting.values[from] : from_outside(meeting, unsigned(from));
}

unsigned ended_lanes(unsigned warp)
{
    unsigned ended = 0;
    for (unsigned lane = 0; turns.alive != turns.count && lane < warp_size && warp * warp_size + lane < turns.count; ++lane)
        ended |= unsigned(turns.threads[warp * warp_size + lane].state == State::ended) << lane;
    return ended;
}

void wake(const Meeting& meeting, unsigned warp, unsigned except)
{
    for (unsigned other = 0; other < warp_size; ++other)
        if (meeting.mask & ~except & 1u << other) {
            turns.threads[warp * warp_size + other].state = State::ready;
            turns.order.push_back(warp * warp_size + other);
        }
    checker_lanes_met(warp, meeting.mask);
}

// The meeting of the lanes that a mask names, once all of them have come.
__attribute__((noinline)) Meeting& meet(int kind, unsigned mask, unsigned long value, uintptr_t site)
{
    stop_if_time_is_over(site);
    check_mask(mask, site);
    const unsigned lane = running.thread % warp_size, warp = running.thread / warp_size;
    if (warp == (turns.count - 1) / warp_size && turns.count % warp_size)
        mask &= (1u << turns.count % warp_size) - 1;
    auto& meetings = turns.meetings[warp];
    auto found = std::find_if(meetings.begin(), meetings.end(), [&](const Meeting& m) {
        return m.named == mask && m.kind == kind && m.arrived != m.mask && !(m.arrived >> lane & 1u);
    });
    if (found == meetings.end())
        found = meetings.insert(meetings.end(), Meeting {mask, mask & ~ended_lanes(warp), 0, 0, kind, site, {}});
    found->arrived |= 1u << lane;
    found->values[lane] = value;
    if (found->arrived == found->mask) {
        wake(*found, warp, 1u << lane);
        return *found;
    }
    turns.threads[running.thread].state = State::in_warp;
    turns.threads[running.thread].site = site;
    wait_for_turn();
    return *std::find_if(meetings.begin(), meetings.end(), [&](const Meeting& m) {
        return m.named == mask && m.kind == kind && m.arrived == m.mask && !(m.left >> lane & 1u);
    });
}

inline __attribute__((always_inline)) void leave(Meeting& meeting)
{
    meeting.left |= 1u << running.thread % warp_size;
    auto& meetings = turns.meetings[running.thread / warp_size];
    if (meeting.left == meeting.mask)
        meetings.erase(meetings.begin() + (&meeting - meetings.data()));
}

} // namespace

unsigned wait_until_nobody_runs(uintptr_t site)
{
    Thread& thread = turns.threads[running.thread];
    thread.state = State::in_activemask;
    thread.site = site;
    turns.asking.push_back(running.thread);
    wait_for_turn();
    return thread.active;
}

void Turns::thread_has_ended(unsigned thread)
{
    threads[thread].state = State::ended;
    threads[thread].fiber = nullptr;
    --alive;
    const unsigned warp = thread / warp_size;
    for (Meeting& meeting : meetings[warp])
        if (meeting.arrived != meeting.mask && (meeting.mask & ~meeting.arrived) >> thread % warp_size & 1u) {
            meeting.mask &= ~(1u << thread % warp_size);
            if (meeting.arrived == meeting.mask)
                wake(meeting, warp, 0);
        }
}

} // namespace softcuda

using namespace softcuda;
#define CALLED_FROM reinterpret_cast<uintptr_t>(__builtin_return_address(0))

extern "C" EXPORT void softcuda_syncthreads() { wait_at_barrier(CALLED_FROM, 0); }

extern "C" EXPORT int softcuda_syncthreads_reduce(int kind, int predicate)
{
    wait_at_barrier(CALLED_FROM, predicate);
    return turns.reduced[kind];
}

extern "C" EXPORT unsigned long softcuda_warp(int kind, unsigned mask, unsigned long value, int source, int width)
{
    Meeting& meeting = meet(kind, mask, value, CALLED_FROM);
    const unsigned long result = answer(meeting, running.thread % warp_size, source, width);
    leave(meeting);
    return result;
}

extern "C" EXPORT Lanes softcuda_gather(unsigned mask, unsigned long value)
{
    Meeting& meeting = meet(gathering, mask, value, CALLED_FROM);
    Lanes all;
    std::copy_n(meeting.values, warp_size, all.values);
    all.mask = meeting.mask;
    leave(meeting);
    return all;
}

extern "C" EXPORT unsigned softcuda_activemask() { return wait_until_nobody_runs(CALLED_FROM); }

extern "C" EXPORT char* softcuda_dynamic_shared() { return dynamic_shared(); }

extern "C" EXPORT long long softcuda_clock()
{
    forget_spin(); // who looks at it may give up waiting
    running.has_read_clock = true;
    return std::chrono::steady_clock::now().time_since_epoch().count(); // nanoseconds, as CLOCK_RATE says
}
