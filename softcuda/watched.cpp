// What is looked at beside the checker's cells, at every access while there is something: a word of shared memory to
// which a copy is under way, and a word that was read before anything wrote it.
//
// Such a read is a fault, and which one is seen only by going on: where the word is written later, an order is
// missing, and otherwise a load. So the launch goes on until that is known, or for two seconds; a fault that comes of
// the read meanwhile is not told.
#include "checker.h"
#include "executor.h"

namespace softcuda {

bool watching = false;

namespace {

constexpr double patience = 2; // seconds that a launch goes on after such a read

bool wanted[2] {}; // by Watched
struct EarlyRead {
    uintptr_t address = 0;
    unsigned size = 0; // 0: there was none
    unsigned thread = 0;
    bool of_shared = false;
    Dim block {};
    std::string text, depends;
} early;

bool is_same(const Dim& a, const Dim& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

std::string what_is_missing()
{
    if (!is_same(early.block, running.block_index))
        return "blocks of a launch come in any order";
    if (early.thread == running.thread)
        return "the same thread reads first";
    return "a barrier between is missing, or both are on the wrong side of it";
}

// What helps to find who should have written it: the cells still know who wrote beside it.
std::string what_else() { return early.depends + (early.of_shared ? nearest_write(early.address) : ""); }

} // namespace

void watch_more(Watched what, bool on)
{
    wanted[int(what)] = on;
    watching = wanted[0] || wanted[1];
}

void watched_access(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    if (wanted[int(Watched::copies)] && is_copied_to(address, size)) {
        uintptr_t word = address & ~uintptr_t(3);
        while (!is_copied_to(word, 4))
            word += 4;
        touched_while_copied(word, access_of_shared(address, size, write, pc));
    }
    if (write && early.size && address < early.address + early.size && early.address < address + size)
        fault(launch_failed,
            early.text + ", which is written only later\n  " + where(pc) + ": " + who(running.thread) + " writes "
                + (early.of_shared ? "it" : "there") + ": " + what_is_missing() + early.depends);
}

bool is_read_too_early() { return early.size; }

void read_too_early(
    uintptr_t address, unsigned size, bool of_shared, const std::string& text, const std::string& depends)
{
    early = {address, size, running.thread, of_shared, running.block_index, text, depends};
    watch_more(Watched::early_read, true);
    stop_within(patience);
}

void prefer_early_read(Finding& finding)
{
    if (early.size && finding.text.compare(0, early.text.size(), early.text) != 0)
        finding = {launch_failed, early.text + ", which nothing had written" + what_else()};
}

Finding early_read_at_the_end_of_a_block(bool last)
{
    if (!early.size || !(last || early.of_shared))
        return {};
    return {launch_failed, early.text + ", which nothing writes in this " + (early.of_shared ? "block" : "launch") + what_else()};
}

void forget_early_read()
{
    early = {};
    watch_more(Watched::early_read, false);
}

} // namespace softcuda
