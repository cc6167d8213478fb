// The findings of one launch: all that differ by kind and by lines, up to a limit. A launch goes on after a race, a read
// of what nothing wrote, and an access out of bounds that touches the device's memory alone; it ends with the others.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "device/executor.h"

namespace softcuda {
namespace {

constexpr size_t most_told = 8, most_opened = 1024;
constexpr double patience = 1; // seconds that a launch goes on after a finding

struct Instructions {
    const char* kind;
    uintptr_t pc, other;
};

struct Findings {
    std::vector<Finding> told;
    std::vector<Instructions> seen; // so that a repeated one costs little
    std::set<std::string> lines;    // what differs: kind and lines
    std::vector<uintptr_t> opened;  // pages of the arena that no array has, made accessible for this launch
    size_t more = 0;                // beyond `most_told`
    Finding accepted;               // the last one, without which the launch may not end early
};
Findings& findings = *new Findings;

constexpr size_t page_bytes = size_t(1) << page_bits;

void* memory_of(uintptr_t page) { return reinterpret_cast<void*>(arena.first + (page << page_bits)); }

bool is_of_array(uintptr_t page)
{
    const Allocation* array = allocation_at(arena.first + (page << page_bits));
    return array && array->live;
}

std::string lines_in_words(const char* kind, uintptr_t pc, uintptr_t other)
{
    std::string one = where(pc), two = other ? where(other) : "";
    if (two < one)
        std::swap(one, two);
    return std::string(kind) + "|" + one + "|" + two;
}

} // namespace

bool is_different(const char* kind, uintptr_t pc, uintptr_t other)
{
    if (is_twin())
        return false;
    for (const Instructions& one : findings.seen)
        if (one.pc == pc && one.other == other && !strcmp(one.kind, kind))
            return false;
    findings.seen.push_back({kind, pc, other});
    if (!findings.lines.insert(lines_in_words(kind, pc, other)).second)
        return false;
    if (findings.told.size() < most_told)
        return true;
    ++findings.more;
    return false;
}

size_t begin_finding()
{
    findings.told.push_back({launch_failed, ""});
    return findings.told.size() - 1;
}

void set_finding(size_t number, Finding finding)
{
    findings.told[number] = is_accepted(finding.text) ? Finding {} : std::move(finding);
}

void take_back(size_t number)
{
    const std::string text = findings.told[number].text;
    const size_t begin = text.find("\n  ") + 3;
    add_note(Note::remark, "a read " + in_kernel() + " at " + text.substr(begin, text.find(": thread", begin) - begin)
            + " of shared memory that nothing writes is taken for harmless: its value changes nothing");
    findings.told[number].text.clear();
}

void tell(Result code, std::string text)
{
    if (is_twin())
        end_twin(false);
    close_early_reads();
    if (is_accepted(text)) {
        findings.accepted = {code, std::move(text)};
        return;
    }
    if (is_trial())
        end_trial(text);
    if (findings.told.size() < most_told)
        findings.told.push_back({code, std::move(text)});
    else
        ++findings.more;
    stop_within(patience);
}

void no_finding_is_accepted()
{
    if (findings.told.empty() && findings.accepted.code)
        findings.told.push_back(findings.accepted);
}

bool has_findings() { return !findings.told.empty(); }

bool may_go_on(uintptr_t address, unsigned size)
{
    if (address - arena.first >= arena.size || address + size - arena.first > arena.size)
        return false;
    const uintptr_t last = (address + size - 1 - arena.first) >> page_bits;
    for (uintptr_t page = (address - arena.first) >> page_bits; page <= last; ++page) {
        auto& opened = findings.opened;
        if (is_of_array(page) || std::find(opened.begin(), opened.end(), page) != opened.end())
            continue;
        if (opened.size() == most_opened || mprotect(memory_of(page), page_bytes, PROT_READ | PROT_WRITE))
            return false;
        opened.push_back(page);
    }
    return true;
}

void findings_begin_launch()
{
    findings = {};
    has_undefined_lanes = false;
}

Finding findings_of_launch()
{
    for (const uintptr_t page : findings.opened)
        if (!is_of_array(page)) { // what a write left there is dropped
            madvise(memory_of(page), page_bytes, MADV_DONTNEED);
            mprotect(memory_of(page), page_bytes, PROT_NONE);
        }
    findings.opened.clear();
    auto& told = findings.told;
    told.erase(std::remove_if(told.begin(), told.end(), [](const Finding& finding) { return finding.text.empty(); }), told.end());
    if (told.empty())
        return {};
    Finding all = findings.told.front();
    for (size_t i = 1; i < findings.told.size(); ++i)
        all.text += "\nsoftcuda: " + findings.told[i].text;
    if (findings.more)
        all.text += "\nsoftcuda: " + std::to_string(findings.more)
            + (findings.more == 1 ? " more finding is" : " more findings are") + " not told here";
    return all;
}

} // namespace softcuda
