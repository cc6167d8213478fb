// Races that harm nothing as far as a launch shows: they are kept until it ends, and then a note or a finding.
//
// - A word that a thread writes just after it has tested it, which keeps one value from then on, the same that this
//   instruction writes everywhere: levels of a breadth-first search. What another thread reads decides about writing it,
//   and is the old value or that.
// - A plain read before an atomic minimum or maximum of the same word, which looks again.
// - A volatile word, alone among its neighbours, that is only ever set to one value: a flag by which threads stop early.
#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "device/executor.h"
#include "narrow_cells.h"

namespace softcuda {
namespace {

enum class Usual { level, test, flag };
struct Doubt { // a pair of instructions that race
    Usual usual;
    const char* kind;
    uintptr_t pc, other, writer; // `writer`: of the two, which writes
    std::string text;
    bool harms = false;
};
struct Word { // that such a pair races on
    size_t doubt;
    uint32_t value = 0;
    bool known = false; // `value` is: the write that is looked at has not been done
};
constexpr size_t most_words = 1u << 16, most_doubts = 64;

struct Benign {
    std::vector<Doubt> doubts;
    std::unordered_map<uintptr_t, Word> words;
    std::unordered_set<uintptr_t> bounding, tests; // atomic operations; plain reads before one of the same word
} & benign = *new Benign;

uint32_t value_at(uintptr_t word)
{
    uint32_t value;
    memcpy(&value, reinterpret_cast<const void*>(word), sizeof value);
    return value;
}

bool is_written_in_launch(uintptr_t word, const SharedRegion* region)
{
    const Cell* cell = nullptr;
    if (!region)
        cell = cell_of(word);
    else if (word - region->first < region->size)
        cell = &region->cells[(word - region->first) / 4];
    return cell && cell->write.interval >= (region ? ordering.block_start : ordering.launch_start) && !(cell->write.flags & is_read);
}

bool is_alone(uintptr_t word, const SharedRegion* region)
{
    return !is_written_in_launch(word - 4, region) && !is_written_in_launch(word + 4, region);
}

// What is usual of such a race; false where nothing is known.
bool is_usual(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region, Usual& usual)
{
    const bool strong = earlier.flags & (is_atomic | is_volatile);
    if (access.size != 4 || earlier.bytes != all_written)
        return false;
    if (access.kind == Kind::is_volatile && earlier.flags & is_volatile) {
        usual = Usual::flag;
        return is_alone(access.address, region);
    }
    usual = Usual::test;
    if (access.is_atomic())
        return checker.bounds && !wrote && !strong;
    if (!access.write && wrote && earlier.flags & is_atomic)
        return access.kind == Kind::plain && benign.bounding.count(site_of_race(earlier));
    usual = Usual::level;
    if (region || strong || access.kind != Kind::plain)
        return false;
    return access.write ? checker.reads[running.thread].reader(access.address) != 0 : earlier.flags & is_tested;
}

Doubt* doubt_of(const char* kind, uintptr_t pc, uintptr_t other)
{
    const auto found = std::find_if(benign.doubts.begin(), benign.doubts.end(),
        [&](const Doubt& doubt) { return doubt.pc == pc && doubt.other == other && doubt.kind == kind; });
    return found == benign.doubts.end() ? nullptr : &*found;
}

// Whether an instruction has written the same value wherever it was the last that wrote.
bool writes_one_value(uintptr_t writer)
{
    bool any = false;
    uint32_t value = 0;
    for (const uintptr_t page : pages_touched()) {
        const uintptr_t first = arena.first + (page << page_bits);
        const Cell* cells = cell_of(first);
        for (size_t i = 0; cells && i < cells_of_page; ++i) {
            const Epoch& write = cells[i].write;
            if (write.interval < ordering.launch_start || write.flags & (is_read | is_split) || checker.text + write.site != writer)
                continue;
            if (any && value_at(first + 4 * i) != value)
                return false;
            any = true, value = value_at(first + 4 * i);
        }
    }
    return true;
}

bool is_harmless(const Doubt& doubt)
{
    if (doubt.harms)
        return false;
    if (doubt.usual == Usual::test)
        return benign.tests.count(doubt.writer == doubt.pc ? doubt.other : doubt.pc);
    return doubt.usual == Usual::flag || writes_one_value(doubt.writer);
}

const char* why_harmless(Usual usual)
{
    return usual == Usual::flag ? "a volatile flag that is only ever set to one value"
        : usual == Usual::test ? "the atomic operation behind the plain read looks again; a volatile or atomic read would say so"
                               : "every thread that writes has tested the word and writes the same value";
}

std::string in_words(const Doubt& doubt)
{
    std::string one = where(doubt.pc), two = doubt.other ? where(doubt.other) : one;
    if (two < one)
        std::swap(one, two);
    return "a race " + in_kernel() + " of " + one + (one == two ? " with itself" : " and " + two) + " is taken for harmless: " + why_harmless(doubt.usual);
}

} // namespace

void bound_by_atomic(uintptr_t address, uintptr_t pc)
{
    benign.bounding.insert(pc);
    if (const uintptr_t test = checker.reads[running.thread].reader(address))
        benign.tests.insert(test);
}

bool is_benign_so_far(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region)
{
    Usual usual;
    if (!is_usual(earlier, wrote, access, region, usual) || benign.words.size() == most_words)
        return false;
    const char* kind = earlier.interval >= ordering.block_start ? "race" : "race between blocks";
    // An earlier block's read is told without its line, and known by it.
    const uintptr_t other = earlier.site ? checker.text + (site_of_race(earlier) ? site_of_race(earlier) - checker.text : earlier.site) : 0;
    Doubt* doubt = doubt_of(kind, access.pc, other);
    if (!doubt) {
        const uintptr_t test = wrote && access.write ? checker.reads[running.thread].reader(access.address) : wrote ? access.pc : other;
        const bool is_decided = usual != Usual::level || decides(test, access.write ? access.pc : other);
        if (benign.doubts.size() == most_doubts || !is_decided)
            return false;
        benign.doubts.push_back({usual, kind, access.pc, other, access.write ? access.pc : other, race_in_words(earlier, wrote, access, region)});
        doubt = &benign.doubts.back();
    }
    if (usual == Usual::test)
        return true;
    const auto [at, is_new] = benign.words.try_emplace(access.address);
    if (is_new) {
        at->second = {size_t(doubt - benign.doubts.data()), value_at(access.address), !access.write};
        watch_more(Watched::benign, true);
    }
    return true;
}

void watch_benign(uintptr_t address, unsigned size)
{
    for (uintptr_t word = address & ~uintptr_t(3); word < address + size; word += 4) {
        const auto found = benign.words.find(word);
        if (found == benign.words.end())
            continue;
        Word& known = found->second;
        if (known.known && known.value != value_at(word))
            benign.doubts[known.doubt].harms = true;
        known.value = value_at(word), known.known = true;
    }
}

void benign_begin_launch()
{
    benign.doubts.clear(), benign.words.clear(), benign.bounding.clear(), benign.tests.clear();
    watch_more(Watched::benign, false);
    for (RecentReads& reads : checker.reads)
        reads = {};
}

void judge_benign()
{
    for (const auto& [word, known] : benign.words)
        if (known.known && known.value != value_at(word))
            benign.doubts[known.doubt].harms = true;
    benign.words.clear();
    std::vector<Doubt> doubts;
    doubts.swap(benign.doubts);
    for (const Doubt& doubt : doubts)
        if (is_harmless(doubt))
            add_note(Note::remark, in_words(doubt));
        else if (is_different(doubt.kind, doubt.pc, doubt.other))
            tell(launch_failed, doubt.text);
}

} // namespace softcuda
