// The clocks of lanes, fences, and what atomic operations hand on. ordering.h says what orders what.
//
// Between blocks it is kept coarser than it is, and always so that more counts as ordered: a block that acquired
// anything of another acquired all that this one had released.
#include "ordering.h"

#include <algorithm>
#include <bitset>
#include <unordered_map>

namespace softcuda {

Ordering ordering;

namespace {

// Blocks, by when they ran: runs of numbers, ascending. Nearly always one.
struct Runs {
    std::vector<std::pair<uint64_t, uint64_t>> runs; // first, last

    bool has(uint64_t number) const
    {
        for (const auto& run : runs)
            if (number <= run.second)
                return number >= run.first;
        return false;
    }

    void add(uint64_t first, uint64_t last)
    {
        auto at = std::find_if(runs.begin(), runs.end(), [&](const auto& run) { return run.second + 1 >= first; });
        if (at == runs.end() || at->first > last + 1) {
            runs.insert(at, {first, last});
        } else {
            at->first = std::min(at->first, first);
            at->second = std::max(at->second, last);
            auto after = at + 1;
            for (; after != runs.end() && after->first <= at->second + 1; ++after)
                at->second = std::max(at->second, after->second);
            runs.erase(at + 1, after);
        }
        if (runs.size() > 64) { // then what lies between the last two counts too
            runs[62].second = runs[63].second;
            runs.resize(63);
        }
    }

