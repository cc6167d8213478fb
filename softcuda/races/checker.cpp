// Watches every access of a kernel that was compiled with checks: g++ -fsanitize=thread calls a function at
// each one, and those functions are here.
//
// kernel_races.h has what they remember, ordering.cpp which accesses are ordered; findings.cpp puts what they find into words.
#include <sys/mman.h>

#include <algorithm>

#include "device/executor.h"
#include "at_once.h"

namespace softcuda {

Checker checker;

namespace {

// A page of the arena in the present launch.
struct Page {
    Cell* cells; // none where none were left
    uint32_t first, size; // of what belongs to a live array, in the page
    bool asked; // all of this is known
};

// Cells of 64 KiB pages of global memory, given out as a launch touches them.
struct Detailed {
    Cell* cells = nullptr;
    Page* pages = nullptr;
    std::vector<uintptr_t> asked;
    size_t given = 0;
};
Detailed detailed;

void* reserve(size_t size)
{
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

void give_cells_back() // what they remember is of intervals before the launch, and so needs no clearing
{
    constexpr size_t bytes = detailed_pages * cells_of_page * sizeof(Cell);
    if (!detailed.pages) {
        detailed.pages = static_cast<Page*>(reserve((arena.size >> page_bits) * sizeof(Page)));
        detailed.cells = static_cast<Cell*>(reserve(bytes));
    }
    for (const uintptr_t page : detailed.asked)
        detailed.pages[page] = {};
    detailed.asked.clear();
    detailed.given = 0;
    if (ordering.interval >> 31) { // before there are no numbers left
        madvise(detailed.cells, bytes, MADV_DONTNEED);
        ordering.interval = 1;
    }
}

void ask_for_cells(uintptr_t number)
{
    constexpr uintptr_t page_size = uintptr_t(1) << page_bits;
    detailed.asked.push_back(number);
    Page& page = detailed.pages[number];
    page.asked = true;
    if (detailed.cells && detailed.given < detailed_pages)
        page.cells = detailed.cells + detailed.given++ * cells_of_page;
    const uintptr_t begin = arena.first + (number << page_bits);
    const uint32_t at = arena.pages[number];
    if (!at || !allocations[at - 1].live)
        return;
    const Allocation& array = allocations[at - 1];
    const uintptr_t first = std::max(begin, array.base), last = std::min(begin + page_size, array.base + array.size);
    page.first = uint32_t(first - begin), page.size = uint32_t(last - first);
}

ALWAYS_INLINE Cell* detailed_cells(uintptr_t number)
{
    if (__builtin_expect(!detailed.pages[number].asked, 0))
        ask_for_cells(number);
    return detailed.pages[number].cells;
}

ALWAYS_INLINE Access part_of(const Access& access, unsigned first)
{
    return {access.address + first, access.size, access.write, access.kind, access.pc};
}

ALWAYS_INLINE void touch_global(uint32_t* marks, Cell* cell, uint32_t bytes, const Access& access, const Allocation& array)
{
    const bool is_unset = (!access.write || access.is_atomic()) && (*marks & bytes) != bytes && !array.trusted;
    if (is_unset)
        uninitialised_global(access.address, access.size, access.is_atomic(), access.pc);
    if (!cell) {
        touch_coarse(*marks, bytes, access);
        return;
    }
    if (access.write && (*marks & bytes) != bytes)
        *marks |= bytes;
    touch_word(*cell, uint8_t(bytes), access, nullptr);
    if (is_unset && cell->read.site & dense) // of which the next one is to be told
        loosen(cell->read);
}

ALWAYS_INLINE void global_access(const Access& access)
{
    const uintptr_t address = access.address, offset = address - arena.first, page = offset >> page_bits;
    const unsigned size = access.size;
    const uint32_t number = arena.pages[page];
    const Allocation* array = number ? allocations + number - 1 : nullptr;
    if (!array || !array->live || address < array->base || address + size > array->base + array->size)
        return bad_global(address, size, access.write, access.pc);
    if (address & (size - 1))
        return misaligned(address, size, access.write, access.pc);
    if (!access.write)
        checker.reads[running.thread].add(address, access.pc);
    uint32_t* marks = arena.shadow + (offset >> 2);
    Cell* cell = detailed_cells(page);
    if (cell)
        cell += (offset >> 2) % cells_of_page;
    if (size <= 4) {
        touch_global(marks, cell, ((1u << size) - 1) << (address & 3), access, *array);
        return;
    }
    for (unsigned i = 0; i < size; i += 4) // aligned, and so in one page
        touch_global(marks++, cell ? cell++ : nullptr, all_written, part_of(access, i), *array);
}

ALWAYS_INLINE void touch_shared(SharedRegion& region, size_t number, uint8_t bytes, const Access& access)
{
    uint8_t& written = region.written[number];
    const bool is_unset = (!access.write || access.is_atomic()) && (written & bytes) != bytes;
    if (is_unset)
        uninitialised_shared(region, access.address, access.size, access.is_atomic(), access.pc);
    if (access.write)
        written |= bytes;
    touch_word(region.cells[number], bytes, access, &region);
    if (is_unset && region.cells[number].read.site & dense)
        loosen(region.cells[number].read);
}

ALWAYS_INLINE void shared_access(SharedRegion& region, const Access& access)
{
    const uintptr_t address = access.address, offset = address - region.first;
    const unsigned size = access.size;
    if (!region.inside[offset] || offset + size > region.size || !region.inside[offset + size - 1])
        return bad_shared(region, address, size, access.write, access.pc);
    if (address & (size - 1))
        return misaligned(address, size, access.write, access.pc);
    if (size <= 4) {
        touch_shared(region, offset >> 2, uint8_t(((1u << size) - 1) << (address & 3)), access);
        return;
    }
    for (unsigned i = 0; i < size; i += 4)
        touch_shared(region, (offset + i) >> 2, all_written, part_of(access, i));
}

// Neither global nor shared memory nor a stack: a variable of the module, memory of the host, or wild.
void other_access(const Access& access)
{
    const uintptr_t address = access.address, pc = access.pc;
    const unsigned size = access.size;
    const bool write = access.write;
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
            touched_elsewhere({first, s->size}, false, access);
            return;
        }
        near = s;
    }
    if (near)
        return bad_variable(*near, address, size, write, pc);
    const Module& module = *running.launch->function->module;
    if (address - (uintptr_t(checker.image->dynamic_shared) - dynamic_gap) < dynamic_gap + dynamic_area)
        return bad_shared(checker.dynamic, address, size, write, pc);
    if (const Region memory = host_memory_at(address); memory.size && address + size <= memory.first + memory.size)
        return touched_elsewhere(memory, true, access);
    if (!write && address - module.image_first < module.image_last - module.image_first)
        return;
    out_of_bounds(address, size, write, pc, "where there is no array", false);
}

bool is_shared(uintptr_t address)
{
    return address - checker.fixed.first < checker.fixed.size || address - checker.dynamic.first < checker.dynamic.size;
}

template <unsigned size, bool write> ALWAYS_INLINE bool shared_at_once(SharedRegion& region, uintptr_t address, uint32_t site)
{
    const size_t offset = address - region.first, first = offset / 4;
    if (address % size || offset + size > region.size)
        return false;
    for (size_t number = first; number != first + size / 4; ++number) {
        uint8_t& written = region.written[number];
        if (!write) {
            if (!read_at_once(region.cells[number], site, true, [&] { return written == all_written; }))
                return false;
        } else if (!region.whole[number] || !write_at_once(region.cells[number], site, true, [] { return false; })) {
            return false;
        } else {
            written = all_written;
        }
    }
    return true;
}

template <unsigned size, bool write> ALWAYS_INLINE bool global_at_once(uintptr_t address, uintptr_t pc, uint32_t site)
{
    const uintptr_t offset = address - arena.first, in_page = offset & ((uintptr_t(1) << page_bits) - 1);
    const Page& page = detailed.pages[offset >> page_bits];
    if (!page.cells || address % size || in_page - page.first + size > page.size || in_page < page.first)
        return false;
    RecentReads& reads = checker.reads[running.thread];
    uint32_t* marks = arena.shadow + (offset >> 2);
    Cell* cell = page.cells + (in_page >> 2);
    __builtin_prefetch(cell + 16, 1);
    for (unsigned i = 0; i < size / 4; ++i) {
        if (!write) {
            if (!read_at_once(cell[i], site, false, [&] { return (marks[i] & all_written) == all_written; }))
                return false;
        } else if (!write_at_once(cell[i], site, false, [&] { return reads.has(address + 4 * i); })) {
            return false;
        } else if ((marks[i] & all_written) != all_written) {
            marks[i] |= all_written;
        }
    }
    if (!write)
        reads.add(address, pc);
    return true;
}

void access_afresh(uintptr_t address, unsigned size, bool write, Kind kind, uintptr_t pc)
{
    if (address - arena.first < arena.size)
        global_access({address, size, write, kind, pc});
    else if (address - checker.fixed.first < checker.fixed.size)
        shared_access(checker.fixed, {address, size, write, kind, pc});
    else if (address - checker.dynamic.first < checker.dynamic.size)
        shared_access(checker.dynamic, {address, size, write, kind, pc});
    else if (checker.active)
        other_access({address, size, write, kind, pc});
}

void access(uintptr_t address, unsigned size, bool write, Kind kind, uintptr_t pc)
{
    if (address - checker.stacks.first < checker.stacks.size)
        return;
    if (__builtin_expect(watching, 0))
        watched_access(address, size, write, write && kind < Kind::atomic, pc);
    access_afresh(address, size, write, kind, pc);
}

void watched_plain(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    watched_access(address, size, write, write, pc);
    access_afresh(address, size, write, Kind::plain, pc);
}

// A plain access to a region.
template <unsigned size, bool write>
__attribute__((noinline)) void shared_plain(SharedRegion& region, uintptr_t address, uintptr_t pc)
{
    if (size < 4 || !shared_at_once<size, write>(region, address, uint32_t(pc - checker.text)))
        access_afresh(address, size, write, Kind::plain, pc);
}

template <unsigned size, bool write> __attribute__((noinline)) void far_access(uintptr_t address, uintptr_t pc)
{
    if (address - checker.stacks.first < checker.stacks.size)
        return;
    if (__builtin_expect(watching, 0))
        return watched_plain(address, size, write, pc);
    const bool is_global = size >= 4 && address - arena.first < arena.size;
    if (is_global ? !global_at_once<size, write>(address, pc, uint32_t(pc - checker.text)) : !variable_at_once<size, write>(address))
        access_afresh(address, size, write, Kind::plain, pc);
}

// A plain access, of which most are further reads of shared memory: these are over in some twenty instructions.
template <unsigned size, bool write> ALWAYS_INLINE void plain_access(uintptr_t address, uintptr_t pc)
{
    for (int i = 0; i < 2; ++i) {
        const Near& near = checker.near[i];
        const size_t offset = address - near.first;
        if (offset >= near.size)
            continue;
        if (!write && size >= 4 && address % size == 0 && is_read_again<size>(near, offset / 4, uint32_t(pc - checker.text)))
            return;
        return shared_plain<size, write>(i ? checker.dynamic : checker.fixed, address, pc);
    }
    far_access<size, write>(address, pc);
}

// A range as the compiler copies or clears it, of whatever alignment.
ALWAYS_INLINE void range_access(uintptr_t address, size_t size, bool write, uintptr_t pc)
{
    if (address - checker.stacks.first < checker.stacks.size)
        return;
    checker.one_store = !write;
    copy_now = {address, unsigned(size), false};
    const unsigned step = (address | size) % 4 ? 1 : 4;
    for (size_t i = 0; i < size; i += step)
        access(address + i, step, write, Kind::plain, pc);
    copy_now = {};
    checker.one_store = true;
}

void volatile_access(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    if (!write)
        polls(address, size, pc);
    checker.volatile_flags = checker.active && write && is_flag_write() ? is_volatile | hands_on : is_volatile;
    access(address, size, write, Kind::is_volatile, pc);
    if (checker.active)
        release_and_acquire(address, is_shared(address) ? Scope::shared : Scope::device, write, !write, false);
}

Scope scope_of(uintptr_t address, bool of_block) { return is_shared(address) ? Scope::shared : of_block ? Scope::block : Scope::device; }

void atomic_access(uintptr_t address, unsigned size, unsigned traits, uintptr_t pc)
{
    polls(address, size, pc);
    if (!checker.active)
        return;
    const Kind kind = traits & atomic_compares ? Kind::compare : Kind::atomic;
    checker.of_block = traits & atomic_of_block;
    checker.bounds = traits & atomic_bounds;
    if (checker.bounds)
        bound_by_atomic(address, pc);
    access(address, size, true, kind, pc);
    checker.of_block = checker.bounds = false;
    if (kind == Kind::compare) {
        const unsigned me = running.thread;
        auto& guesses = checker.guesses;
        guesses.erase(std::remove_if(guesses.begin(), guesses.end(),
                          [&](const Guess& guess) {
                              return guess.thread == me && guess.access.address - address < size;
                          }),
            guesses.end());
    }
    release_and_acquire(address, scope_of(address, traits & atomic_of_block), true, true, true);
}

void describe_shared(const Image& image, const KernelEntry& kernel, char* dynamic, size_t dynamic_bytes)
{
    SharedRegion& fixed = checker.fixed;
    fixed.first = uintptr_t(image.first_shared);
    fixed.size = size_t(image.last_shared - image.first_shared);
    fixed.inside.assign(fixed.size, 0);
    for (const Symbol* s = image.first_symbol; s != image.last_symbol; ++s)
        if (s->is_shared_of(kernel))
            std::fill_n(fixed.inside.begin() + (s->address - image.first_shared), s->size, uint8_t(1));
    SharedRegion& extra = checker.dynamic;
    extra.first = uintptr_t(dynamic);
    extra.size = dynamic_bytes + 64; // what lies just behind is watched too
    extra.inside.assign(extra.size, 0);
    std::fill_n(extra.inside.begin(), dynamic_bytes, uint8_t(1));
    for (SharedRegion* region : {&fixed, &extra}) {
        region->whole.assign(region->size / 4 + 1, 0);
        for (size_t i = 0; i < region->size / 4; ++i)
            region->whole[i] = std::all_of(&region->inside[4 * i], &region->inside[4 * i] + 4, [](uint8_t one) { return one; });
    }
}

void no_more_guesses() // a plain read that no compare-and-swap followed
{
    judge_rewrites();
    forget_flags();
    if (checker.guesses.empty())
        return;
    const unsigned before = running.thread;
    for (const Guess& guess : checker.guesses) {
        running.thread = guess.thread;
        data_race(guess.earlier, true, guess.access, guess.region);
    }
    running.thread = before;
    checker.guesses.clear();
}

} // namespace

