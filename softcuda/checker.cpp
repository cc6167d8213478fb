// Watches every access of a kernel that was compiled with checks: g++ -fsanitize=thread calls a function at
// each one, and those functions are here. What they find ends the launch.
//
// checker.h has the cells that they keep; findings.cpp puts what they find into words.
#include "checker.h"

#include <algorithm>

namespace softcuda {

Checker checker;

namespace {

bool same_warp_met(unsigned other) // since that thread's access, for all that is known
{
    return other / warp_size == running.thread / warp_size && running.warp_epochs[other / warp_size] > 0;
}

// One cell of global memory. `bytes`: which of its 4 are touched. Parts of a word are not searched for races.
inline void touch_global(uintptr_t address, uint32_t& cell, uint32_t bytes, unsigned size, bool write, bool atomic,
    uintptr_t pc, const Allocation& array)
{
    const uint32_t c = cell, tag = checker.interval << 10 | running.thread;
    if ((!write || atomic) && (c & bytes) != bytes && !array.trusted)
        uninitialised_global(address, size, atomic, pc);
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
    uint32_t keep = c & by_earlier_block;
    if (then == checker.interval) {
        const bool others = c >> 8 != tag || (c & several && !(c & wrote));
        const bool both_atomic = atomic && c & atomic_access && !(c & several);
        if (others && (write || c & wrote) && !both_atomic && !same_warp_met(c >> 8 & 1023))
            global_race(address, size, write, atomic, pc, c);
        if (others && !write && !(c & wrote)) {
            cell = c | several;
            return;
        }
    } else if (then >= checker.launch_start && then < checker.block_start && c & wrote) {
        if (write && !(atomic && c & atomic_access))
            block_race(address, size, atomic, pc);
        if (!(c & atomic_access)) {
            keep = by_earlier_block;
            checker.earlier_blocks_marked = true;
        }
    }
    if (write && keep)
        block_race(address, size, atomic, pc);
    cell = tag << 8 | (write ? wrote | all_written : c & all_written) | (atomic ? atomic_access : 0) | keep;
}

inline void global_access(uintptr_t address, unsigned size, bool write, bool atomic, uintptr_t pc)
{
    const uintptr_t offset = address - arena.first;
    const uint32_t number = arena.pages[offset >> page_bits];
    Allocation* array = number ? &allocation_number(number - 1) : nullptr;
    if (!array || !array->live || address < array->base || address + size > array->base + array->size)
        bad_global(address, size, write, pc);
    if (address & (size - 1))
        misaligned(address, size, write, pc);
    uint32_t* cell = arena.shadow + (offset >> 2);
    if (size >= 4)
        for (unsigned i = 0; i < size; i += 4)
            touch_global(address + i, *cell++, all_written, size, write, atomic, pc, *array);
    else
        touch_global(address, *cell, ((1u << size) - 1) << (address & 3), size, write, atomic, pc, *array);
}

inline void touch_shared(const SharedRegion& region, uintptr_t address, SharedCell& cell, uint8_t bytes, unsigned size,
    bool write, bool atomic, uintptr_t pc)
{
    if ((!write || atomic) && (cell.written & bytes) != bytes)
        uninitialised_shared(region, address, size, atomic, pc);
    const uint16_t me = uint16_t(running.thread);
    if (cell.interval == checker.interval) {
        const bool others = cell.thread != me || cell.flags & several;
        if (!others && (cell.flags & wrote || !write) && !atomic && !(cell.flags & atomic_access)
            && (cell.written >> 4 & bytes) == bytes)
            return; // what it did before
        if (others && (write || cell.flags & wrote) && cell.written >> 4 & bytes) {
            const bool met = cell.thread / warp_size == me / warp_size && !(cell.flags & several)
                && cell.warp_epoch != running.warp_epochs[me / warp_size];
            if (!met && !(atomic && cell.flags & atomic_access))
                shared_race(region, address, size, write, atomic, pc, cell);
        } else if (others && !write) {
            cell.flags |= several;
            return;
        }
    }
    const bool again = cell.interval == checker.interval && cell.thread == me;
    const bool plain = !atomic || (again && !(cell.flags & atomic_access)); // or it was, at an access before
    const uint8_t old = again ? cell.flags & wrote : 0;
    cell.interval = checker.interval;
    cell.thread = me;
    cell.flags = uint8_t((write ? wrote : old) | (plain ? 0 : atomic_access));
    cell.written = uint8_t((cell.written & 0xf) | (write ? bytes : 0) | bytes << 4);
    cell.warp_epoch = running.warp_epochs[me / warp_size];
    cell.site = uint32_t(pc - checker.text);
}

inline void shared_access(SharedRegion& region, uintptr_t address, unsigned size, bool write, bool atomic, uintptr_t pc)
{
    const uintptr_t offset = address - region.first;
    if (!region.inside[offset] || offset + size > region.size || !region.inside[offset + size - 1])
        bad_shared(region, address, size, write, pc);
    if (address & (size - 1))
        misaligned(address, size, write, pc);
    SharedCell* cell = &region.cells[offset >> 2];
    if (size >= 4)
        for (unsigned i = 0; i < size; i += 4)
            touch_shared(region, address + i, *cell++, all_written, size, write, atomic, pc);
    else
        touch_shared(region, address, *cell, uint8_t(((1u << size) - 1) << (address & 3)), size, write, atomic, pc);
}

// Neither global nor shared memory: a variable of the module, memory of the host, the thread's own stack, or wild.
void other_access(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    const StackRange stacks = thread_stacks();
    if (address - stacks.first < stacks.size)
        return;
    const Symbol* near = nullptr;
    for (const Symbol* s = checker.image->first_symbol; s != checker.image->last_symbol; ++s) {
        const uintptr_t first = uintptr_t(s->address);
        if (s->kind == SymbolKind::shared || address + 64 < first || address >= first + s->size + 64)
            continue;
        if (address >= first && address + size <= first + s->size) {
            if (s->kind == SymbolKind::constant && write)
                write_to_constant(*s, size, pc);
            if (address & (size - 1))
                misaligned(address, size, write, pc);
            return;
        }
        near = s;
    }
    if (near)
        bad_variable(*near, address, size, write, pc);
    const Module& module = *running.launch->function->module;
    if (is_host_range(address, size) || (!write && address - module.image_first < module.image_last - module.image_first))
        return;
    out_of_bounds(address, size, write, pc, "where there is no array");
}

inline __attribute__((always_inline)) void access(uintptr_t address, unsigned size, bool write, bool atomic, uintptr_t pc)
{
    if (__builtin_expect(watching, 0))
        watched_access(address, size, write, pc);
    if (address - arena.first < arena.size)
        global_access(address, size, write, atomic, pc);
    else if (address - checker.fixed.first < checker.fixed.size)
        shared_access(checker.fixed, address, size, write, atomic, pc);
    else if (address - checker.dynamic.first < checker.dynamic.size)
        shared_access(checker.dynamic, address, size, write, atomic, pc);
    else if (checker.active)
        other_access(address, size, write, pc);
}

void describe_shared(const Image& image, char* dynamic, size_t dynamic_bytes)
{
    SharedRegion& fixed = checker.fixed;
    fixed.first = uintptr_t(image.first_shared);
    fixed.size = size_t(image.last_shared - image.first_shared);
    fixed.inside.assign(fixed.size, 0);
    for (const Symbol* s = image.first_symbol; s != image.last_symbol; ++s)
        if (s->kind == SymbolKind::shared)
            std::fill_n(fixed.inside.begin() + (s->address - image.first_shared), s->size, uint8_t(1));
    SharedRegion& extra = checker.dynamic;
    extra.first = uintptr_t(dynamic);
    extra.size = dynamic_bytes + 64; // what lies just behind is watched too
    extra.inside.assign(extra.size, 0);
    std::fill_n(extra.inside.begin(), dynamic_bytes, uint8_t(1));
}

// Intervals have 14 bits: before they begin again, what the cells remember of them is cleared.
void forget_intervals()
{
    for (size_t i = 0; i < allocation_count(); ++i) {
        const Allocation& array = allocation_number(i);
        if (!array.live)
            continue;
        uint32_t* cell = arena.shadow + ((array.base - arena.first) >> 2);
        for (uint32_t* end = cell + (array.size + 3) / 4; cell != end; ++cell) {
            const uint32_t then = *cell >> 18;
            const bool earlier = checker.active && *cell & wrote && !(*cell & atomic_access)
                && then >= checker.launch_start && then < checker.block_start;
            const uint32_t keep = checker.active ? *cell & by_earlier_block : 0;
            *cell = (*cell & all_written) | (earlier ? by_earlier_block : keep);
        }
    }
    checker.earlier_blocks_marked = checker.active;
    checker.interval = checker.block_start = checker.launch_start = 1;
    for (SharedRegion* region : {&checker.fixed, &checker.dynamic})
        for (SharedCell& cell : region->cells)
            cell.interval = 0;
}

void next_interval()
{
    if (++checker.interval > last_interval)
        forget_intervals();
    std::fill_n(running.warp_epochs, max_threads / warp_size, 0u);
}

} // namespace

void checker_begin_launch(const Launch& launch, char* dynamic_shared)
{
    const Image& image = *launch.function->module->image;
    checker.active = false;
    if (!image.checked) {
        trust_all();
        checker.fixed.size = checker.dynamic.size = 0;
        return;
    }
    if (checker.earlier_blocks_marked)
        forget_intervals();
    checker.image = &image;
    checker.text = launch.function->module->image_first;
    describe_shared(image, dynamic_shared, launch.dynamic_shared);
    next_interval();
    checker.launch_start = checker.interval;
    checker.active = true;
}

void checker_begin_block()
{
    if (!checker.active)
        return;
    next_interval();
    checker.block_start = checker.interval;
    for (SharedRegion* region : {&checker.fixed, &checker.dynamic})
        region->cells.assign(region->size / 4 + 1, SharedCell {});
}

void checker_barrier()
{
    if (checker.active)
        next_interval();
}

void check_access(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    if (checker.active)
        access(address, size, write, false, pc);
}

void mark_written(uintptr_t address, size_t size, bool written)
{
    if (address - arena.first >= arena.size || size == 0)
        return;
    for (; size && address & 3; ++address, --size) {
        uint32_t& cell = arena.shadow[(address - arena.first) >> 2];
        cell = (cell & all_written & ~(1u << (address & 3))) | (written ? 1u << (address & 3) : 0);
    }
    std::fill_n(arena.shadow + ((address - arena.first) >> 2), size / 4, written ? all_written : 0);
    for (address += size / 4 * 4, size &= 3; size; ++address, --size) {
        uint32_t& cell = arena.shadow[(address - arena.first) >> 2];
        cell = (cell & all_written & ~(1u << (address & 3))) | (written ? 1u << (address & 3) : 0);
    }
}

void copy_marks(uintptr_t to, uintptr_t from, size_t size)
{
    for (size_t i = 0; i < size; ++i) {
        const uint32_t mark = arena.shadow[(from + i - arena.first) >> 2] >> ((from + i) & 3) & 1u;
        uint32_t& cell = arena.shadow[(to + i - arena.first) >> 2];
        cell = (cell & all_written & ~(1u << ((to + i) & 3))) | mark << ((to + i) & 3);
    }
}

} // namespace softcuda

