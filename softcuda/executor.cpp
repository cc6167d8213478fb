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

#include "fiber.h"

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
    Finding finding;
    uint64_t random = 0;
    bool shuffle = false;
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
        Thread& thread = turns.threads[running.thread];
        thread.state = State::ended;
        thread.fiber = nullptr;
        --turns.alive;
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
    softcuda_switch(&executor.main_stack, fiber->stack_pointer);
    if (!turns.resting)
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
    const uint64_t alive = launch.cooperative ? product_of(launch.grid) * product_of(launch.block) : max_threads;
    if (!reserve_stacks(std::max<uint64_t>(alive, max_threads)))
        return false;
    const char* seed = getenv("SOFTCUDA_SEED");
    executor.shuffle = seed && *seed;
    if (executor.shuffle)
        executor.random = strtoull(seed, nullptr, 10) * 2 + 1;
    executor.context = launch.function->module->image->context;
    executor.context->block_dim = launch.block;
    executor.context->grid_dim = launch.grid;
    memset(launch.function->module->image->dynamic_shared, 0, std::min<size_t>(launch.dynamic_shared + 64, dynamic_area));
    executor.finding = {};
    running.launch = &launch;
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
    forget_returns();
    turns.begin_block();
}

void run_one_after_another()
{
    for (uint64_t i = 0; i < executor.blocks && executor.finding.code == success; ++i) {
        begin_block(i);
        run_block();
        if (executor.finding.code == success)
            executor.finding = early_read_at_the_end_of_a_block(i + 1 == executor.blocks);
    }
}

// Each up to the barrier of the grid, as often as they come there.
void run_together()
{
    std::vector<BlockAtRest> blocks(executor.blocks);
    for (uint64_t ended = 0; ended == 0; checker_begin_launch(*running.launch, dynamic_shared())) {
        for (uint64_t i = 0; i < executor.blocks; ++i) {
            begin_block(i);
            if (!blocks[i].fibers.empty())
                resume(blocks[i]);
            run_block();
            if (executor.finding.code != success)
                return;
            blocks[i] = turns.resting ? rest() : BlockAtRest {};
            ended += !turns.resting;
            executor.finding = early_read_at_the_end_of_a_block(ended == executor.blocks);
            if (executor.finding.code != success)
                return;
        }
        if (ended && ended != executor.blocks) {
            executor.finding = blocks_do_not_come(blocks);
            prefer_early_read(executor.finding);
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
    Finding finding {code, std::move(text)};
    prefer_early_read(finding);
    if (executor.finding.code == success)
        executor.finding = std::move(finding);
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
    checker_begin_launch(launch, dynamic_shared());
    watch_begin(*launch.function);
    const uint64_t blocks = product_of(launch.grid);
    executor.skipped = launch.cooperative ? 0 : skipped_blocks(blocks);
    executor.blocks = blocks - executor.skipped;
    executor.block_step = executor.shuffle ? coprime(executor.blocks) : 1;
    executor.first_block = executor.shuffle ? next_random() % executor.blocks : 0;
    launch.cooperative ? run_together() : run_one_after_another();
    watch_end();
    forget_early_read();
    if (executor.finding.code != success)
        reset_fibers();
    if (executor.stack_count > max_threads) // they may be gigabytes
        free_stacks();
    running.launch = nullptr;
    return executor.finding;
}

Dim thread_index(unsigned number) { return turns.threads[number].index; }

void wait_for_turn() { give_way(false); }

} // namespace softcuda