void note_near()
{
    SharedRegion* const regions[] = {&checker.fixed, &checker.dynamic};
    for (int i = 0; i < 2; ++i) {
        SharedRegion& region = *regions[i];
        constexpr size_t largest = 16; // of an access, which may end beyond
        checker.near[i] = {region.first, watching || region.size < largest ? 0 : region.size - largest, region.cells.data(), region.written.data()};
    }
}

void checker_begin_launch(const Launch& launch, char* dynamic_shared)
{
    const Image& image = *launch.function->module->image;
    checker.active = false;
    if (!image.checked) {
        trust_all();
        checker.fixed.size = checker.dynamic.size = 0;
        return;
    }
    checker.image = &image;
    checker.text = launch.function->module->image_first;
    checker.guesses.clear();
    checker.one_store = true, checker.of_block = checker.bounds = false; // a fault ends a launch in the middle of a check
    copy_now = {};
    forget_rewrites();
    forget_flags();
    forget_parts(false);
    describe_shared(image, *launch.function->entry, dynamic_shared, launch.dynamic_shared);
    give_cells_back();
    coarse_begin_launch();
    ordering_begin_launch();
    benign_begin_launch();
    restricts_begin_launch();
    checker.active = true;
}

void checker_begin_block()
{
    if (!checker.active)
        return;
    coarse_next_interval();
    coarse_begin_block();
    ordering_begin_block();
    forget_parts(true);
    checker.stacks = thread_stacks();
    for (SharedRegion* region : {&checker.fixed, &checker.dynamic}) {
        region->cells.assign(region->size / 4 + 1, Cell {});
        region->written.assign(region->size / 4 + 1, 0);
    }
    note_near();
    fill_what_nothing_wrote();
}