using namespace softcuda;
#define HERE reinterpret_cast<uintptr_t>(__builtin_return_address(0))
#define WATCH(size) \
    EXPORT void __tsan_read##size(void* p) { access(uintptr_t(p), size, false, false, HERE); } \
    EXPORT void __tsan_write##size(void* p) { access(uintptr_t(p), size, true, false, HERE); } \
    EXPORT void __tsan_volatile_read##size(void* p) { access(uintptr_t(p), size, false, false, HERE); } \
    EXPORT void __tsan_volatile_write##size(void* p) { access(uintptr_t(p), size, true, false, HERE); } \
    EXPORT void __tsan_unaligned_read##size(void* p) { access(uintptr_t(p), size, false, false, HERE); } \
    EXPORT void __tsan_unaligned_write##size(void* p) { access(uintptr_t(p), size, true, false, HERE); }

extern "C" {
WATCH(1)
WATCH(2)
WATCH(4)
WATCH(8)
WATCH(16)
EXPORT void __tsan_init() { }
EXPORT void __tsan_func_entry(void*) { }
EXPORT void __tsan_func_exit(void*) { }
EXPORT void __tsan_read_range(void* p, size_t size)
{
    for (size_t i = 0; i < size; ++i)
        access(uintptr_t(p) + i, 1, false, false, HERE);
}
EXPORT void __tsan_write_range(void* p, size_t size)
{
    for (size_t i = 0; i < size; ++i)
        access(uintptr_t(p) + i, 1, true, false, HERE);
}
EXPORT void softcuda_atomic(const void* p, unsigned size)
{
    if (checker.active)
        access(uintptr_t(p), size, true, true, HERE);
}
EXPORT void __ubsan_handle_type_mismatch_v1(void* data, uintptr_t address)
{
    struct Data { // as g++ lays it out
        const char* file;
        uint32_t line, column;
        const void* type;
        uint8_t log_alignment, kind;
    };
    const Data& d = *static_cast<const Data*>(data);
    const bool write = d.kind == 1;
    if (checker.active && address & ((uintptr_t(1) << d.log_alignment) - 1))
        misaligned(address, 1u << d.log_alignment, write, HERE);
}
EXPORT void __ubsan_handle_type_mismatch_v1_abort(void* data, uintptr_t address)
{
    __ubsan_handle_type_mismatch_v1(data, address);
}
}
