// Values that threads exchange through a pointer that is declared __restrict__ (compiling/restricted.py says where).
//
// C++ says of such a pointer that nothing else changes what it leads to while the function runs. So the compiler may keep
// that in a register, or load it before a barrier. It is seen by the cells when the function is left, and for a kernel's
// own parameters when the launch has ended: a word that one thread wrote and another read later, ordered by a barrier. What
// is not ordered is a race. Where another pointer of the function leads to the same memory too, nobody knows which was used.
#include <algorithm>
#include <cstring>
#include <map>

#include "device/executor.h"
#include "narrow_cells.h"

namespace softcuda {
namespace {

constexpr unsigned most_looks = 64; // at what one function was given, in a launch
constexpr size_t most_looked_at = size_t(1) << 18; // bytes behind a pointer

struct Body { // of the function: its lines, and the names of its pointers that are restrict
    std::string file;
    unsigned first, last;
    std::vector<std::string> names;
};
struct Looks {
    unsigned count = 0;
    uint32_t interval = 0;
};
struct RestrictsOfLaunch {
    std::map<const char*, Looks> looks;
    std::vector<const char*> kernels;
    bool known = false; // those of the kernel
    bool in_turns = false; // then intervals do not tell blocks apart
} & restricts = *new RestrictsOfLaunch;

Body body_of(const char* record)
{
    std::vector<std::string> parts(1);
    for (; *record; ++record)
        if (*record == '|')
            parts.emplace_back();
        else
            parts.back() += *record;
    return {parts[0], unsigned(std::stoul(parts[1])), unsigned(std::stoul(parts[2])), {parts.begin() + 3, parts.end()}};
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_of_body(const Body& body, uintptr_t pc)
{
    for (const std::string& place : lines_of(pc)) {
        const size_t colon = place.rfind(':');
        const unsigned line = unsigned(std::stoul(place.substr(colon + 1)));
        if (base_name(place.substr(0, colon)) == base_name(body.file) && line >= body.first && line <= body.last)
            return true;
    }
    return false;
}

const SharedRegion* shared_at(uintptr_t address)
{
    for (const SharedRegion* region : {&checker.fixed, &checker.dynamic})
        if (address - region->first < region->size && region->inside[address - region->first])
            return region;
    return nullptr;
}

Region memory_behind(uintptr_t address)
{
    if (const SharedRegion* region = shared_at(address)) {
        size_t first = address - region->first, last = first;
        while (first > 0 && region->inside[first - 1])
            --first;
        while (last < region->size && region->inside[last])
            ++last;
        return {region->first + first, last - first};
    }
    const Allocation* array = address - arena.first < arena.size ? allocation_at(address) : nullptr;
    return array && array->live ? Region {array->base, array->size} : Region {0, 0};
}

bool leads_to(const Region& memory, uintptr_t address) { return address - memory.first < memory.size; }

// What is known of a word, with its readers in the plain form.
Cell plain(const Cell& cell)
{
    Cell same = cell;
    same.read = not_dense(cell.read);
    return same;
}

// Whether one thread has read what another wrote since an interval, in one that came later.
bool is_exchanged(const Cell& cell, uint32_t since)
{
    const Epoch &write = cell.write, &read = cell.read;
    if (write.interval < since || write.flags & (is_read | is_split) || read.interval <= write.interval)
        return false;
    if (!(read.bytes & write.bytes) || read.flags & (is_atomic | is_volatile))
        return false;
    uint64_t writer = 0, reader = 0;
    const bool of_one_block = ordinal_of(write.interval, writer) && ordinal_of(read.interval, reader) && writer == reader;
    return !of_one_block || read.thread != write.thread || read.flags & (by_lanes | by_warps);
}

std::string who_was(const Epoch& epoch)
{
    uint64_t ordinal = 0;
    return ordinal_of(epoch.interval, ordinal) ? who(epoch.thread, block_that_ran(ordinal)) : "another block";
}

void tell_exchange(const Cell& cell, uintptr_t word, const std::string& name)
{
    const uintptr_t reader = checker.text + cell.read.site, writer = checker.text + cell.write.site;
    if (!is_different("broken restrict", reader, writer))
        return;
    const bool several = cell.read.thread == cell.write.thread;
    tell(launch_failed, "broken restrict " + in_kernel() + "\n  " + where(reader) + ": "
            + (several ? "another thread of that block" : who_was(cell.read)) + " reads "
            + count_bytes(unsigned(__builtin_popcount(cell.read.bytes))) + " of " + name_of_place(word) + " through " + name
            + ", which is __restrict__\n  " + where(writer) + ": " + who_was(cell.write)
            + " wrote them: the compiler may take it that no other thread does, and keep an older value over a barrier: declare "
            + name + " without __restrict__");
}

void look_for_exchange(const Body& body, const std::string& name, uintptr_t pointer, const Region& memory, uint32_t since)
{
    const SharedRegion* region = shared_at(pointer);
    const uintptr_t first = region ? memory.first & ~uintptr_t(3) : pointer & ~uintptr_t(3);
    const uintptr_t last = std::min(memory.first + memory.size, first + most_looked_at);
    for (uintptr_t word = first; word < last; word += 4) {
        const Cell* cell = region ? &region->cells[(word - region->first) / 4] : cell_of(word);
        if (!cell || cell->write.interval < since)
            continue;
        const Cell known = plain(*cell);
        if (is_exchanged(known, since) && is_of_body(body, checker.text + known.read.site)
            && is_of_body(body, checker.text + known.write.site))
            tell_exchange(known, word, name);
    }
}

void look_at_array(const std::string& name, const Region& memory)
{
    for (const uintptr_t page : pages_touched()) {
        const uintptr_t first = arena.first + (page << page_bits);
        const Cell* cells = leads_to(memory, first) ? cell_of(first) : nullptr;
        for (size_t i = 0; cells && i < cells_of_page && leads_to(memory, first + 4 * i); ++i)
            if (const Cell known = plain(cells[i]); is_exchanged(known, ordering.launch_start))
                tell_exchange(known, first + 4 * i, name);
    }
}

// The pointer that a kernel got for a parameter of that name, and whether any other argument leads to the same array.
uintptr_t argument_of(const std::string& name)
{
    const Launch& launch = *running.launch;
    const KernelRecord& entry = *launch.function->entry->record;
    const std::string names = std::string(entry.parameters) + ",";
    size_t begin = 0;
    for (unsigned i = 0; i < entry.argument_count; ++i) {
        begin = names.find_first_not_of(' ', begin);
        const size_t end = names.find(',', begin);
        uintptr_t pointer = 0;
        if (names.compare(begin, end - begin, name) == 0 && entry.offsets()[i] + sizeof pointer <= launch.arguments.size()) {
            memcpy(&pointer, launch.arguments.data() + entry.offsets()[i], sizeof pointer);
            return pointer;
        }
        begin = end + 1;
    }
    return 0;
}

unsigned arguments_that_lead_to(const Region& memory)
{
    const auto& arguments = running.launch->arguments;
    unsigned count = 0;
    for (size_t at = 0; at + sizeof(uintptr_t) <= arguments.size(); at += sizeof(uintptr_t)) {
        uintptr_t pointer;
        memcpy(&pointer, arguments.data() + at, sizeof pointer);
        count += leads_to(memory, pointer);
    }
    return count;
}

} // namespace

void restricts_begin_launch() { restricts = {}; }

void restricts_in_turns() { restricts.in_turns = true; }

void judge_restricts()
{
    if (restricts.in_turns || running.launch->cooperative)
        return;
    for (const char* record : restricts.kernels) {
        const Body body = body_of(record);
        for (const std::string& name : body.names) {
            const Region memory = memory_behind(argument_of(name));
            const auto restricted = std::count_if(body.names.begin(), body.names.end(),
                [&](const std::string& other) { return leads_to(memory, argument_of(other)); });
            if (memory.size && restricted == arguments_that_lead_to(memory))
                look_at_array(name, memory);
        }
    }
}

} // namespace softcuda

using namespace softcuda;

extern "C" EXPORT void softcuda_restricts(const char* record)
{
    if (restricts.known)
        return;
    restricts.known = true;
    restricts.kernels.push_back(record);
}

extern "C" EXPORT unsigned softcuda_enters_restrict() { return ordering.interval; }

extern "C" EXPORT void softcuda_leaves_restrict(const char* record, unsigned entered, const void* const* pointers, unsigned count)
{
    if (!checker_is_active() || ordering.interval == entered || restricts.in_turns || running.launch->cooperative)
        return;
    Looks& looks = restricts.looks[record];
    if (looks.interval == ordering.interval || looks.count == most_looks)
        return;
    looks.interval = ordering.interval, ++looks.count;
    const Body body = body_of(record);
    for (size_t i = 0; i < body.names.size(); ++i) {
        const uintptr_t pointer = uintptr_t(pointers[i]);
        const Region memory = memory_behind(pointer);
        const auto leads_there = [&](const void* other) { return leads_to(memory, uintptr_t(other)); };
        if (memory.size && std::none_of(pointers + body.names.size(), pointers + count, leads_there))
            look_for_exchange(body, body.names[i], pointer, memory, entered);
    }
}
