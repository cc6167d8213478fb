// Variables that nothing set, where their value vanishes: a checked kernel has a NaN for them (assembly.py), which a
// comparison and a maximum drop. g++ -fsanitize-coverage=trace-cmp calls a function before a comparison.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "checker.h"

namespace softcuda {
namespace {

void add_name(std::string& names, const std::string& name)
{
    if (names.find(name) == std::string::npos)
        names += (names.empty() ? "" : " or ") + name;
}

} // namespace

std::string unset_names()
{
    const Image& image = *checker.image;
    const std::string kernel = running.launch->function->entry->name, table = image.unset; // lines, each with the function
    const auto is_kernel = [&](const std::string& function) {
        return std::any_of(image.first_kernel, image.last_kernel, [&](const KernelEntry& each) { return function == each.name; });
    };
    std::string names, of_others; // functions, which it may call
    for (size_t begin = 0, end; begin < table.size(); begin = end + 1) {
        end = std::min(table.find('\n', begin), table.size());
        const size_t tab = table.find('\t', begin);
        if (tab >= end)
            continue;
        const std::string function = table.substr(begin, tab - begin), name = table.substr(tab + 1, end - tab - 1);
        if (function == kernel || !is_kernel(function))
            add_name(function == kernel ? names : of_others, name);
    }
    return names.empty() ? of_others : names;
}

namespace {

constexpr uint32_t unset_word = 0xfffefefe; // of a float, and of each half of a double
constexpr uint64_t unset_double = 0xfffefefefffefefe;

bool is_unset(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits == unset_word;
}

bool is_unset(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits == unset_double;
}

template <class Float> void compared(Float a, Float b, const char* doing, uintptr_t pc)
{
    if (!(is_unset(a) || is_unset(b)) || !checker.active || !is_different("unset variable", pc))
        return;
    const std::string names = unset_names();
    tell(launch_failed, "unset variable " + in_kernel() + "\n  " + where(pc) + ": " + who(running.thread) + " " + doing + " a value that nothing has set"
            + (names.empty() ? "" : ", of " + names) + ": give it one where it is declared");
}

uint32_t word_at(uintptr_t address)
{
    uint32_t word;
    memcpy(&word, reinterpret_cast<const void*>(address), sizeof word);
    return word;
}

template <class Float> Float larger(Float a, Float b)
{
    if (a != a || b != b)
        return a != a ? b : a;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
}

} // namespace

// A sum keeps the marked digits of an unset variable, so a wrong result can be traced to it. Storing one is not a fault:
// kernels store struct members that nobody reads.
void judge_unset()
{
    const std::string names = *checker.image->unset ? unset_names() : "";
    for (const uintptr_t page : names.empty() ? std::vector<uintptr_t>() : pages_touched()) {
        const uintptr_t first = arena.first + (page << page_bits);
        const Cell* cells = cell_of(first);
        for (size_t i = 0; cells && i < cells_of_page; ++i) {
            const Epoch& write = cells[i].write;
            if (write.interval < ordering.launch_start || write.flags & is_read || write.bytes != all_written || word_at(first + 4 * i) != unset_word)
                continue;
            add_note(Note::cause, "unset     " + where(checker.text + write.site) + ": " + name_of_place(first + 4 * i)
                    + " gets a value that nothing has set, of " + names + ": give it one where it is declared");
            return;
        }
    }
}

} // namespace softcuda

using namespace softcuda;

#define HERE reinterpret_cast<uintptr_t>(__builtin_return_address(0))
#define COMPARED(name, type, doing, result) \
    extern "C" EXPORT type name(type a, type b) \
    { \
        compared(a, b, doing, HERE); \
        return result; \
    }
COMPARED(softcuda_fmaxf, float, "takes the larger of", larger(a, b))
COMPARED(softcuda_fmax, double, "takes the larger of", larger(a, b))
COMPARED(softcuda_fminf, float, "takes the smaller of", -larger(-a, -b))
COMPARED(softcuda_fmin, double, "takes the smaller of", -larger(-a, -b))
extern "C" EXPORT void __sanitizer_cov_trace_cmpf(float a, float b) { compared(a, b, "compares", HERE); }
extern "C" EXPORT void __sanitizer_cov_trace_cmpd(double a, double b) { compared(a, b, "compares", HERE); }
// Integers are compared by g++ where the source has not come so far, too.
#define IGNORED(name, type) extern "C" EXPORT void __sanitizer_cov_trace_##name(type, type) { }
IGNORED(cmp1, uint8_t)
IGNORED(cmp2, uint16_t)
IGNORED(cmp4, uint32_t)
IGNORED(cmp8, uint64_t)
IGNORED(const_cmp1, uint8_t)
IGNORED(const_cmp2, uint16_t)
IGNORED(const_cmp4, uint32_t)
IGNORED(const_cmp8, uint64_t)
extern "C" EXPORT void __sanitizer_cov_trace_switch(uint64_t, void*) { }
