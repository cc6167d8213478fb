// What checker.cpp remembers of each access, and the findings that findings.cpp puts into words.
//
// A cell of 32 bytes stands for 4 bytes of memory: the last write, and the last read or all reads of one interval.
// Shared memory has such cells, and of global memory the first 16 MiB that a launch touches. What it touches beyond
// them has 4 bytes for each 4 bytes alone, so that memory and cells together take twice the arrays (kernel_races_coarse.cpp).
#pragma once

#include "ordering.h"

namespace softcuda {

constexpr uint32_t all_written = 0xf; // which of 4 bytes have been written at all, in the cells of kernel_races_coarse.cpp

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
    std::vector<uint8_t> whole;   // for each cell: whether its 4 bytes do
};

// The last words that a thread has read, and where: a test of a word comes just before its write.
struct RecentReads {
    static constexpr unsigned count = 8;
    uintptr_t address[count], pc[count];
    unsigned next = 0;

    void add(uintptr_t at, uintptr_t by)
    {
        address[next % count] = at, pc[next % count] = by;
        ++next;
    }
    bool has(uintptr_t at) const
    {
        bool any = false;
        for (unsigned i = 0; i < count; ++i)
            any |= address[i] == at;
        return any;
    }
    uintptr_t reader(uintptr_t at) const // the instruction that read there last; 0 where none did
    {
        for (unsigned i = 1; i <= count; ++i)
            if (address[(next - i) % count] == at)
                return pc[(next - i) % count];
        return 0;
    }
};

// A read that is a race unless what its thread does next shows otherwise: a compare-and-swap after a plain read of what
// others change atomically, a fence after the read of a flag.
struct Guess {
    Epoch earlier;
    Access access;
    unsigned thread;
    const SharedRegion* region;
};

// Shared memory that accesses are looked for in first: its cells, none where every access is to be told.
struct Near {
    uintptr_t first;
    size_t size;
    Cell* cells;
    const uint8_t* written;
};

// The variable of a module that was touched last, and for each of its bytes how the launch has touched it.
struct NearVariable {
    uintptr_t first = 0;
    size_t size = 0;
    const uint8_t* marks = nullptr;
};
constexpr uint8_t read_plainly = 1, wrote_plainly = 4; // of these marks

struct Checker {
    Near near[2] {};
    NearVariable variable;
    bool active = false;
    uintptr_t text = 0;
    SharedRegion fixed, dynamic;
    StackRange stacks {0, 0}; // of the block's threads
    const Image* image = nullptr;
    bool one_store = true; // what is checked is a store, which is done when the check returns
    uint8_t volatile_flags = is_volatile; // of the volatile access that is looked at
    bool same_value = false; // what is told of wrote what was there
    bool bounds = false; // the atomic operation that is looked at makes a minimum or a maximum
    bool of_block = false; // the atomic operation that is looked at is one for its block alone
    std::vector<Guess> guesses; // of this block, since the last barrier
    RecentReads reads[max_threads];
};
extern Checker checker;
void note_near(); // to be called when a region has other cells, or something is watched

constexpr size_t detailed_pages = 256, cells_of_page = (size_t(1) << page_bits) / 4; // of 64 KiB each

// flags.cpp: words by which threads of one block hand data on. `is_flag`: what meets there is no race.
bool is_flag(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region);
bool is_flag_write(); // before a volatile write: whether its thread has written nothing since a fence
void forget_flags();

// kernel_races_coarse.cpp: a page's accesses after the first `detailed_pages` that a launch touches.
void coarse_begin_launch();
void coarse_begin_block();
void coarse_next_interval();
void touch_coarse(uint32_t& cell, uint32_t bytes, const Access& access);

struct CoarseTouch {
    bool any, wrote, atomic;
};
CoarseTouch coarse_touch(uint32_t cell); // what the present launch has done there, as far as it is remembered

const Cell* cell_of(uintptr_t address); // of global memory; null where a word has none
const std::vector<uintptr_t>& pages_touched(); // of the arena, by the present launch

// unset.cpp: the variables of this kernel that nothing sets somewhere, "v (kernel.cu:3)", "" if there are none.
std::string unset_names();

// footprint.cpp: an access of a variable, or of memory of the host.
void touched_elsewhere(const Region& region, bool of_host, const Access& access);

// Each tells what it is, and ends the launch where the access would touch what is not the device's. `pc` is the
// instruction that did it. `goes_on`: it touches a gap between variables, or an array.
void out_of_bounds(uintptr_t address, unsigned size, bool write, uintptr_t pc, const std::string& target, bool goes_on);
void misaligned(uintptr_t address, unsigned size, bool write, uintptr_t pc);
void bad_global(uintptr_t address, unsigned size, bool write, uintptr_t pc);
void bad_shared(const SharedRegion& region, uintptr_t address, unsigned size, bool write, uintptr_t pc);
void bad_variable(const Symbol& nearest, uintptr_t address, unsigned size, bool write, uintptr_t pc);
[[noreturn]] void write_to_constant(const Symbol& symbol, unsigned size, uintptr_t pc);
// `earlier`: what it is a race with, of which `wrote` says whether that wrote. `region`: of shared memory, or null.
// An earlier site of 0 is one that nobody remembers; so is an interval of 0, of another block then.
void data_race(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region);
// A read through a texture or a surface of what `write` of this launch wrote.
[[noreturn]] void stale_read(const Epoch& write, uintptr_t address, unsigned size, uintptr_t pc);
// A read by __ldg or ld.global.nc of what `write` of this launch wrote.
void stale_read_only(const Epoch& write, uintptr_t address, unsigned size, uintptr_t pc);
// It is told when it is known who writes there later (early_reads.cpp).
void uninitialised_global(uintptr_t address, unsigned size, bool atomic, uintptr_t pc);
void uninitialised_shared(const SharedRegion& region, uintptr_t address, unsigned size, bool atomic, uintptr_t pc);
// Who wrote what lies nearest to an address of shared memory, as a line of a finding; "" where nobody wrote that variable.
std::string nearest_write(uintptr_t address);
std::string name_shared(uintptr_t address); // "shared tile at byte 8"
std::string access_of_shared(uintptr_t address, unsigned size, bool write, uintptr_t pc);

// same_value.cpp: whether it is a plain write over a plain one, which is told later unless it changes nothing.
bool is_rewrite(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region);
void judge_rewrites(); // when those have been done that were checked
void forget_rewrites();

// benign.cpp: races that harm nothing if the launch shows what is usual of them: a note, and else a finding.
bool is_benign_so_far(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region);
void bound_by_atomic(uintptr_t address, uintptr_t pc); // before a minimum, a maximum
void benign_begin_launch();
std::string race_in_words(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region);
uintptr_t site_of_race(const Epoch& earlier); // the instruction of the earlier access; 0 where it is forgotten

// restricted.cpp: values that threads exchange through a __restrict__ pointer.
void restricts_begin_launch();
void restricts_in_turns(); // from here on blocks do not run one after another

// Tells it as data_race does, or keeps the guess until the thread shows what it was.
void found_race(const Epoch& earlier, bool wrote, const Access& access, const SharedRegion* region);

} // namespace softcuda
