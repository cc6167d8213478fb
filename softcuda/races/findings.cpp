// What a bad access is called, and where: the checker finds it, the developer of the kernel reads it here.
#include "kernel_races.h"

namespace softcuda {
namespace {

std::string verb(bool write, bool atomic) { return atomic ? "changes (atomically)" : write ? "writes" : "reads"; }

std::string access_text(uintptr_t pc, unsigned size, bool write, bool atomic = false)
{
    const std::string doing = in_kernel() + "\n  " + where(pc) + ": " + who(running.thread) + " " + verb(write, atomic) + " ";
    return doing + count_bytes(copy_now.size ? copy_now.size : size) + (copy_now.size && copy_now.is_asynchronous ? " (asynchronous copy)" : "");
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

std::string element(uintptr_t address)
{
    const Allocation* array = allocation_at(address);
    return array ? name_allocation(*array) + " at byte " + std::to_string(address - array->base) : hex(address);
}

std::string shared_name(const SharedRegion& region, uintptr_t address, bool with_offset)
{
    if (&region == &checker.dynamic)
        return "dynamic shared memory" + (with_offset ? " at byte " + std::to_string(address - region.first) : "");
    const Symbol* best = nullptr;
    for (const Symbol* s = checker.image->first_symbol; s != checker.image->last_symbol; ++s)
        if (s->is_shared_of(*running.launch->function->entry) && s->size && uintptr_t(s->address) <= address
            && (!best || s->address > best->address))
            best = s;
    if (!best)
        return "shared memory";
    const size_t distance = address - uintptr_t(best->address);
    return name_symbol(best->name) + (with_offset ? " at byte " + std::to_string(distance) : "");
}

} // namespace

void out_of_bounds(uintptr_t address, unsigned size, bool write, uintptr_t pc, const std::string& target, bool goes_on)
{
    if (is_different("out of bounds", pc))
        tell(illegal_address,
            "out of bounds " + access_text(pc, size, write) + " at " + hex(address) + ", " + target + dependences(pc, write));
    if (!goes_on)
        end_launch();
}

void misaligned(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    if (is_different("misaligned access", pc))
        tell(misaligned_address,
            "misaligned access " + access_text(pc, size, write) + " at " + hex(address) + ", which is no multiple of "
                + std::to_string(size) + in_variable(address) + dependences(pc, write));
    if (size > 8) // the host may not have it either
        end_launch();
}

void bad_global(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    if (copy_now.size) // a copy is checked by words, and is one access
        address = copy_now.address, size = copy_now.size;
    const Allocation* near = allocation_near(address);
    const bool goes_on = may_go_on(address, size);
    if (near && near->live) {
        out_of_bounds(
            address, size, write, pc, relation(address, size, near->base, near->size) + name_allocation(*near), goes_on);
    } else if (!near) {
        out_of_bounds(address, size, write, pc, "where there is no array", goes_on);
    } else {
        if (is_different("use after free", pc))
            tell(illegal_address,
                "use after free " + access_text(pc, size, write) + " at " + hex(address) + ", in an array of "
                    + count_bytes(near->size) + " that was freed");
        if (!goes_on)
            end_launch();
    }
}

void bad_shared(const SharedRegion& region, uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    if (&region == &checker.dynamic && (running.launch->dynamic_shared || checker.fixed.inside.empty())) {
        out_of_bounds(address, size, write, pc,
            relation(address, size, region.first, running.launch->dynamic_shared) + "dynamic shared memory, "
                + count_bytes(running.launch->dynamic_shared), true);
        return;
    }
    const Symbol* nearest = nullptr;
    size_t distance = ~size_t(0);
    for (const Symbol* s = checker.image->first_symbol; s != checker.image->last_symbol; ++s) {
        if (!s->is_shared_of(*running.launch->function->entry) || !s->size)
            continue;
        const uintptr_t first = uintptr_t(s->address), end = first + s->size;
        const size_t away = address >= first ? (address >= end ? address - end : 0) : first - address;
        if (away < distance)
            distance = away, nearest = s;
    }
    if (!nearest)
        return out_of_bounds(address, size, write, pc, "in dynamic shared memory, of which the launch asks for 0 bytes", true);
    out_of_bounds(address, size, write, pc,
        relation(address, size, uintptr_t(nearest->address), nearest->size) + describe_symbol(*nearest), true);
}

namespace {

std::string race_text(const Access& access, const SharedRegion* region, const char* between = "")
{
    return std::string("race") + between + " " + access_text(access.pc, access.size, access.write, access.is_atomic()) + " of "
        + (region ? "shared " + shared_name(*region, access.address, true) : element(access.address));
}

std::string what_it_did(const Epoch& earlier, bool wrote)
{
    return earlier.flags & is_atomic ? " changed them atomically" : wrote ? checker.same_value ? " wrote the same value" : " wrote them" : " read them";
}

std::string race_in_block(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region)
{
    const Place other = unordered_one(earlier);
    const uintptr_t site = site_of_race(earlier);
    const bool two = site && (where(site) != where(access.pc) || wrote != access.write);
    // By volatile, and no barrier, a warp's lanes hand data on where code was written for GPUs before Volta.
    const bool lockstep = access.kind == Kind::is_volatile && is_same_warp(other.thread, running.thread);
    const Symbol* symbol = two ? nullptr : symbol_at(access.address); // threads meet in one line by an array's shape, too
    return race_text(access, region) + (symbol ? declared_at(*symbol) : "") + "\n  " + (site ? where(site) + ": " : "")
        + who(other.thread) + what_it_did(earlier, wrote) + ", with no barrier between"
        + (lockstep ? ": before Volta the lanes of a warp ran in step; now __syncwarp() must be between" : "")
        + (two ? dependences(access.pc, access.write, "first ") + dependences(site, wrote, "second ")
               : dependences(access.pc, access.write));
}

// What is missing between two blocks.
std::string why_unordered(const Epoch& earlier)
{
    if (ordering.lacks == Lacks::fence)
        return "and the atomic operation that tells of it has no fence behind: __threadfence() must come before they are read";
    if (ordering.lacks == Lacks::scope || checker.of_block || (earlier.flags & is_atomic && earlier.flags & of_block))
        return "and an operation of a block's scope (_block, thread_scope_block) is not atomic to others";
    return std::string("and nothing orders the blocks")
        + (both_use_atomics(earlier.interval) ? ": atomic operations do that with a __threadfence() before, by the thread that "
                                                "wrote, and one behind, by the thread that reads"
                                              : "");
}

std::string race_between_blocks(const Epoch& earlier, bool wrote, const Access& access)
{
    uint64_t ordinal = 0;
    const uintptr_t site = site_of_race(earlier);
    if (site)
        ordinal_of(earlier.interval, ordinal);
    return race_text(access, nullptr, " between blocks") + "\n  "
        + (site ? where(site) + ": " + who(earlier.thread, block_that_ran(ordinal)) : "another block")
        + what_it_did(earlier, wrote) + " in the same launch, " + why_unordered(earlier) + dependences(access.pc, access.write);
}

} // namespace

uintptr_t site_of_race(const Epoch& earlier)
{
    uint64_t ordinal = 0;
    if (earlier.interval < ordering.block_start)
        return earlier.interval == 0 || !ordinal_of(earlier.interval, ordinal) ? 0 : checker.text + earlier.site;
    const Place other = unordered_one(earlier);
    return other.site ? checker.text + other.site : 0;
}

std::string race_in_words(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region)
{
    return earlier.interval >= ordering.block_start ? race_in_block(earlier, wrote, access, region)
                                                    : race_between_blocks(earlier, wrote, access);
}

void data_race(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region)
{
    const char* kind = earlier.interval >= ordering.block_start ? "race" : "race between blocks";
    if (is_different(kind, access.pc, site_of_race(earlier)))
        tell(launch_failed, race_in_words(earlier, wrote, access, region));
}

std::string name_of_place(uintptr_t address)
{
    for (const SharedRegion* region : {&checker.fixed, &checker.dynamic})
        if (checker.active && address - region->first < region->size)
            return "shared " + shared_name(*region, address, true);
    return element(address);
}

void stale_read(const Epoch& write, uintptr_t address, unsigned size, uintptr_t pc)
{
    uint64_t ordinal = 0;
    const bool in_block = write.interval >= ordering.block_start;
    const bool forgotten = !in_block && !ordinal_of(write.interval, ordinal);
    const std::string writer = in_block ? who(write.thread) : forgotten ? "another block" : who(write.thread, block_that_ran(ordinal));
    fault(launch_failed, "stale texture read " + access_text(pc, size, false) + " of " + element(address)
            + " through a texture or surface\n  " + (forgotten ? "" : where(checker.text + write.site) + ": ") + writer
            + " wrote them in the same launch, which its cache does not see: read them in the next launch, or by a pointer");
}

void stale_read_only(const Epoch& write, uintptr_t address, unsigned size, uintptr_t pc)
{
    const uintptr_t site = checker.text + write.site;
    if (!is_different("stale read", pc, site))
        return;
    uint64_t ordinal = 0;
    const bool in_block = write.interval >= ordering.block_start;
    const bool forgotten = !in_block && !ordinal_of(write.interval, ordinal);
    tell(launch_failed, "stale read " + access_text(pc, size, false) + " of " + element(address)
            + " through the read-only cache\n  " + where(site) + ": "
            + (in_block ? who(write.thread) : forgotten ? "another block" : who(write.thread, block_that_ran(ordinal)))
            + " wrote them in the same launch, which __ldg and ld.global.nc do not see: read them by an ordinary load");
}

void bad_variable(const Symbol& nearest, uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    out_of_bounds(address, size, write, pc,
        relation(address, size, uintptr_t(nearest.address), nearest.size) + describe_symbol(nearest), true);
}

void write_to_constant(const Symbol& symbol, unsigned size, uintptr_t pc)
{
    fault(illegal_address, "write to constant memory " + access_text(pc, size, true) + " of " + name_symbol(symbol.name));
}

void uninitialised_global(uintptr_t address, unsigned size, bool atomic, uintptr_t pc)
{
    if (is_different("uninitialised memory", pc))
        read_too_early(address, size, pc, false, atomic,
            "uninitialised memory " + access_text(pc, size, false, atomic) + " of " + element(address), dependences(pc, false));
}

void uninitialised_shared(const SharedRegion& region, uintptr_t address, unsigned size, bool atomic, uintptr_t pc)
{
    if (is_different("uninitialised memory", pc))
        read_too_early(address, size, pc, true, atomic,
            "uninitialised memory " + access_text(pc, size, false, atomic) + " of shared " + shared_name(region, address, true),
            dependences(pc, false));
}

std::string nearest_write(uintptr_t address)
{
    const bool is_dynamic = address - checker.dynamic.first < checker.dynamic.size;
    const SharedRegion& region = is_dynamic ? checker.dynamic : checker.fixed;
    const size_t offset = address - region.first, middle = offset / 4;
    size_t first = offset, last = offset; // of the variable
    while (first > 0 && region.inside[first - 1])
        --first;
    while (last + 1 < region.size && region.inside[last + 1])
        ++last;
    const auto is_written = [&](size_t cell) { return region.written[cell] && region.cells[cell].write.site; };
    for (size_t away = 1; middle >= first / 4 + away || middle + away <= last / 4; ++away)
        for (const size_t cell : {middle - away, middle + away})
            if (cell >= first / 4 && cell <= last / 4 && is_written(cell)) {
                const Epoch& write = region.cells[cell].write;
                const uintptr_t site = checker.text + write.site;
                return "\n  " + where(site) + ": " + who(write.thread) + " wrote the nearest that is written, "
                    + shared_name(region, region.first + 4 * cell, true) + dependences(site, true);
            }
    return "";
}

std::string name_shared(uintptr_t address)
{
    for (const SharedRegion* region : {&checker.fixed, &checker.dynamic})
        if (address - region->first < region->size)
            return "shared " + shared_name(*region, address, true);
    return hex(address);
}

std::string access_of_shared(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    const bool is_dynamic = address - checker.dynamic.first < checker.dynamic.size;
    return access_text(pc, size, write) + " of shared "
        + shared_name(is_dynamic ? checker.dynamic : checker.fixed, address, true);
}

} // namespace softcuda
