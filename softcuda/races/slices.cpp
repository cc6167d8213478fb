// What the address of an access depends on, for findings: slices.py has written it into the image when the kernel was
// compiled, a line for each access.
#include <algorithm>
#include <cstdlib>

#include "device/internal.h"

namespace softcuda {
namespace {

constexpr size_t most_variables = 2, most_conditions = 1; // lines of each that a finding names (tried: 3 and 2 help no more)
constexpr int near = 2; // lines: who looks at an access sees the condition there

using Words = std::vector<std::string>;

Words split(const std::string& text, char separator)
{
    Words words;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(separator, begin), text.size());
        if (end > begin || separator == '\t')
            words.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

bool has(const Words& words, const std::string& word) { return std::find(words.begin(), words.end(), word) != words.end(); }

struct Slice {
    Words variables, conditions, lines, deciders; // "row=kernels/matmul/tiled.cu:15", a condition's name may be missing
};

// Those of the accesses in that line; of a function that was inlined several times, of the calls that led there.
std::vector<Slice> slices_of(const char* table, const Words& places, bool write)
{
    std::vector<Slice> found;
    size_t most = 0;
    for (const std::string& line : split(table, '\n')) {
        const Words fields = split(line, '\t');
        if (fields.size() != 6 || fields[0] != places[0] || fields[1].find(write ? 'w' : 'r') == std::string::npos)
            continue;
        Slice slice {split(fields[2], '|'), split(fields[3], '|'), split(fields[4], '|'), split(fields[5], '|')};
        const auto calls = size_t(std::count_if(
            places.begin() + 1, places.end(), [&](const std::string& place) { return has(slice.lines, place); }));
        if (calls > most)
            found.clear(), most = calls;
        if (calls == most)
            found.push_back(std::move(slice));
    }
    return found;
}

bool is_near(const std::string& place, const Words& places)
{
    const size_t colon = place.rfind(':') + 1;
    return std::any_of(places.begin(), places.end(), [&](const std::string& one) {
        return !one.compare(0, colon, place, 0, colon) && abs(atoi(&one[colon]) - atoi(&place[colon])) <= near;
    });
}

// "row (kernels/matmul/tiled.cu:15), col (kernels/matmul/tiled.cu:16)", of places that are not named yet, nor `seen`.
std::string in_words(const std::vector<Slice>& slices, Words Slice::* part, size_t most, Words& named, const Words& seen = {})
{
    std::string text;
    for (const Slice& slice : slices)
        for (const std::string& word : slice.*part) {
            const size_t equals = word.find('=');
            const std::string name = word.substr(0, equals), place = word.substr(equals + 1);
            if (!most || has(named, place) || is_near(place, seen))
                continue;
            named.push_back(place), --most;
            text += (text.empty() ? "" : ", ") + (name.empty() ? place : name + " (" + place + ")");
        }
    return text;
}

} // namespace

bool decides(uintptr_t read, uintptr_t write)
{
    const Words from = lines_of(read), to = lines_of(write);
    if (from.empty() || to.empty())
        return false;
    for (const Slice& slice : slices_of(running.launch->function->module->image->slices, to, true))
        if (has(slice.deciders, from[0]))
            return true;
    return false;
}

std::string dependences(uintptr_t pc, bool write, const std::string& which)
{
    Words named = lines_of(pc);
    if (named.empty())
        return "";
    const std::vector<Slice> slices = slices_of(running.launch->function->module->image->slices, named, write);
    const std::string variables = in_words(slices, &Slice::variables, most_variables, named);
    // Two accesses race by what orders them, not by what lets them happen.
    const size_t how_many = which.empty() ? most_conditions : 0;
    std::string conditions = in_words(slices, &Slice::conditions, how_many, named, lines_of(pc));
    if (conditions.empty())
        conditions = in_words(slices, &Slice::conditions, how_many, named);
    if (variables.empty() && conditions.empty())
        return "";
    if (variables.empty())
        return "\n    condition before the access: " + conditions;
    return "\n    the " + which + "address depends on " + variables
        + (conditions.empty() ? "" : "; condition before it: " + conditions);
}

} // namespace softcuda
