// What checker.cpp remembers of each access, and the findings that findings.cpp puts into words.
//
// A cell of 32 bytes stands for 4 bytes of memory: the last write, and the last read or all reads of one interval.
// Shared memory has such cells, and of global memory the first 16 MiB that a launch touches. What it touches beyond
// them has 4 bytes for each 4 bytes alone, so that memory and cells together take twice the arrays (coarse.cpp).
#pragma once

#include "ordering.h"

namespace softcuda {

constexpr uint32_t all_written = 0xf; // which of 4 bytes have been written at all, in the cells of coarse.cpp

enum class Kind : uint8_t { plain, is_volatile, atomic, compare }; // `compare`: atomicCAS

struct Access {
    uintptr_t address;
    unsigned size;
    bool write;
    Kind kind;
    uintptr_t pc; // of the instruction behind the one that did it

    bool is_atomic() const { return kind >= Kind::atomic; }
};

struct Cell {
    Epoch write, read;
};

struct SharedRegion {
    uintptr_t first = 0;
    size_t size = 0;
    std::vector<Cell> cells;
    std::vector<uint8_t> written; // for each cell: which of the 4 bytes have been
    std::vector<uint8_t> inside;  // for each byte: whether it belongs to a variable
};

// A plain read of what others change atomically: a race, unless the thread goes on with a compare-and-swap there.
struct Guess {
    Epoch earlier;
    Access access;
    unsigned thread;
    const SharedRegion* region;
};

struct Checker {
    bool active = false;
    uintptr_t text = 0;
    SharedRegion fixed, dynamic;
    const Image* image = nullptr;
    std::vector<Guess> guesses; // of this block, since the last barrier
};
extern Checker checker;

constexpr size_t detailed_pages = 256, cells_of_page = (size_t(1) << page_bits) / 4; // of 64 KiB each

// coarse.cpp: a page's accesses after the first `detailed_pages` that a launch touches.
void coarse_begin_launch();
void coarse_begin_block();
void coarse_next_interval();
void touch_coarse(uint32_t& cell, uint32_t bytes, const Access& access);

// Each ends the launch. `pc` is the instruction that did it.
[[noreturn]] void out_of_bounds(uintptr_t address, unsigned size, bool write, uintptr_t pc, const std::string& target);
[[noreturn]] void misaligned(uintptr_t address, unsigned size, bool write, uintptr_t pc);
[[noreturn]] void bad_global(uintptr_t address, unsigned size, bool write, uintptr_t pc);
[[noreturn]] void bad_shared(const SharedRegion& region, uintptr_t address, unsigned size, bool write, uintptr_t pc);
[[noreturn]] void bad_variable(const Symbol& nearest, uintptr_t address, unsigned size, bool write, uintptr_t pc);
[[noreturn]] void write_to_constant(const Symbol& symbol, unsigned size, uintptr_t pc);
// `earlier`: what it is a race with, of which `wrote` says whether that wrote. `region`: of shared memory, or null.
// An earlier site of 0 is one that nobody remembers; so is an interval of 0, of another block then.
[[noreturn]] void data_race(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region);
// These two return: the launch goes on until it is known who writes there later (watched.cpp).
void uninitialised_global(uintptr_t address, unsigned size, bool atomic, uintptr_t pc);
void uninitialised_shared(const SharedRegion& region, uintptr_t address, unsigned size, bool atomic, uintptr_t pc);
// Who wrote what lies nearest to an address of shared memory, as a line of a finding; "" where nobody wrote that variable.
std::string nearest_write(uintptr_t address);
std::string access_of_shared(uintptr_t address, unsigned size, bool write, uintptr_t pc);

// Ends the launch as data_race does, or keeps the guess until the thread shows what it was.
void found_race(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region);

} // namespace softcuda
