// What a launch with checks has touched, in ranges of bytes. Of arrays it is read from the checker's cells when the launch
// has ended, so that it costs nothing while the launch runs; of modules' variables and of the host's memory it is noted.
#include <algorithm>
#include <map>

#include "stream_races.h"
#include "narrow_cells.h"

namespace softcuda {
namespace {

constexpr size_t most_pieces = size_t(1) << 17; // of one launch; what is beyond them is forgotten
constexpr size_t most_noted = size_t(1) << 26; // bytes of a variable, or an allocation of the host: a mark for each
constexpr uint8_t read_strongly = 2, wrote_strongly = 8; // as read_plainly and wrote_plainly

struct Elsewhere { // a variable, or an allocation of the host
    std::vector<uint8_t> marks; // of each byte
    Touch sites {};
};
struct Footprints {
    Footprint now;
    std::map<uintptr_t, Elsewhere> elsewhere; // by the first address
};
Footprints& footprints = *new Footprints;

void forget_elsewhere()
{
    footprints.elsewhere.clear();
    checker.variable = {};
}

void add(uintptr_t address, size_t size, bool write, bool is_strong, uint32_t site)
{
    std::vector<Touch>& touches = write ? footprints.now.written : footprints.now.read;
    if (touches.empty() || touches.back().last != address || touches.back().strong != is_strong) {
        if (touches.size() == most_pieces)
            return;
        touches.push_back({address, address, write ? Deed::writes : Deed::reads, is_strong});
    }
    touches.back().last = address + size;
    add_site(touches.back(), site);
}

void add_bytes(const Epoch& epoch, unsigned bytes, uintptr_t word, bool write)
{
    const bool is_strong = epoch.flags & (is_atomic | is_volatile);
    if (bytes == all_written)
        return add(word, 4, write, is_strong, epoch.site);
    for (unsigned i = 0; i < 4; ++i)
        if (bytes >> i & 1)
            add(word + i, 1, write, is_strong, epoch.site);
}

void add_cell(const Cell& cell, uintptr_t word)
{
    const Epoch &write = cell.write, read = not_dense(cell.read);
    const bool is_of_write = write.interval >= ordering.launch_start;
    unsigned written = 0, known = 0;
    if (is_of_write && write.flags & is_read)
        add_bytes(write, known = write.bytes, word, false);
    else if (is_of_write)
        add_bytes(write, written = known = write.bytes, word, true);
    if (read.interval >= ordering.launch_start && read.bytes & ~known)
        add_bytes(read, read.bytes & ~known, word, false);
}

void add_split(const Cell& cell, uintptr_t word)
{
    for (unsigned part = 0; part < 4 / cell.write.bytes; ++part)
        add_cell(parts.cells[cell.write.clock + part], word);
}

// How many words from here on one instruction has written, or read without that they were written: most come so.
size_t alike(const Cell* cells, size_t count, bool write)
{
    constexpr uint8_t kinds = is_atomic | is_volatile | is_read | is_split;
    const uint32_t site = (write ? cells->write : cells->read).site & ~dense;
    size_t words = 0;
    for (; words < count; ++words) {
        const Epoch epoch = write ? cells[words].write : not_dense(cells[words].read);
        if (epoch.interval < ordering.launch_start || epoch.site != site || epoch.bytes != all_written || epoch.flags & kinds)
            break;
        if (!write && cells[words].write.interval >= ordering.launch_start)
            break;
    }
    return words;
}

void add_cells(const Cell* cells, uintptr_t first, size_t count)
{
    for (size_t i = 0; i < count;) {
        const bool write = cells[i].write.interval >= ordering.launch_start;
        const uintptr_t word = first + 4 * i;
        if (const size_t words = alike(cells + i, count - i, write)) {
            add(word, 4 * words, write, false, (write ? cells[i].write : cells[i].read).site & ~dense);
            i += words;
            continue;
        }
        if (write && cells[i].write.flags & is_split)
            add_split(cells[i], word);
        else
            add_cell(cells[i], word);
        ++i;
    }
}

void add_page(uintptr_t page)
{
    const uintptr_t first = arena.first + (page << page_bits);
    const Allocation* array = allocation_at(first);
    if (!array)
        return;
    const uintptr_t last = std::min(first + (uintptr_t(1) << page_bits), array->base + array->size);
    if (const Cell* cells = cell_of(first))
        return add_cells(cells, first, (last - first + 3) / 4);
    for (uintptr_t word = first; word < last; word += 4) {
        const CoarseTouch touch = coarse_touch(arena.shadow[(word - arena.first) >> 2]);
        if (touch.any)
            add(word, 4, touch.wrote, touch.atomic, 0);
    }
}

void add_elsewhere(uintptr_t first, const Elsewhere& region)
{
    for (size_t i = 0; i < region.marks.size(); ++i)
        if (const uint8_t mark = region.marks[i]) {
            const bool write = mark & (wrote_plainly | wrote_strongly);
            const bool is_strong = !(mark & (write ? wrote_plainly : read_plainly));
            add(first + i, 1, write, is_strong, region.sites.sites[0]);
        }
}

} // namespace

void add_site(Touch& touch, uint32_t site)
{
    for (uint32_t& known : touch.sites) {
        if (known == site)
            return;
        if (!known) {
            known = site;
            return;
        }
    }
}

void footprint_begin_launch()
{
    footprints.now = {};
    forget_elsewhere();
}

void add_to_footprint()
{
    if (!checker.active)
        return;
    std::vector<uintptr_t> pages = pages_touched();
    std::sort(pages.begin(), pages.end());
    for (const uintptr_t page : pages)
        add_page(page);
    for (const auto& [first, region] : footprints.elsewhere)
        add_elsewhere(first, region);
    forget_elsewhere();
}

Footprint& footprint_of_launch() { return footprints.now; }

Footprint footprint_so_far()
{
    const Footprints kept = footprints;
    add_to_footprint();
    Footprint touched = std::move(footprints.now);
    footprints = kept;
    return touched;
}

void touched_elsewhere(const Region& region, bool of_host, const Access& access)
{
    footprints.now.of_host |= of_host;
    footprints.now.wrote_host |= of_host && access.write;
    if (region.size > most_noted)
        return;
    Elsewhere& noted = footprints.elsewhere[region.first];
    noted.marks.resize(region.size);
    if (!of_host)
        checker.variable = {region.first, region.size, noted.marks.data()};
    const bool is_strong = access.kind != Kind::plain;
    const uint8_t mark = access.write ? (is_strong ? wrote_strongly : wrote_plainly) : is_strong ? read_strongly : read_plainly;
    for (unsigned i = 0; i < access.size; ++i)
        noted.marks[access.address - region.first + i] |= mark;
    add_site(noted.sites, uint32_t(access.pc - checker.text));
}

} // namespace softcuda
