// Runs a grid: blocks one after another, the threads of a block as fibers that take turns at barriers. In a cooperative
// launch (grids.cpp) a block may rest at the barrier of the grid.
//
// A thread runs until it ends, or waits at a barrier or for the lanes of its warp; then the next one runs. One
// that ends without having waited leaves its stack to the next, so a kernel without barriers never switches.
#include "executor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>

#include "races/ordering.h"
#include "races/stream_races.h"
#include "fiber.h"
#include "mbarriers.h"

namespace softcuda {

Running running;
Turns turns;

namespace {

// A stack's 256 KiB, above 64 that cannot be touched: so far apart may the touches be by which g++ makes sure
// that a large frame does not step over them (-fstack-clash-protection, on aarch64; a page on x86-64).
constexpr size_t guard_bytes = 64 * 1024, stack_bytes = 256 * 1024 + guard_bytes;

struct Fiber {
    void* stack_pointer = nullptr;
    unsigned thread = 0; // that it runs, or is to run
};

struct Executor {
    char* stacks = nullptr; // each above a part that cannot be touched
    size_t stack_count = 0;
    Fiber fibers[max_alive];
    unsigned fibers_made = 0;
    std::vector<Fiber*> idle;
    void* main_stack = nullptr;
    Fiber* now = nullptr;
    Context* context = nullptr;
    bool given_up = false; // the present launch
    uint64_t random = 0;
    bool shuffle = false, is_checked = false;
    uint64_t blocks = 1, skipped = 0, first_block = 0, block_step = 1; // of the present launch, and their order
};
Executor executor;
std::mutex one_at_a_time;

uint64_t next_random() // xorshift64*
{
    executor.random ^= executor.random >> 12, executor.random ^= executor.random << 25;
    executor.random ^= executor.random >> 27;
    return executor.random * 2685821657736338717ull;
}

void shuffle(std::vector<unsigned>& order)
{
    for (size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[next_random() % i]);
}

void thread_main();

Fiber* new_fiber()
{
    if (!executor.idle.empty()) {
        Fiber* fiber = executor.idle.back();
        executor.idle.pop_back();
        return fiber;
    }
    const unsigned number = executor.fibers_made++;
    char* base = executor.stacks + number * stack_bytes;
    mprotect(base, guard_bytes, PROT_NONE);
    // Not all at the same distance from a page, or the tops of all stacks would share a few cache sets.
    char* top = base + stack_bytes - 64 - number % 61 * 64;
    executor.fibers[number].stack_pointer = prepare_stack(top, thread_main);
    return &executor.fibers[number];
}

void enter(unsigned thread)
{
    running.thread = thread;
    if (executor.is_checked)
        note_present();
    executor.context->thread = turns.threads[thread].index;
}

[[noreturn]] void leave()
{
    void* forgotten;
    softcuda_switch(&forgotten, executor.main_stack);
    __builtin_unreachable();
}

// Goes on with another thread, or ends the block. `done`: the thread of the present fiber has ended, and the
// fiber can take one that has not begun; it returns with that. Otherwise it returns when its thread goes on.
void give_way(bool done)
{
    Fiber* self = executor.now;
    for (;;) {
        if (turns.position == turns.order.size()) {
            if (!turns.advance()) { // the block has ended; what this fiber is needed for next, it finds out then
                softcuda_switch(&self->stack_pointer, executor.main_stack);
                return;
            }
            if (executor.shuffle)
                shuffle(turns.order);
            continue;
        }
        const unsigned next = turns.order[turns.position++];
        Thread& thread = turns.threads[next];
        Fiber* fiber = static_cast<Fiber*>(thread.fiber);
        if (!fiber) {
            fiber = done ? self : new_fiber();
            fiber->thread = next;
            thread.fiber = fiber;
        } else if (done) {
            executor.idle.push_back(self);
        }
        enter(next);
        if (fiber != self) {
            executor.now = fiber;
            softcuda_switch(&self->stack_pointer, fiber->stack_pointer);
        }
        return;
    }
}

// What runs on a fiber's stack: one thread after another.
void thread_main()
{
    for (;;) {
        const Launch& launch = *running.launch;
        const KernelEntry& entry = *launch.function->entry;
        entry.record->invoke(entry.function, launch.arguments.data());
        turns.thread_has_ended(running.thread);
        give_way(true);
    }
}

// Until it ends, or rests.
void run_block()
{
    if (executor.shuffle)
        shuffle(turns.order);
    const unsigned first = turns.order[turns.position++];
    auto fiber = static_cast<Fiber*>(turns.threads[first].fiber);
    if (!fiber)
        turns.threads[first].fiber = fiber = new_fiber();
    fiber->thread = first;
    executor.now = fiber;
    enter(first);
    const FlushedDenormals flushed(running.launch->function->module->image->flushes);
    softcuda_switch(&executor.main_stack, fiber->stack_pointer);
    const auto is_of_now = [](const Thread& thread) { return thread.fiber == executor.now; };
    if (!turns.resting && !(turns.stuck && std::any_of(turns.threads, turns.threads + turns.count, is_of_now)))
        executor.idle.push_back(executor.now);
}

void reset_fibers() // after a launch that was given up: what its threads had on their stacks is forgotten
{
    executor.idle.clear();
    executor.fibers_made = 0;
}

void free_stacks()
{
    if (executor.stacks)
        munmap(executor.stacks, stack_bytes * executor.stack_count);
    executor.stacks = nullptr;
    executor.stack_count = 0;
    reset_fibers();
}

bool reserve_stacks(size_t count)
{
    if (count <= executor.stack_count)
        return true;
    void* memory
        = mmap(nullptr, stack_bytes * count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    free_stacks();
    executor.stacks = static_cast<char*>(memory);
    executor.stack_count = count;
    return true;
}

uint64_t product_of(const Dim& size) { return uint64_t(size.x) * size.y * size.z; }

bool prepare(const Launch& launch)
{
    const uint64_t all = product_of(launch.grid) * product_of(launch.block);
    const uint64_t alive = launch.cooperative ? std::max<uint64_t>(all, max_threads) : max_alive;
    if (!reserve_stacks(alive) && (launch.cooperative || !reserve_stacks(max_threads)))
        return false;
    const char* seed = getenv("SOFTCUDA_SEED");
    executor.shuffle = seed && *seed;
    if (executor.shuffle)
        executor.random = strtoull(seed, nullptr, 10) * 2 + 1;
    executor.context = launch.function->module->image->context;
    executor.context->block_dim = launch.block;
    executor.context->grid_dim = launch.grid;
    memset(launch.function->module->image->dynamic_shared, 0, std::min<size_t>(launch.dynamic_shared + 64, dynamic_area));
    executor.given_up = false;
    executor.is_checked = launch.function->module->image->checked;
    findings_begin_launch();
    footprint_begin_launch();
    order_begins_launch();
    running.launch = &launch;
    running.has_read_clock = false;
    forget_noted_results();
    turns.begin_launch(launch.block);
    return true;
}

Dim block_at(const Dim& grid, uint64_t number)
{
    const unsigned x = unsigned(number % grid.x);
    number /= grid.x;
    return {x, unsigned(number % grid.y), unsigned(number / grid.y)};
}

uint64_t skipped_blocks(uint64_t blocks) // all but the last SOFTCUDA_LAST_BLOCKS; none where that is not set
{
    const char* text = getenv("SOFTCUDA_LAST_BLOCKS");
    const uint64_t last = text && *text ? strtoull(text, nullptr, 10) : 0;
    return last && last < blocks ? blocks - last : 0;
}

uint64_t coprime(uint64_t count) // a step that comes by every one of so many, in an order that looks like none
{
    uint64_t step = next_random() % count;
    while (std::gcd(step, count) != 1)
        step = (step + 1) % count;
    return step;
}

void begin_block(uint64_t ordinal)
{
    running.block_index = executor.context->block = block_that_ran(ordinal);
    checker_begin_block();
    forget_copies();
    forget_mbarriers();
    forget_returns();
    turns.begin_block();
    forget_spin();
}

// What the threads that wait for a write know, in a number (FNV-1a).
uint64_t state_of_waiting()
{
    uint64_t state = 14695981039346656037ull;
    for (const unsigned number : turns.order) {
        const auto fiber = static_cast<const Fiber*>(turns.threads[number].fiber);
        const auto place = size_t(static_cast<char*>(fiber->stack_pointer) - executor.stacks);
        const char* end = executor.stacks + (place / stack_bytes + 1) * stack_bytes;
        for (auto byte = static_cast<const char*>(fiber->stack_pointer); byte != end; ++byte)
            state = (state ^ uint8_t(*byte)) * 1099511628211ull;
    }
    return state;
}

WaitingBlock put_aside(uint64_t ordinal, const WaitingBlock* before)
{
    checker_blocks_take_turns();
    const uint64_t state = state_of_waiting();
    return {ordinal, rest(), turns, state, before && before->state == state ? before->same + 1 : 0};
}

void go_on_with(const WaitingBlock& block)
{
    begin_block(block.ordinal);
    turns = block.turns;
    turns.stuck = false;
    resume(block.memory);
}

void deadlock(const std::vector<WaitingBlock>& waiting, uint64_t not_begun)
{
    const std::string rest = not_begun
        ? "\n  blocks that have not begun, because no more than " + std::to_string(executor.stack_count)
            + " threads are there at once: " + std::to_string(not_begun)
        : "";
    tell(launch_timeout, "deadlock " + in_kernel() + waits_of(waiting) + rest);
    executor.given_up = true;
}

// Each block to its end, or to the barrier of the grid, where `at_barrier` has those of a cooperative launch. A block that
// waits for another one's write rests, and new ones and resting ones go on in turns. Returns how many have ended.
uint64_t run_blocks(std::vector<BlockAtRest>& at_barrier)
{
    std::vector<WaitingBlock> waiting;
    const uint64_t room = executor.stack_count / turns.count;
    uint64_t begun = 0, resumed = 0, ended = 0;
    for (bool was_new = false; begun < executor.blocks || !waiting.empty();) {
        const bool is_new = begun < executor.blocks && waiting.size() < room && (waiting.empty() || !was_new);
        was_new = is_new;
        const uint64_t at = is_new ? 0 : resumed++ % waiting.size();
        const uint64_t ordinal = is_new ? begun++ : waiting[at].ordinal;
        is_new ? begin_block(ordinal) : go_on_with(waiting[at]);
        if (is_new && !at_barrier.empty() && !at_barrier[ordinal].fibers.empty())
            resume(at_barrier[ordinal]);
        run_block();
        if (executor.given_up)
            return ended;
        if (turns.stuck && is_new)
            waiting.push_back(put_aside(ordinal, nullptr));
        else if (turns.stuck)
            waiting[at] = put_aside(ordinal, &waiting[at]);
        else if (!is_new)
            waiting.erase(waiting.begin() + long(at));
        if (!turns.stuck) {
            if (!at_barrier.empty())
                at_barrier[ordinal] = turns.resting ? rest() : BlockAtRest {};
            ended += !turns.resting;
            early_reads_at_the_end_of_a_block(ended == executor.blocks);
            for (WaitingBlock& block : waiting)
                block.same = 0;
        } else if ((begun == executor.blocks || waiting.size() == room)
            && std::all_of(waiting.begin(), waiting.end(), [](const WaitingBlock& block) { return block.same >= 20; })) {
            deadlock(waiting, executor.blocks - begun);
            return ended;
        }
    }
    return ended;
}

// Each up to the barrier of the grid, as often as they come there.
void run_together()
{
    std::vector<BlockAtRest> blocks(executor.blocks);
    for (uint64_t ended = 0; ended == 0; add_to_footprint(), checker_begin_launch(*running.launch, dynamic_shared())) {
        ended = run_blocks(blocks);
        if (executor.given_up)
            return;
        if (ended && ended != executor.blocks) {
            const Finding finding = blocks_do_not_come(blocks);
            tell(finding.code, finding.text);
            executor.given_up = true;
        }
    }
}

} // namespace

char* dynamic_shared() { return running.launch->function->module->image->dynamic_shared; }

StackRange thread_stacks() { return {reinterpret_cast<uintptr_t>(executor.stacks), stack_bytes * executor.stack_count}; }

bool is_below_a_stack(uintptr_t address)
{
    const StackRange range = thread_stacks();
    return address - range.first < range.size && (address - range.first) % stack_bytes < guard_bytes;
}

void fault(Result code, std::string text)
{
    tell(code, std::move(text));
    end_launch();
}

void end_launch()
{
    if (is_twin())
        end_twin(false);
    if (is_trial())
        end_trial("ended early");
    close_early_reads();
    no_finding_is_accepted();
    executor.given_up = true;
    leave();
}

Dim block_that_ran(uint64_t ordinal)
{
    using Wide = unsigned __int128;
    const auto number = uint64_t((executor.first_block + Wide(ordinal) * executor.block_step) % executor.blocks);
    return block_at(running.launch->grid, executor.skipped + number);
}

Finding run_grid(const Launch& launch)
{
    std::lock_guard<std::mutex> lock(one_at_a_time);
    if (!prepare(launch))
        return {out_of_memory, "no memory for the stacks of a block's threads"};
    forget_twin();
    checker_begin_launch(launch, dynamic_shared());
    watch_begin(*launch.function);
    begin_trials(launch);
    const uint64_t blocks = product_of(launch.grid);
    executor.skipped = launch.cooperative ? 0 : skipped_blocks(blocks);
    executor.blocks = blocks - executor.skipped;
    executor.block_step = executor.shuffle ? coprime(executor.blocks) : 1;
    executor.first_block = executor.shuffle ? next_random() % executor.blocks : 0;
    std::vector<BlockAtRest> none;
    launch.cooperative ? run_together() : void(run_blocks(none));
    if (!executor.given_up) {
        launch.cooperative ? void() : add_to_footprint();
        judge_launch(launch);
    }
    if (is_twin())
        end_twin(!executor.given_up);
    if (is_trial())
        end_trial(executor.given_up ? "ended early" : "");
    if (checker_is_active()) {
        judge_benign();
        judge_restricts();
        judge_unset();
        judge_unused_reads();
    }
    judge_trials();
    if (const char* arrays = launch.function->module->image->one_address; launch.dynamic_shared && *arrays)
        add_note(Note::cause, std::string("shared    extern __shared__ arrays begin at one address: ") + arrays);
    watch_end();
    forget_early_reads();
    if (executor.given_up)
        reset_fibers();
    if (executor.fibers_made > max_threads) // they may be gigabytes
        free_stacks();
    const Finding found = findings_of_launch();
    running.launch = nullptr;
    return found;
}

Dim thread_index(unsigned number) { return turns.threads[number].index; }

void wait_for_turn() { give_way(false); }

} // namespace softcuda
