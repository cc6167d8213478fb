// What is looked at beside the checker's cells, at every access while there is something: a word of shared memory to
// which a copy is under way, and a word that was read before anything wrote it.
//
// Such a read is a fault, and which one is seen only by going on: where the word is written later, an order is
// missing, and otherwise a load. So the launch goes on until that is known, or another fault is found, or for two seconds.
#include <algorithm>

#include "checker.h"
#include "device/executor.h"

namespace softcuda {

bool watching = false;

namespace {

constexpr double longest_watch = 2; // seconds that a launch goes on after such a read

bool wanted[4] {}; // by Watched
struct EarlyRead {
    size_t finding; // its number
    uintptr_t address;
    unsigned size, thread;
    bool of_shared, atomic;
    Dim block;
    uintptr_t pc;
    std::string text, depends;
};
std::vector<EarlyRead>& early = *new std::vector<EarlyRead>; // of which it is not known who writes there

bool is_same(const Dim& a, const Dim& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

std::string what_is_missing(const EarlyRead& read)
{
    if (!is_same(read.block, running.block_index))
        return "blocks of a launch come in any order";
    if (read.thread == running.thread)
        return "the same thread reads first";
    return "a barrier between is missing, or both are on the wrong side of it";
}

void close(const EarlyRead& read, const std::string& what)
{
    // What helps to find who should have written it: the cells still know who wrote beside it.
    const std::string beside = read.of_shared ? nearest_write(read.address) : "";
    set_finding(read.finding, {launch_failed, read.text + what + read.depends + beside});
}

void close_those_written(uintptr_t address, unsigned size, uintptr_t pc)
{
    for (size_t i = 0; i < early.size();) {
        const EarlyRead read = early[i];
        if (address >= read.address + read.size || read.address >= address + size) {
            ++i;
            continue;
        }
        is_different("race", read.pc, pc); // which would say the same
        set_finding(read.finding,
            {launch_failed, read.text + ", which is written only later\n  " + where(pc) + ": " + who(running.thread) + " writes "
                    + (read.of_shared ? "it" : "there") + ": " + what_is_missing(read) + read.depends});
        early.erase(early.begin() + long(i));
    }
    watch_more(Watched::early_read, !early.empty());
}

} // namespace

void watch_more(Watched what, bool on)
{
    wanted[int(what)] = on;
    watching = wanted[0] || wanted[1] || wanted[2] || wanted[3];
    note_near();
}

void watched_access(uintptr_t address, unsigned size, bool write, bool sets, uintptr_t pc)
{
    if (wanted[int(Watched::rewrites)])
        judge_rewrites();
    if (wanted[int(Watched::copies)] && is_copied_to(address, size)) {
        uintptr_t word = address & ~uintptr_t(3);
        while (!is_copied_to(word, 4))
            word += 4;
        touched_while_copied(word, size, write, pc);
    }
    if (write && wanted[int(Watched::benign)])
        watch_benign(address, size);
    if (sets && !early.empty()) // an atomic operation reads first, too
        close_those_written(address, size, pc);
}

void read_too_early(
    uintptr_t address, unsigned size, uintptr_t pc, bool of_shared, bool atomic, const std::string& text, const std::string& depends)
{
    if (of_shared && !atomic && begin_twin())
        return;
    early.push_back({begin_finding(), address, size, running.thread, of_shared, atomic, running.block_index, pc, text, depends});
    watch_more(Watched::early_read, true);
    stop_within(longest_watch);
}

void close_early_reads()
{
    for (const EarlyRead& read : early)
        close(read, ", which nothing had written");
    forget_early_reads();
}

void early_reads_at_the_end_of_a_block(bool last)
{
    const auto settled = [&](const EarlyRead& read) {
        if (!last && !read.of_shared)
            return false;
        if (read.of_shared && !read.atomic)
            unused_if_twin_agrees(read.finding);
        const std::string where_to = read.of_shared ? "block" : "launch";
        close(read, read.atomic ? ", which nothing sets in this " + where_to + ": set it first, with a barrier behind"
                                : ", which nothing writes in this " + where_to);
        return true;
    };
    early.erase(std::remove_if(early.begin(), early.end(), settled), early.end());
    watch_more(Watched::early_read, !early.empty());
}

void forget_early_reads()
{
    early.clear();
    watch_more(Watched::early_read, false);
}

} // namespace softcuda
