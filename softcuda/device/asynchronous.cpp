// Asynchronous copies to shared memory (cp.async), as late as a kernel may count on: the destination is undefined from
// the call on, and has what was copied once the thread has waited for it. So a copy into what others still read is a
// race, and in a checked kernel a touch of what has not come yet is a finding; in an unchecked one it gives a NaN.
#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>

#include "races/checker.h"
#include "executor.h"
#include "mbarriers.h"

namespace softcuda {

CopyNow copy_now;

namespace {

struct Copy {
    char* to;
    const char* from;
    unsigned size, bytes; // `bytes` are copied, and the rest of `size` is zero
    uintptr_t site;
    size_t number; // of this thread's copies in the block
};

struct Tie { // what an mbarrier waits for: the thread's first so many copies
    uintptr_t barrier, site;
    size_t upto;
    uint32_t interval, clock; // of the thread then
};

struct Group {
    std::vector<Copy> copies;
    unsigned number; // of this thread's groups in the block, from 1
};

struct Copies {
    std::vector<Copy> open;   // since the last commit
    std::deque<Group> groups; // that nobody has waited for
    unsigned committed = 0;   // groups so far
    size_t begun = 0;         // copies so far
    std::vector<Tie> ties;
    // The last wait: how many groups it left, where it is, and how many there had been then.
    size_t left = 0;
    uintptr_t wait_site = 0;
    unsigned committed_then = 0;
};
Copies copies[max_threads];
bool any = false;

// Who copies to a word of shared memory and has not waited: 1 + its thread, 0 for nobody. First come the variables
// of the kernel, then what the launch adds.
std::vector<uint16_t> under_way;
size_t under_way_count = 0;

bool is_checked() { return running.launch->function->module->image->checked; }

struct Range {
    uintptr_t first;
    size_t size;
} fixed {}, extra {}; // of the present block

uint16_t* entry_of(uintptr_t address)
{
    if (address - fixed.first < fixed.size)
        return &under_way[(address - fixed.first) / 4];
    return address - extra.first < extra.size ? &under_way[(fixed.size + address - extra.first) / 4] : nullptr;
}

void mark(const Copy& copy, uint16_t value)
{
    for (unsigned i = 0; i < copy.size; i += 4)
        if (uint16_t* entry = entry_of(uintptr_t(copy.to) + i)) {
            under_way_count += size_t(value != 0) - size_t(*entry != 0);
            *entry = value;
        }
    watch_more(Watched::copies, under_way_count > 0);
}

void arrive(const Copy& copy)
{
    if (is_checked())
        mark(copy, 0);
    copy_now = {uintptr_t(copy.from), copy.bytes};
    for (unsigned i = 0; i < copy.bytes; i += 4)
        check_access(uintptr_t(copy.from) + i, 4, false, copy.site);
    copy_now = {uintptr_t(copy.to), copy.size};
    check_access(uintptr_t(copy.to), copy.size, true, copy.site);
    copy_now = {};
    std::memcpy(copy.to, copy.from, copy.bytes);
    std::memset(copy.to + copy.bytes, 0, copy.size - copy.bytes);
}

const Copy* covering(const std::vector<Copy>& among, uintptr_t address)
{
    for (const Copy& copy : among)
        if (address - uintptr_t(copy.to) < copy.size)
            return &copy;
    return nullptr;
}

// Brings a copy. Where an mbarrier waits for it, that is before what the thread did after it had said so.
void land(unsigned thread, const Copy& copy)
{
    const unsigned present = running.thread;
    uint32_t& clock = ordering.lanes[thread][thread % warp_size];
    const uint32_t now = clock;
    for (const Tie& tie : copies[thread].ties)
        if (copy.number < tie.upto && tie.interval == ordering.interval) {
            clock = tie.clock;
            break;
        }
    running.thread = thread;
    note_present();
    arrive(copy);
    running.thread = present;
    clock = now;
    note_present();
}

// Brings the first copies of a thread, wherever they stand.
void land_first(unsigned thread, size_t upto)
{
    const auto land_of = [&](std::vector<Copy>& among) {
        const auto later = std::find_if(among.begin(), among.end(), [upto](const Copy& copy) { return copy.number >= upto; });
        std::for_each(among.begin(), later, [thread](const Copy& copy) { land(thread, copy); });
        among.erase(among.begin(), later);
    };
    for (Group& group : copies[thread].groups)
        land_of(group.copies);
    land_of(copies[thread].open);
}

bool has_first(const Copies& own, size_t upto)
{
    const auto has = [upto](const std::vector<Copy>& among) { return !among.empty() && among.front().number < upto; };
    return has(own.open) || std::any_of(own.groups.begin(), own.groups.end(), [&](const Group& group) { return has(group.copies); });
}

void arrive_at(const Tie& tie, unsigned thread)
{
    arrive_for_copies(tie.barrier, thread, tie.interval != ordering.interval);
}

std::string why_not_waited_for(const Copies& own, const Copy& copy, const Group* group)
{
    for (const Tie& tie : own.ties)
        if (copy.number < tie.upto)
            return ":\n  " + where(tie.site) + ": they arrive at the mbarrier at " + name_shared(tie.barrier)
                + ", and nobody has waited for that phase of it";
    if (!group)
        return ", which is not committed to a group";
    if (group->number > own.committed_then)
        return ", and has not waited since it committed them";
    const unsigned newer = own.committed_then - group->number;
    return ", and has not waited for them:\n  " + where(own.wait_site) + ": this wait leaves the newest "
        + (own.left == 1 ? "group" : std::to_string(own.left) + " groups") + " open, and "
        + (newer ? std::to_string(newer) + (newer == 1 ? " group was" : " groups were") + " committed after that copy's: "
                 : "that copy's is the newest: ")
        + "it has to leave " + (newer ? "at most " + std::to_string(newer) : "none");
}

} // namespace

void touched_while_copied(uintptr_t address, unsigned size, bool write, uintptr_t pc)
{
    const unsigned thread = *entry_of(address) - 1u;
    const Copies& own = copies[thread];
    const Copy* copy = covering(own.open, address);
    const Group* group = nullptr;
    for (auto one = own.groups.begin(); !copy && one != own.groups.end(); ++one)
        if ((copy = covering(one->copies, address)))
            group = &*one;
    if (!is_different("asynchronous copy", pc, copy->site))
        return;
    const std::string access = access_of_shared(address, size, write, pc);
    tell(launch_failed,
        "asynchronous copy not waited for " + access + "\n  " + where(copy->site) + ": " + who(thread) + " copies "
            + count_bytes(copy->size) + " there" + why_not_waited_for(own, *copy, group));
}

bool is_copied_to(uintptr_t address, unsigned size)
{
    const uint16_t* entry = entry_of(address);
    if (!entry || *entry)
        return entry;
    if ((address & 3) + size <= 4)
        return false;
    for (uintptr_t word = (address & ~uintptr_t(3)) + 4; word < address + size; word += 4)
        if ((entry = entry_of(word)) && *entry)
            return true;
    return false;
}

void tie_copies(uintptr_t barrier, uintptr_t site)
{
    const unsigned me = running.thread;
    copies[me].ties.push_back({barrier, site, copies[me].begun, ordering.interval, own_clock(me)});
    any = true;
}

unsigned tied_arrivals(uintptr_t barrier)
{
    unsigned count = 0;
    for (unsigned thread = 0; any && thread < turns.count; ++thread)
        for (const Tie& tie : copies[thread].ties)
            count += tie.barrier == barrier;
    return count;
}

void land_tied(uintptr_t barrier)
{
    for (unsigned thread = 0; any && thread < turns.count; ++thread) {
        std::vector<Tie>& ties = copies[thread].ties;
        for (auto tie = ties.begin(); tie != ties.end();) {
            if (tie->barrier != barrier) {
                ++tie;
                continue;
            }
            land_first(thread, tie->upto);
            arrive_at(*tie, thread);
            tie = ties.erase(tie);
        }
    }
}

void arrive_where_all_came(unsigned thread)
{
    std::vector<Tie>& ties = copies[thread].ties;
    while (!ties.empty() && !has_first(copies[thread], ties.front().upto)) {
        const Tie tie = ties.front();
        ties.erase(ties.begin());
        arrive_at(tie, thread);
        copies_have_come(tie.barrier);
    }
}

void forget_copies() // of the block before
{
    if (any)
        for (Copies& own : copies) // all of them: the launch before may have had larger blocks
            own = Copies {};
    any = false;
    copy_now = {}; // a fault may have ended one
    if (under_way_count)
        under_way.assign(under_way.size(), 0);
    under_way_count = 0;
    const Image& image = *running.launch->function->module->image;
    fixed = {uintptr_t(image.first_shared), size_t(image.last_shared - image.first_shared)};
    extra = {uintptr_t(dynamic_shared()), running.launch->dynamic_shared};
    under_way.resize((fixed.size + extra.size) / 4 + 2);
    watch_more(Watched::copies, false);
}

namespace {

struct RestedCopies {
    std::vector<Copies> of_threads;
    std::vector<uint16_t> under_way;
    size_t under_way_count;
};

} // namespace

std::shared_ptr<void> rest_copies()
{
    if (!any)
        return nullptr;
    auto rested = std::make_shared<RestedCopies>();
    rested->of_threads.assign(std::make_move_iterator(std::begin(copies)), std::make_move_iterator(std::end(copies)));
    rested->under_way = under_way;
    rested->under_way_count = under_way_count;
    return rested;
}

void resume_copies(const std::shared_ptr<void>& rested)
{
    if (!rested)
        return;
    auto& those = *static_cast<RestedCopies*>(rested.get());
    std::move(those.of_threads.begin(), those.of_threads.end(), copies);
    under_way = those.under_way;
    under_way_count = those.under_way_count;
    any = true;
    watch_more(Watched::copies, under_way_count > 0);
}

} // namespace softcuda