    void add(const Runs& other)
    {
        for (const auto& run : other.runs)
            add(run.first, run.second);
    }
};

// A thread's last fence: it covers all of the block's earlier intervals, and in its own what that thread had seen.
struct Fence {
    uint32_t interval, clock, lanes;
    uint16_t thread;
};

using Threads = std::bitset<max_threads>;
struct Word { // what was released by changing it
    Runs blocks, scoped; // `scoped`: by an operation for its block alone
    uint32_t interval = 0; // of `threads`
    Threads threads;
};
struct Knowledge { // what a thread has acquired since the last barrier
    Runs blocks, unfenced, scoped; // `unfenced`: by an atomic operation with no fence behind it yet
    Threads threads;
};

constexpr size_t max_words = 1u << 18, max_fences = 1u << 20, max_starts = 1u << 24;

struct Releases {
    std::unordered_map<uintptr_t, Word> words, shared_words;
    std::unordered_map<unsigned, Fence> fences, device_fences; // the last ones of this block's threads
    std::vector<Fence> passed; // the newest of device_fences that a barrier has come after
    bool fenced = false, passed_on = true; // a fence since that barrier; `passed` is among `released`
    std::unordered_map<unsigned, Knowledge> knowledge;
    std::unordered_map<uint64_t, std::vector<Fence>> released; // of each block, in the last interval that had one
    size_t fences_kept = 0;
    Runs block_knows, block_unfenced, block_scoped; // since the last barrier
    std::vector<uint32_t> block_starts;
    bool too_many = false; // to remember: then nothing between blocks is accused
    Runs with_atomics; // blocks that have changed or read global memory atomically
    uint64_t last_with_atomics = ~uint64_t(0);
    bool taking_turns = false; // blocks run a part at a time
};
Releases releases;

uint64_t present_block() { return releases.block_starts.size() - 1; }

uint32_t lanes_seen(unsigned thread)
{
    uint32_t seen = 0;
    for (unsigned lane = 0; lane < warp_size; ++lane)
        seen |= uint32_t(ordering.lanes[thread][lane] > 0) << lane;
    return seen;
}

void reset_warp(unsigned warp)
{
    for (unsigned lane = 0; lane < warp_size; ++lane) {
        uint32_t* row = ordering.lanes[warp * warp_size + lane];
        std::fill_n(row, warp_size, 0u);
        row[lane] = 1;
    }
    ordering.met[warp] = false;
}

void keep_fence(const Fence& fence)
{
    std::vector<Fence>& kept = releases.released[present_block()];
    if (!kept.empty() && kept.front().interval > fence.interval)
        return;
    if (!kept.empty() && kept.front().interval < fence.interval) {
        releases.fences_kept -= kept.size();
        kept.clear();
    }
    for (Fence& before : kept)
        if (before.thread == fence.thread) {
            before = fence;
            return;
        }
    kept.push_back(fence);
    releases.too_many |= ++releases.fences_kept > max_fences;
}

void add_threads(Word& word, const Fence& fence)
{
    if (word.interval != ordering.interval) {
        word.interval = ordering.interval;
        word.threads.reset();
    }
    if (fence.interval != ordering.interval)
        return; // what it covers lies before a barrier
    const unsigned first = fence.thread / warp_size * warp_size;
    for (unsigned lane = 0; lane < warp_size; ++lane)
        if (fence.lanes >> lane & 1u)
            word.threads.set(first + lane);
    const auto known = releases.knowledge.find(fence.thread);
    if (known != releases.knowledge.end())
        word.threads |= known->second.threads;
}

// After a barrier, whichever thread releases hands on what all the threads that had a fence before it wrote.
void fences_pass_a_barrier()
{
    releases.passed.clear();
    uint32_t newest = 0;
    for (const auto& [thread, fence] : releases.device_fences)
        newest = std::max(newest, fence.interval);
    for (const auto& [thread, fence] : releases.device_fences)
        if (fence.interval == newest)
            releases.passed.push_back(fence);
    releases.fenced = releases.passed_on = false;
}

void release(std::unordered_map<uintptr_t, Word>& words, uintptr_t address, Scope scope)
{
    const auto own = releases.fences.find(running.thread);
    if (own == releases.fences.end())
        return;
    Word& word = words[address];
    add_threads(word, own->second);
    const auto found = releases.device_fences.find(running.thread);
    if (scope == Scope::shared || found == releases.device_fences.end())
        return;
    ordering.released = true;
    releases.too_many |= words.size() > max_words;
    keep_fence(found->second);
    if (!releases.passed_on)
        for (const Fence& fence : releases.passed)
            keep_fence(fence);
    releases.passed_on = true;
    if (scope == Scope::block)
        return word.scoped.add(present_block(), present_block());
    word.blocks.add(present_block(), present_block());
    word.blocks.add(releases.block_knows);
    const auto known = releases.knowledge.find(running.thread);
    if (known != releases.knowledge.end())
        word.blocks.add(known->second.blocks);
}

void acquire(const std::unordered_map<uintptr_t, Word>& words, uintptr_t address, Scope scope, bool relaxed)
{
    const auto found = words.find(address);
    if (found == words.end())
        return;
    Knowledge& mine = releases.knowledge[running.thread];
    mine.scoped.add(found->second.scoped);
    (scope == Scope::block ? mine.scoped : relaxed ? mine.unfenced : mine.blocks).add(found->second.blocks);
    if (found->second.interval == ordering.interval)
        mine.threads |= found->second.threads;
    ordering.acquired = true;
}

// Lanes that meet tell each other what they have acquired.
void share_knowledge(unsigned warp, unsigned mask)
{
    Knowledge all;
    for (unsigned lane = 0; lane < warp_size; ++lane) {
        const auto known = releases.knowledge.find(warp * warp_size + lane);
        if (mask >> lane & 1u && known != releases.knowledge.end()) {
            all.blocks.add(known->second.blocks);
            all.unfenced.add(known->second.unfenced);
            all.scoped.add(known->second.scoped);
            all.threads |= known->second.threads;
        }
    }
    for (unsigned lane = 0; lane < warp_size; ++lane)
        if (mask >> lane & 1u)
            releases.knowledge[warp * warp_size + lane] = all;
}

} // namespace

void checker_lanes_met(unsigned warp, unsigned mask)
{
    uint32_t(*rows)[warp_size] = ordering.lanes + warp * warp_size;
    uint32_t all[warp_size] {};
    for (unsigned other = 0; other < warp_size; ++other) {
        if (mask >> other & 1u) { // nobody knows more of a lane than it itself
            all[other] = rows[other][other];
            continue;
        }
        for (unsigned lane = 0; lane < warp_size; ++lane)
            if (mask >> lane & 1u)
                all[other] = std::max(all[other], rows[lane][other]);
    }
    for (unsigned lane = 0; lane < warp_size; ++lane)
        if (mask >> lane & 1u) {
            std::copy_n(all, warp_size, rows[lane]);
            ++rows[lane][lane];
        }
    ordering.met[warp] = true;
    note_present();
    if (!releases.knowledge.empty())
        share_knowledge(warp, mask);
    if (ordering.fine)
        mbarrier_lanes_met(warp, mask);
}

bool ordered_in_interval(const Epoch& earlier)
{
    const unsigned me = running.thread;
    if (ordering.fine && ordered_by_mbarriers(earlier))
        return true;
    if (!releases.knowledge.empty()) {
        const auto known = releases.knowledge.find(me);
        if (known != releases.knowledge.end()
            && (earlier.flags & (by_lanes | by_warps) || known->second.threads[earlier.thread]))
            return true;
    }
    if (earlier.flags & by_warps || earlier.thread / warp_size != me / warp_size)
        return false;
    const uint32_t* known = ordering.lanes[me];
    if (!(earlier.flags & by_lanes))
        return known[earlier.thread % warp_size] >= earlier.clock;
    const Several& all = ordering.several[earlier.clock];
    for (unsigned lane = 0; lane < warp_size; ++lane)
        if (all.lanes >> lane & 1u && lane != me % warp_size && known[lane] < clock_of(all, lane))
            return false;
    return true;
}

Place unordered_one(const Epoch& earlier)
{
    const bool now = earlier.interval == ordering.interval;
    if (!now || !(earlier.flags & (by_lanes | by_warps)))
        return {earlier.thread, earlier.site};
    const unsigned me = running.thread;
    if (Place culprit; ordering.fine && earlier.flags & by_warps && (culprit = {max_threads, 0}, !ordered_by_mbarriers(earlier, &culprit))
        && culprit.thread != max_threads)
        return culprit;
    const Several& all = ordering.several[earlier.clock];
    for (unsigned lane = 0; lane < warp_size; ++lane) {
        const unsigned thread = earlier.thread / warp_size * warp_size + lane;
        const bool of_my_warp = thread / warp_size == me / warp_size;
        if (all.lanes >> lane & 1u && thread != me && !(of_my_warp && ordering.lanes[me][lane] >= clock_of(all, lane)))
            return {thread, all.apart ? ordering.apart[all.apart - 1].site[lane] : earlier.site};
    }
    return {all.other, all.other_site};
}

bool ordinal_of(uint32_t interval, uint64_t& ordinal)
{
    const auto& starts = releases.block_starts;
    const auto after = std::upper_bound(starts.begin(), starts.end(), interval);
    if (after == starts.begin() || starts.size() > max_starts)
        return false;
    ordinal = uint64_t(after - starts.begin()) - 1;
    return true;
}

namespace {
bool is_covered(const Epoch& earlier, uint64_t block);
}

bool ordered_between_blocks(const Epoch& earlier)
{
    ordering.lacks = Lacks::all;
    if (releases.too_many)
        return true;
    if (!ordering.released)
        return false;
    uint64_t block = 0;
    if (!ordinal_of(earlier.interval, block))
        return true;
    const auto known = releases.knowledge.find(running.thread);
    const Knowledge* mine = known == releases.knowledge.end() ? nullptr : &known->second;
    const bool fenced = releases.block_knows.has(block) || (mine && mine->blocks.has(block));
    const bool seen = fenced || releases.block_unfenced.has(block) || (mine && mine->unfenced.has(block));
    if (!seen && !releases.block_scoped.has(block) && !(mine && mine->scoped.has(block)))
        return false;
    const bool is_handed_on = is_covered(earlier, block);
    if (is_handed_on && !fenced)
        ordering.lacks = seen ? Lacks::fence : Lacks::scope;
    return is_handed_on && fenced;
}

namespace {

// Whether a fence covers it, of a block that has released.
bool is_covered(const Epoch& earlier, uint64_t block)
{
    const auto found = releases.released.find(block);
    if (found == releases.released.end())
        return false;
    for (const Fence& fence : found->second) {
        if (earlier.interval < fence.interval)
            return true;
        if (earlier.interval > fence.interval)
            return false;
        const unsigned lane = earlier.thread % warp_size;
        const bool of_its_warp = earlier.thread / warp_size == fence.thread / warp_size;
        if (earlier.flags & (by_lanes | by_warps)) // which ones is forgotten
            return true;
        if (earlier.thread == fence.thread ? earlier.clock <= fence.clock : of_its_warp && fence.lanes >> lane & 1u)
            return true;
    }
    return false;
}

} // namespace

void ordering_begin_launch()
{
    if (!ordering.several) {
        ordering.several = new Several[max_several];
        ordering.apart = new Apart[max_apart];
        ordering.wide = new Wide[max_wide];
    }
    releases = {};
    ordering.released = false;
    for (unsigned warp = 0; warp < max_threads / warp_size; ++warp)
        reset_warp(warp);
    ordering_next_interval();
    ordering.launch_start = ordering.interval;
}

void ordering_begin_block()
{
    ordering_next_interval();
    ordering.block_start = ordering.interval;
    ordering.acquired = releases.taking_turns;
    if (releases.block_starts.size() <= max_starts)
        releases.block_starts.push_back(ordering.interval);
    if (!releases.fences.empty()) {
        releases.fences.clear();
        releases.device_fences.clear();
        releases.passed.clear();
        releases.fenced = false;
    }
    if (!releases.shared_words.empty())
        releases.shared_words.clear();
    releases.block_knows.runs.clear();
    releases.block_unfenced.runs.clear();
    releases.block_scoped.runs.clear();
}

void ordering_blocks_take_turns() { releases.too_many = ordering.released = releases.taking_turns = true; }

void ordering_next_interval()
{
    ++ordering.interval;
    ordering.several_used = ordering.apart_used = ordering.wide_used = 0;
    if (releases.fenced)
        fences_pass_a_barrier();
    for (unsigned warp = 0; warp < max_threads / warp_size; ++warp)
        if (ordering.met[warp])
            reset_warp(warp);
    note_present();
    if (releases.knowledge.empty())
        return;
    for (const auto& [thread, known] : releases.knowledge) {
        releases.block_knows.add(known.blocks);
        releases.block_unfenced.add(known.unfenced);
        releases.block_scoped.add(known.scoped);
    }
    releases.knowledge.clear();
}

void release_and_acquire(uintptr_t word, Scope scope, bool releases_too, bool acquires, bool relaxed)
{
    auto& words = scope == Scope::shared ? releases.shared_words : releases.words;
    if (relaxed && scope != Scope::shared && releases.last_with_atomics != present_block()) {
        releases.last_with_atomics = present_block();
        releases.with_atomics.add(present_block(), present_block());
    }
    if (acquires && !words.empty())
        acquire(words, word, scope, relaxed);
    if (releases_too && !releases.fences.empty())
        release(words, word, scope);
}

// What a thread, or one of its block before the last barrier, has acquired by an atomic operation, is ordered from here on.
void acquired_is_fenced(unsigned thread)
{
    const auto known = releases.knowledge.find(thread);
    if (known == releases.knowledge.end() && releases.block_unfenced.runs.empty())
        return;
    Knowledge& mine = releases.knowledge[thread];
    mine.blocks.add(mine.unfenced);
    mine.blocks.add(releases.block_unfenced);
    mine.unfenced.runs.clear();
}

bool both_use_atomics(uint32_t interval)
{
    uint64_t block = 0;
    return ordinal_of(interval, block) && releases.with_atomics.has(block) && releases.with_atomics.has(present_block());
}

} // namespace softcuda

using namespace softcuda;

extern "C" EXPORT void softcuda_fence(int whole_device)
{
    if (!checker_is_active())
        return;
    const unsigned me = running.thread;
    uint32_t& clock = ordering.lanes[me][me % warp_size];
    const Fence fence {ordering.interval, clock, lanes_seen(me), uint16_t(me)};
    releases.fences[me] = fence;
    if (whole_device)
        releases.device_fences[me] = fence, releases.fenced = true;
    if (whole_device)
        acquired_is_fenced(me);
    ++clock; // what comes after the fence is not covered by it
    note_present();
    flags_after_fence();
    ordering.met[me / warp_size] = true;
}
