// Watches every access of a kernel that was compiled with checks: g++ -fsanitize=thread calls a function at
// each one, and those functions are here. What they find ends the launch.
//
// Global memory has a cell of 4 bytes for each 4 bytes, so that memory and cells together take twice the arrays:
//   bits 31..18  interval of the last access: a number that grows at each barrier and each block
//   bits 17..8   thread of that access
//   bit 7        it wrote        bit 6  several threads read in that interval
//   bit 5        it was atomic   bit 4  an earlier block of this launch wrote here
//   bits 7, 6, 5 together: it changed the word atomically, and read it as an ordinary variable too
//   bits 3..0    which of the 4 bytes have been written at all
// Shared memory is small and has cells of 16 bytes, which also say where the last access was made.
#include <algorithm>
#include <cstring>

#include "executor.h"

namespace softcuda {
namespace {

constexpr uint32_t wrote = 1u << 7, several = 1u << 6, atomic_access = 1u << 5, by_earlier_block = 1u << 4;
constexpr uint32_t all_written = 0xf, last_interval = (1u << 14) - 1;

struct SharedCell {
    uint32_t interval;
    uint16_t thread;
    uint8_t flags;   // wrote, several, atomic_access
    uint8_t written; // low half: which of the 4 bytes have been written; high half: which the last access touched
    uint32_t warp_epoch;
    uint32_t site; // of the last access, from the start of the image's text
};

struct SharedRegion {
    uintptr_t first = 0;
    size_t size = 0;
    std::vector<SharedCell> cells;
    std::vector<uint8_t> inside; // for each byte: whether it belongs to a variable
};

struct Checker {
    bool active = false;
    uint32_t interval = 1, block_start = 1, launch_start = 1;
    bool earlier_blocks_marked = false; // some cell has by_earlier_block set
    uintptr_t text = 0;
    SharedRegion fixed, dynamic;
    const Image* image = nullptr;
};
Checker checker;

std::string verb(bool write, bool atomic) { return atomic ? "changes (atomically)" : write ? "writes" : "reads"; }

std::string access_text(uintptr_t pc, unsigned size, bool write, bool atomic = false)
{
    return in_kernel() + "\n  " + where(pc) + ": " + who(running.thread) + " " + verb(write, atomic) + " "
        + count_bytes(size);
}

std::string hex(uintptr_t address)
{
    char text[32];
    snprintf(text, sizeof text, "0x%lx", (unsigned long)address);
    return text;
}

// How an address lies to a range that it should be in: "4 bytes past the end of".
std::string relation(uintptr_t address, unsigned size, uintptr_t first, size_t length)
{
    if (address == first + length)
        return "just past the end of ";
    if (address > first + length)
        return count_bytes(address - (first + length)) + " past the end of ";
    if (address < first)
        return count_bytes(first - address) + " before the start of ";
    return count_bytes(address + size - (first + length)) + " across the end of ";
}

[[noreturn]] void out_of_bounds(uintptr_t address, unsigned size, bool write, uintptr_t pc, const std::string& target)
{
    fault(illegal_address, "out of bounds " + access_text(pc, size, write) + " at " + hex(address) + ", " + target);
}

[[noreturn]] void misaligned(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    fault(misaligned_address,
        "misaligned access " + access_text(pc, size, write) + " at " + hex(address) + ", which is no multiple of "
            + std::to_string(size));
}

[[noreturn]] void bad_global(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    const Allocation* near = allocation_near(address);
    if (!near)
        out_of_bounds(address, size, write, pc, "where there is no array");
    if (!near->live)
        fault(illegal_address,
            "use after free " + access_text(pc, size, write) + " at " + hex(address) + ", in an array of "
                + count_bytes(near->size) + " that was freed");
    out_of_bounds(address, size, write, pc, relation(address, size, near->base, near->size) + name_allocation(*near));
}

std::string element(uintptr_t address)
{
    const Allocation* array = allocation_at(address);
    return array ? name_allocation(*array) + " at byte " + std::to_string(address - array->base) : hex(address);
}

[[noreturn]] void global_race(uintptr_t address, unsigned size, bool write, bool atomic, uintptr_t pc, uint32_t cell)
{
    const unsigned other = cell >> 8 & 1023;
    fault(launch_failed,
        "race " + access_text(pc, size, write, atomic) + " of " + element(address) + "\n  "
            + who(other) + (cell & wrote ? " wrote" : " read") + " them, with no barrier between");
}

[[noreturn]] void block_race(uintptr_t address, unsigned size, bool atomic, uintptr_t pc)
{
    fault(launch_failed,
        "race between blocks " + access_text(pc, size, true, atomic) + " of " + element(address)
            + "\n  another block wrote them in the same launch, and not atomically");
}

[[noreturn]] void uninitialised(uintptr_t pc, unsigned size, bool atomic, const std::string& target)
{
    fault(launch_failed,
        "uninitialised memory " + access_text(pc, size, false, atomic) + " of " + target + ", which nothing wrote");
}

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
        uninitialised(pc, size, atomic, element(address));
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

std::string shared_name(const SharedRegion& region, uintptr_t address, bool with_offset)
{
    if (&region == &checker.dynamic)
        return "dynamic shared memory" + (with_offset ? " at byte " + std::to_string(address - region.first) : "");
    const Symbol* best = nullptr;
    for (const Symbol* s = checker.image->first_symbol; s != checker.image->last_symbol; ++s)
        if (s->kind == SymbolKind::shared && s->size && uintptr_t(s->address) <= address
            && (!best || s->address > best->address))
            best = s;
    if (!best)
        return "shared memory";
    const size_t distance = address - uintptr_t(best->address);
    return name_symbol(best->name) + (with_offset ? " at byte " + std::to_string(distance) : "");
}

[[noreturn]] void bad_shared(const SharedRegion& region, uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    if (&region == &checker.dynamic)
        out_of_bounds(address, size, write, pc,
            relation(address, size, region.first, running.launch->dynamic_shared) + "dynamic shared memory, "
                + count_bytes(running.launch->dynamic_shared));
    const Symbol* nearest = nullptr;
    size_t distance = ~size_t(0);
    for (const Symbol* s = checker.image->first_symbol; s != checker.image->last_symbol; ++s) {
        if (s->kind != SymbolKind::shared || !s->size)
            continue;
        const uintptr_t first = uintptr_t(s->address), end = first + s->size;
        const size_t away = address >= first ? (address >= end ? address - end : 0) : first - address;
        if (away < distance)
            distance = away, nearest = s;
    }
    out_of_bounds(address, size, write, pc,
        relation(address, size, uintptr_t(nearest->address), nearest->size) + "shared " + name_symbol(nearest->name)
            + ", " + count_bytes(nearest->size));
}

[[noreturn]] void shared_race(const SharedRegion& region, uintptr_t address, unsigned size, bool write, bool atomic,
    uintptr_t pc, const SharedCell& cell)
{
    fault(launch_failed,
        "race " + access_text(pc, size, write, atomic) + " of shared " + shared_name(region, address, true) + "\n  "
            + where(checker.text + cell.site) + ": " + who(cell.thread) + (cell.flags & wrote ? " wrote" : " read")
            + " them, with no barrier between");
}

inline void touch_shared(const SharedRegion& region, uintptr_t address, SharedCell& cell, uint8_t bytes, unsigned size,
    bool write, bool atomic, uintptr_t pc)
{
    if ((!write || atomic) && (cell.written & bytes) != bytes)
        uninitialised(pc, size, atomic, "shared " + shared_name(region, address, true));
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
                fault(illegal_address, "write to constant memory " + access_text(pc, size, true) + " of " + name_symbol(s->name));
            if (address & (size - 1))
                misaligned(address, size, write, pc);
            return;
        }
        near = s;
    }
    if (near) {
        const char* kind = near->kind == SymbolKind::constant ? "constant " : "device variable ";
        out_of_bounds(address, size, write, pc,
            relation(address, size, uintptr_t(near->address), near->size) + kind + name_symbol(near->name) + ", "
                + count_bytes(near->size));
    }
    const Module& module = *running.launch->function->module;
    if (is_host_range(address, size) || (!write && address - module.image_first < module.image_last - module.image_first))
        return;
    out_of_bounds(address, size, write, pc, "where there is no array");
}

inline __attribute__((always_inline)) void access(uintptr_t address, unsigned size, bool write, bool atomic, uintptr_t pc)
{
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