void checker_end_block() { no_more_guesses(); }

MarksOfShared marks_of_shared() { return checker.active ? MarksOfShared {checker.fixed.written, checker.dynamic.written} : MarksOfShared(); }

void set_marks_of_shared(const MarksOfShared& marks)
{
    if (!marks.empty())
        checker.fixed.written = marks[0], checker.dynamic.written = marks[1];
}

void checker_barrier()
{
    if (!checker.active)
        return;
    no_more_guesses();
    coarse_next_interval();
    ordering_next_interval();
}

void checker_blocks_take_turns()
{
    close_early_reads();
    checker.guesses.clear();
    forget_flags();
    ordering_blocks_take_turns();
    restricts_in_turns();
}

bool checker_is_active() { return checker.active; }

void found_race(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region)
{
    if (ordering.lacks == Lacks::fence && earlier.interval < ordering.block_start && access.kind != Kind::plain)
        return; // it does not come from a cache
    const bool is_guess = wrote && earlier.flags & is_atomic && !access.write && access.kind == Kind::plain;
    if (is_rewrite(earlier, wrote, access, region) || is_flag(earlier, wrote, access, region))
        return;
    if (is_benign_so_far(earlier, wrote, access, region))
        return;
    if (!is_guess || checker.guesses.size() == 1024)
        return data_race(earlier, wrote, access, region);
    const Place place = unordered_one(earlier); // which the next barrier forgets
    Epoch kept = earlier;
    kept.thread = uint16_t(place.thread), kept.site = place.site;
    kept.flags &= uint8_t(~(by_lanes | by_warps));
    checker.guesses.push_back({kept, access, running.thread, region});
}

