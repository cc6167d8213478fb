// Reads of shared memory that nothing wrote, whose value changes nothing: a halo that is loaded and then not used.
//
// Where a launch reads such memory first, it is gone on with in several processes, which are forks of this one: in each
// what nothing wrote holds something else. Where all leave the same memory, and the others meet no fault, the values were
// not used, as far as this launch shows.
#include <unistd.h>

#include "checker.h"
#include "forks.h"

namespace softcuda {
namespace {

constexpr size_t most_memory = size_t(256) << 20; // of the device, that both compare
constexpr std::chrono::seconds patience_with_twin(5);
// What the words hold here, and in the others: a zero, a huge number of either sign, a NaN that the processor notes where
// it is computed with, though the result may be dropped.
constexpr uint32_t fills[] = {0, 0xfbfffbff, 0x7bff7bff, 0x7fa07fa0}; // the same for halves and floats
constexpr int here = 0, processes = 4, signaling = 3;

struct Twin {
    Fork others[processes]; // in one of them, its own
    bool begun = false;
    int number = here; // of this process
    std::vector<size_t> reads; // numbers of findings
} twin;

uint64_t sum_of_memory()
{
    uint64_t sum = 0;
    for (size_t i = 0; i < allocation_count(); ++i)
        if (const Allocation& array = allocation_number(i); array.live)
            sum = sum_of(array.base, array.size, sum);
    for (const Symbol* s = checker.image->first_symbol; s != checker.image->last_symbol; ++s)
        if (s->kind == SymbolKind::device)
            sum = sum_of(uintptr_t(s->address), s->size, sum);
    return sum;
}

bool may_be_doubled()
{
    size_t size = 0;
    for (size_t i = 0; i < allocation_count(); ++i)
        size += allocation_number(i).live ? allocation_number(i).size : 0;
    return size <= most_memory && may_be_forked();
}

bool has_computed_with_nan()
{
#if defined(__x86_64__)
    return twin.number == signaling && __builtin_ia32_stmxcsr() & 1;
#else
    return false;
#endif
}

} // namespace

bool is_twin() { return twin.number != here; }

[[noreturn]] void end_twin(bool well)
{
    well = well && !has_computed_with_nan();
    const uint64_t sum = well ? sum_of_memory() : 0;
    _exit(well && send_all(twin.others[twin.number].socket, &sum, sizeof sum) ? 0 : 1);
}

void fill_what_nothing_wrote()
{
    if (!twin.begun)
        return;
    for (SharedRegion* region : {&checker.fixed, &checker.dynamic})
        for (size_t i = 0; i < region->size; ++i)
            if (region->inside[i] && !(region->written[i / 4] >> i % 4 & 1))
                *reinterpret_cast<char*>(region->first + i) = char(fills[twin.number] >> i % 4 * 8);
}

bool begin_twin()
{
    if (twin.begun || is_trial() || !may_be_doubled())
        return false;
    twin.begun = true;
    for (int i = 1; i < processes && !is_twin(); ++i)
        if (begin_fork(twin.others[i])) {
            twin.number = i;
            print_nothing();
        }
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~1u); // what has been computed before counts for nothing
#endif
    fill_what_nothing_wrote();
    return is_twin();
}

void unused_if_twin_agrees(size_t finding) { twin.reads.push_back(finding); }

void judge_unused_reads()
{
    bool same = !twin.reads.empty() && twin.begun;
    const uint64_t own = same ? sum_of_memory() : 0;
    for (int i = 1; i < processes && same; ++i) {
        uint64_t theirs = 0;
        const auto end = ForkClock::now() + patience_with_twin;
        same = twin.others[i].id > 0 && receive_all(twin.others[i].socket, &theirs, sizeof theirs, end) && theirs == own;
    }
    if (same)
        for (const size_t finding : twin.reads)
            take_back(finding);
    forget_twin();
}

void forget_twin()
{
    for (Fork& other : twin.others)
        end_fork(other);
    twin = {};
}

} // namespace softcuda
