// Variables that nothing set, where they decide or become part of what is stored: integers, halves and arrays too.
//
// A launch of a kernel that has such variables is done in other processes as well, forks of this one, in which their bytes
// are others: the compiler has noted where they lie in code and constants (assembly.py). Where memory differs when the
// launch has ended, it depends on them. A process with the same bytes shows first that nothing else makes a difference, as
// the host does that changes its memory meanwhile. A launch that reads a clock is not judged.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <set>

#include "checker.h"
#include "forks.h"

namespace softcuda {
namespace {

constexpr uint64_t most_threads = 1 << 14, most_threads_first = 1 << 20; // of a launch; of a kernel's first one
constexpr size_t most_launches = 3; // of a kernel, with other grids or blocks: a fork takes some 5 ms
constexpr unsigned most_of_variables = 6; // of all kernels of a name with the same variables, but for each one's first
constexpr size_t most_memory = size_t(64) << 20; // that a launch has touched
constexpr double patience = 5, patience_factor = 10; // seconds, and of the time of the launch here
// What each byte is there: a zero, and an integer that is positive and beyond most arrays. Here it is negative, or a NaN.
constexpr int fills[] = {0x00, 0x01};
constexpr int trials = 2, control = trials, processes = trials + 1;

struct Trials {
    Fork others[processes];
    bool begun = false, is_other = false;
    Fork self; // in another process
    ForkClock::time_point begin;
};
Trials& all = *new Trials;

// What a process tells of memory that its launch has touched.
struct Piece {
    uintptr_t address;
    size_t size;
    uint64_t sum;
};

std::vector<Piece> touched_memory()
{
    std::vector<Piece> pieces;
    const auto add = [&](uintptr_t address, size_t size) { pieces.push_back({address, size, sum_of(address, size)}); };
    for (const uintptr_t page : pages_touched()) {
        const uintptr_t first = arena.first + (page << page_bits), last = first + (uintptr_t(1) << page_bits);
        const Allocation* array = allocation_at(first);
        if (array && array->live && array->base < last)
            add(std::max(first, array->base), std::min(last, array->base + array->size) - std::max(first, array->base));
    }
    for (const Symbol* s = checker.image->first_symbol; s != checker.image->last_symbol; ++s)
        if (s->kind == SymbolKind::device && s->size)
            add(uintptr_t(s->address), s->size);
    return pieces;
}

bool is_worth_it(const Launch& launch)
{
    using Shape = std::array<unsigned, 6>;
    static auto& tried = *new std::map<std::string, std::set<Shape>>;
    static auto& tries = *new std::map<std::string, unsigned>;
    const auto count = [](const Dim& d) { return uint64_t(d.x) * d.y * d.z; };
    const Dim &grid = launch.grid, &block = launch.block;
    const std::string &name = launch.function->name, names = unset_names();
    std::set<Shape>& shapes = tried[std::to_string(launch.function->module->checksum) + name];
    unsigned& of_variables = tries[name + names];
    const bool first = shapes.empty();
    if (count(grid) * count(block) > (first ? most_threads_first : most_threads)
        || (!first && (shapes.size() == most_launches || of_variables >= most_of_variables)))
        return false;
    if (!shapes.insert({grid.x, grid.y, grid.z, block.x, block.y, block.z}).second || names.empty())
        return false;
    ++of_variables;
    return true;
}

// Returns in the other process when it is to begin.
void wait_until_asked(int number)
{
    char go;
    if (::recv(all.self.socket, &go, 1, 0) != 1)
        _exit(0);
    print_nothing();
    for (const Region& bytes : unset_bytes(*running.launch->function->module)) {
        const uintptr_t page = bytes.first & ~uintptr_t(4095);
        if (number < trials && !mprotect(reinterpret_cast<void*>(page), bytes.first + bytes.size - page, PROT_READ | PROT_WRITE | PROT_EXEC))
            memset(reinterpret_cast<void*>(bytes.first), fills[number], bytes.size);
    }
}

void ask(Fork& process)
{
    if (process.id > 0 && !send_all(process.socket, "g", 1))
        process.id = -1;
}

// A process's answer: the finding that has ended its launch, or what its memory is then.
struct Answer {
    bool came = false;
    std::string finding;
    std::vector<Piece> pieces;
};

Answer answer_of(const Fork& process, ForkClock::time_point end)
{
    Answer answer;
    size_t sizes[2];
    if (process.id <= 0 || !receive_all(process.socket, sizes, sizeof sizes, end))
        return answer;
    answer.finding.resize(sizes[0]);
    answer.pieces.resize(sizes[1]);
    answer.came = receive_all(process.socket, &answer.finding[0], sizes[0], end)
        && receive_all(process.socket, answer.pieces.data(), sizes[1] * sizeof(Piece), end);
    return answer;
}

// The bytes that an unset variable has here, as it was declared.
bool is_raw(const char* here, const char* there, size_t i, int fill)
{
    const auto byte = uint8_t(here[i]);
    return byte >= 0xfe && uint8_t(there[i]) == fill;
}

// The first word that differs, and is not what an unset variable held: kernels store members that nobody reads. 0 if none.
uintptr_t differing_word(const Fork& process, const Answer& answer, int fill, ForkClock::time_point end)
{
    std::vector<char> there;
    for (const Piece& piece : answer.pieces) {
        if (sum_of(piece.address, piece.size) == piece.sum)
            continue;
        there.resize(piece.size);
        if (!send_all(process.socket, &piece, sizeof piece) || !receive_all(process.socket, there.data(), piece.size, end))
            return 0;
        const char* here = reinterpret_cast<const char*>(piece.address);
        for (size_t i = 0; i < piece.size; ++i)
            if (here[i] != there[i] && !is_raw(here, there.data(), i, fill))
                return (piece.address + i) & ~uintptr_t(3);
    }
    return 0;
}

bool nothing_else_differs(ForkClock::time_point end)
{
    ask(all.others[control]);
    const Answer answer = answer_of(all.others[control], end);
    if (!answer.came || !answer.finding.empty())
        return false;
    for (const Piece& piece : answer.pieces)
        if (sum_of(piece.address, piece.size) != piece.sum)
            return false;
    return true;
}

void tell_of(const std::string& what)
{
    const std::string names = unset_names();
    tell(launch_failed, "unset variable " + in_kernel() + "\n  " + what + " a value that nothing has set"
            + (names.empty() ? "" : ", of " + names) + ": give it one where it is declared");
}

std::string place_of_write(uintptr_t word)
{
    const Cell* cell = cell_of(word);
    const bool is_known = cell && cell->write.interval >= ordering.launch_start && !(cell->write.flags & is_read) && cell->write.bytes == all_written;
    return (is_known ? where(checker.text + cell->write.site) + ": " : "") + name_of_place(word);
}

} // namespace

bool is_trial() { return all.is_other; }

[[noreturn]] void end_trial(const std::string& finding)
{
    const std::vector<Piece> pieces = finding.empty() ? touched_memory() : std::vector<Piece>();
    const size_t sizes[] = {finding.size(), pieces.size()};
    bool well = send_all(all.self.socket, sizes, sizeof sizes) && send_all(all.self.socket, finding.data(), finding.size())
        && send_all(all.self.socket, pieces.data(), pieces.size() * sizeof(Piece));
    for (Piece asked; well && ::recv(all.self.socket, &asked, sizeof asked, MSG_WAITALL) == sizeof asked;)
        well = send_all(all.self.socket, reinterpret_cast<const void*>(asked.address), asked.size);
    _exit(0);
}

void begin_trials(const Launch& launch)
{
    if (!checker_is_active() || !*checker.image->unset || !is_worth_it(launch))
        return;
    if (unset_bytes(*launch.function->module).empty() || !may_be_forked())
        return;
    all.begun = true;
    for (int i = 0; i < processes; ++i) {
        if (begin_fork(all.others[i])) {
            const Fork self = all.others[i];
            for (int j = 0; j < i; ++j)
                ::close(all.others[j].socket);
            all = {};
            all.is_other = true, all.self = self;
            return wait_until_asked(i);
        }
        if (i < trials)
            ask(all.others[i]);
    }
    all.begin = ForkClock::now();
}

void judge_trials()
{
    if (!all.begun || has_findings() || running.has_read_clock)
        return end_trials();
    const double seconds = std::chrono::duration<double>(ForkClock::now() - all.begin).count();
    const auto end = ForkClock::now() + std::chrono::milliseconds(long(1e3 * (patience + patience_factor * seconds)));
    size_t touched = pages_touched().size() << page_bits;
    for (int i = 0; i < trials && touched <= most_memory && !has_findings(); ++i) {
        const Answer answer = answer_of(all.others[i], end);
        if (!answer.came)
            continue;
        const uintptr_t word = answer.finding.empty() ? differing_word(all.others[i], answer, fills[i], end) : 0;
        if ((!word && answer.finding.empty()) || !nothing_else_differs(end))
            continue;
        if (word)
            tell_of(place_of_write(word) + " depends on");
        else
            tell_of("it ends with another finding, where another value stands in the place of");
    }
    end_trials();
}

void end_trials()
{
    for (Fork& process : all.others)
        end_fork(process);
    all = {};
}

} // namespace softcuda