void forget_pages(uintptr_t first, size_t count)
{
    for (size_t i = 0; detailed.pages && i < count; ++i)
        if (detailed.pages[first + i].asked)
            detailed.pages[first + i].size = 0;
}

const std::vector<uintptr_t>& pages_touched() { return detailed.asked; }

const Cell* cell_of(uintptr_t address)
{
    const uintptr_t offset = address - arena.first;
    const Cell* cells = offset < arena.size ? detailed_cells(offset >> page_bits) : nullptr;
    return cells ? cells + (offset >> 2) % cells_of_page : nullptr;
}

void check_access(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    checker.one_store = false;
    if (checker.active)
        access(address, size, write, Kind::plain, pc);
    checker.one_store = true;
}

void check_atomic(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    if (checker.active)
        access(address, size, write, Kind::atomic, pc);
}

} // namespace softcuda

using namespace softcuda;
#define HERE reinterpret_cast<uintptr_t>(__builtin_return_address(0))
#define WATCH(size) \
    EXPORT void __tsan_read##size(void* p) { plain_access<size, false>(uintptr_t(p), HERE); } \
    EXPORT void __tsan_write##size(void* p) { plain_access<size, true>(uintptr_t(p), HERE); } \
    EXPORT void __tsan_volatile_read##size(void* p) { volatile_access(uintptr_t(p), size, false, HERE); } \
    EXPORT void __tsan_volatile_write##size(void* p) { volatile_access(uintptr_t(p), size, true, HERE); } \
    EXPORT void __tsan_unaligned_read##size(void* p) { access(uintptr_t(p), size, false, Kind::plain, HERE); } \
    EXPORT void __tsan_unaligned_write##size(void* p) { access(uintptr_t(p), size, true, Kind::plain, HERE); }

extern "C" {
WATCH(1)
WATCH(2)
WATCH(4)
WATCH(8)
WATCH(16)
EXPORT void __tsan_init() { }
EXPORT void __tsan_func_entry(void*) { }
EXPORT void __tsan_func_exit(void*) { }
EXPORT void __tsan_read_range(void* p, size_t size) { range_access(uintptr_t(p), size, false, HERE); }
EXPORT void __tsan_write_range(void* p, size_t size) { range_access(uintptr_t(p), size, true, HERE); }
EXPORT void softcuda_atomic(const void* p, unsigned size, unsigned traits) { atomic_access(uintptr_t(p), size, traits, HERE); }
EXPORT void softcuda_atomic_load(const void* p, unsigned size, unsigned traits)
{
    const bool for_block = traits & atomic_of_block;
    checker.of_block = for_block;
    check_atomic(uintptr_t(p), size, false, HERE);
    checker.of_block = false;
    if (checker.active)
        release_and_acquire(uintptr_t(p), scope_of(uintptr_t(p), for_block), false, true, true);
}
EXPORT void softcuda_read_only(const void* p, unsigned size) { check_read_only(uintptr_t(p), size, HERE); }
}
