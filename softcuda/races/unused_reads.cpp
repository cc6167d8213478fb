// Reads of shared memory that nothing wrote, whose value changes nothing: a halo that is loaded and then not used.
//
// Where a launch reads such memory first, it is gone on with in several processes, which are forks of this one: in each
// what nothing wrote holds something else. Where all leave the same memory, and the others meet no fault, the values were
// not used, as far as this launch shows.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "checker.h"

namespace softcuda {
namespace {

constexpr size_t most_memory = size_t(256) << 20; // of the device, that both compare
constexpr int patience_ms = 5000;
// What the words hold here, and in the others: a zero, a huge number of either sign, a NaN that the processor notes where
// it is computed with, though the result may be dropped.
constexpr uint32_t fills[] = {0, 0xfbfffbff, 0x7bff7bff, 0x7fa07fa0}; // the same for halves and floats
constexpr int here = 0, processes = 4, signaling = 3;

struct Twin {
    pid_t others[processes] {};
    int answers[processes] {}; // that they write to
    bool begun = false;
    int number = here; // of this process
    std::vector<size_t> reads; // numbers of findings
} twin;

void add(uint64_t& sum, const char* bytes, size_t size)
{
    for (; size >= 8; bytes += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        sum = (sum ^ word) * 1099511628211ull;
    }
    for (; size; ++bytes, --size)
        sum = (sum ^ uint8_t(*bytes)) * 1099511628211ull;
}

uint64_t sum_of_memory()
{
    uint64_t sum = 14695981039346656037ull;
    for (size_t i = 0; i < allocation_count(); ++i)
        if (const Allocation& array = allocation_number(i); array.live)
            add(sum, reinterpret_cast<const char*>(array.base), array.size);
    for (const Symbol* s = checker.image->first_symbol; s != checker.image->last_symbol; ++s)
        if (s->kind == SymbolKind::device)
            add(sum, s->address, s->size);
    return sum;
}

bool may_be_doubled()
{
    size_t size = 0;
    for (size_t i = 0; i < allocation_count(); ++i) {
        const Allocation& array = allocation_number(i);
        if (array.live && array.shared)
            return false;
        size += array.live ? array.size : 0;
    }
    return size <= most_memory;
}

void stop_twin()
{
    for (int i = 1; i < processes; ++i) {
        if (twin.others[i] > 0) {
            kill(twin.others[i], SIGKILL);
            waitpid(twin.others[i], nullptr, 0);
        }
        if (twin.answers[i] > 0)
            ::close(twin.answers[i]);
    }
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
    _exit(well && write(twin.answers[twin.number], &sum, sizeof sum) == sizeof sum ? 0 : 1);
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
    for (int i = 1; i < processes && !is_twin(); ++i) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC))
            continue;
        const pid_t process = fork();
        twin.number = process == 0 ? i : here;
        twin.others[i] = process;
        twin.answers[i] = ends[process == 0 ? 1 : 0];
        ::close(ends[process == 0 ? 0 : 1]);
    }
    if (is_twin()) // what a kernel prints is printed once
        for (const int to : {STDOUT_FILENO, STDERR_FILENO})
            dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), to);
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
        pollfd answer {twin.answers[i], POLLIN, 0};
        same = twin.others[i] > 0 && poll(&answer, 1, patience_ms) == 1
            && ::read(twin.answers[i], &theirs, sizeof theirs) == sizeof theirs && theirs == own;
    }
    if (same)
        for (const size_t finding : twin.reads)
            take_back(finding);
    forget_twin();
}

void forget_twin()
{
    if (twin.begun)
        stop_twin();
    twin = {};
}

} // namespace softcuda
