// What checker.cpp remembers of each access, and the findings that findings.cpp puts into words.
//
// Global memory has a cell of 4 bytes for each 4 bytes, so that memory and cells together take twice the arrays:
//   bits 31..18  interval of the last access: a number that grows at each barrier and each block
//   bits 17..8   thread of that access
//   bit 7        it wrote        bit 6  several threads read in that interval
//   bit 5        it was atomic   bit 4  an earlier block of this launch wrote here
//   bits 7, 6, 5 together: it changed the word atomically, and read it as an ordinary variable too
//   bits 3..0    which of the 4 bytes have been written at all
// Shared memory is small and has cells of 16 bytes, which also say where the last access was made.
#pragma once

#include "executor.h"

namespace softcuda {

constexpr uint32_t wrote = 1u << 7, several = 1u << 6, atomic_access = 1u << 5, by_earlier_block = 1u << 4;
constexpr uint32_t all_written = 0xf, last_interval = (1u << 14) - 1;

struct SharedCell {
    uint32_t interval;
    uint16_t thread;
    uint8_t flags;   // wrote, several, atomic_access
    uint8_t written; // low half: which of the 4 bytes have been written; high half: which the last access touched
    uint32_t warp_epoch;
    uint32_t site; // of the last access, from the start of the image's text
};

struct SharedRegion {
    uintptr_t first = 0;
    size_t size = 0;
    std::vector<SharedCell> cells;
    std::vector<uint8_t> inside; // for each byte: whether it belongs to a variable
};

struct Checker {
    bool active = false;
    uint32_t interval = 1, block_start = 1, launch_start = 1;
    bool earlier_blocks_marked = false; // some cell has by_earlier_block set
    uintptr_t text = 0;
    SharedRegion fixed, dynamic;
    const Image* image = nullptr;
};
extern Checker checker;

// Each ends the launch. `pc` is the instruction that did it.
[[noreturn]] void out_of_bounds(uintptr_t address, unsigned size, bool write, uintptr_t pc, const std::string& target);
[[noreturn]] void misaligned(uintptr_t address, unsigned size, bool write, uintptr_t pc);
[[noreturn]] void bad_global(uintptr_t address, unsigned size, bool write, uintptr_t pc);
[[noreturn]] void bad_shared(const SharedRegion& region, uintptr_t address, unsigned size, bool write, uintptr_t pc);
[[noreturn]] void bad_variable(const Symbol& nearest, uintptr_t address, unsigned size, bool write, uintptr_t pc);
[[noreturn]] void write_to_constant(const Symbol& symbol, unsigned size, uintptr_t pc);
[[noreturn]] void global_race(uintptr_t address, unsigned size, bool write, bool atomic, uintptr_t pc, uint32_t cell);
[[noreturn]] void block_race(uintptr_t address, unsigned size, bool atomic, uintptr_t pc);
[[noreturn]] void shared_race(const SharedRegion& region, uintptr_t address, unsigned size, bool write, bool atomic,
    uintptr_t pc, const SharedCell& cell);
// These two return: the launch goes on until it is known who writes there later (watched.cpp).
void uninitialised_global(uintptr_t address, unsigned size, bool atomic, uintptr_t pc);
void uninitialised_shared(const SharedRegion& region, uintptr_t address, unsigned size, bool atomic, uintptr_t pc);
std::string access_of_shared(uintptr_t address, unsigned size, bool write, uintptr_t pc);

} // namespace softcuda