using namespace softcuda;
#define HERE reinterpret_cast<uintptr_t>(__builtin_return_address(0))

extern "C" {
EXPORT void softcuda_copy_async(void* to, const void* from, size_t size, size_t zeros)
{
    if ((size != 4 && size != 8 && size != 16) || zeros > size || zeros % 4)
        fault(illegal_instruction, "asynchronous copy " + in_kernel() + "\n  " + where(HERE) + ": of "
                + std::to_string(size) + " bytes, " + std::to_string(zeros) + " of them zero; it takes 4, 8 or 16");
    const bool writes = uintptr_t(to) % size;
    if (writes || (uintptr_t(from) % size && zeros != size))
        fault(misaligned_address, "misaligned access " + in_kernel() + "\n  " + where(HERE) + ": "
                + who(running.thread) + " copies " + std::to_string(size) + " bytes " + (writes ? "to" : "from")
                + " an address that is no multiple of that" + (writes ? in_variable(uintptr_t(to)) : "")
                + dependences(HERE, writes));
    copy_now = {uintptr_t(to), unsigned(size)};
    check_access(uintptr_t(to), unsigned(size), true, HERE);
    // An array of the device may lie where it is written to, too.
    if (is_checked() && !entry_of(uintptr_t(to)))
        out_of_bounds(uintptr_t(to), unsigned(size), true, HERE, "outside of the block's shared memory", false);
    copy_now = {};
    std::memset(to, 0xff, size);
    const Copy copy {static_cast<char*>(to), static_cast<const char*>(from), unsigned(size), unsigned(size - zeros), HERE,
        copies[running.thread].begun++};
    copies[running.thread].open.push_back(copy);
    if (is_checked())
        mark(copy, uint16_t(running.thread + 1));
    any = true;
}

EXPORT void softcuda_commit_copies()
{
    Copies& own = copies[running.thread];
    own.groups.push_back({std::move(own.open), ++own.committed});
    own.open.clear();
    any = true;
}

EXPORT void softcuda_wait_copies(size_t later)
{
    Copies& own = copies[running.thread];
    for (; own.groups.size() > later; own.groups.pop_front())
        for (const Copy& copy : own.groups.front().copies)
            land(running.thread, copy);
    arrive_where_all_came(running.thread);
    own.left = later, own.wait_site = HERE, own.committed_then = own.committed;
}
}
