// Threads of a block that write the same value to one address, with nothing that orders them, are no race: whichever comes
// last, that value is there. Between blocks this holds for 0 and 1, as of a flag that each thread sets which finds
// something; other values are told, since blocks that compute the same element are a mistake of the grid. Whether a write
// changes what is there is seen when it has been done: at the next access of any thread, or at the next barrier.
#include <algorithm>
#include <cstring>

#include "checker.h"

namespace softcuda {

namespace {

struct Rewrite { // of up to 4 bytes; larger accesses come in parts
    Epoch earlier;
    Access access;
    unsigned thread;
    const SharedRegion* region;
    unsigned char before[4];
};
std::vector<Rewrite>& rewrites = *new std::vector<Rewrite>; // that have been checked and perhaps not been done

unsigned length(const Access& access) { return std::min(access.size, 4u); }

bool is_harmless(const Rewrite& rewrite)
{
    const bool is_flag = rewrite.before[0] <= 1 && !rewrite.before[1] && !rewrite.before[2] && !rewrite.before[3];
    const bool in_block = rewrite.earlier.interval >= ordering.block_start;
    return (in_block || is_flag) && !memcmp(rewrite.before, reinterpret_cast<void*>(rewrite.access.address), length(rewrite.access));
}

} // namespace

bool is_rewrite(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region)
{
    const bool both_plain = access.kind == Kind::plain && !(earlier.flags & (is_atomic | is_volatile));
    if (!wrote || !access.write || !both_plain || !checker.one_store)
        return false;
    Rewrite rewrite {earlier, access, running.thread, region, {}};
    memcpy(rewrite.before, reinterpret_cast<void*>(access.address), length(access));
    rewrites.push_back(rewrite);
    watch_more(Watched::rewrites, true);
    return true;
}

void judge_rewrites()
{
    std::vector<Rewrite> done;
    done.swap(rewrites);
    watch_more(Watched::rewrites, false);
    const unsigned thread = running.thread;
    for (const Rewrite& rewrite : done)
        if (!is_harmless(rewrite)) {
            running.thread = rewrite.thread;
            const bool is_same = !memcmp(rewrite.before, reinterpret_cast<void*>(rewrite.access.address), length(rewrite.access));
            checker.same_value = is_same;
            if (!is_same || !is_benign_so_far(rewrite.earlier, true, rewrite.access, rewrite.region))
                data_race(rewrite.earlier, true, rewrite.access, rewrite.region);
            checker.same_value = false;
        }
    running.thread = thread;
}

void forget_rewrites()
{
    rewrites.clear();
    watch_more(Watched::rewrites, false);
}

} // namespace softcuda
