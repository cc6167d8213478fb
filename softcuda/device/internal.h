// What the parts of the driver library know of each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "include/softcuda/image.h"

// What kernels and PyCUDA find in this library; everything else is hidden.
#define EXPORT __attribute__((visibility("default")))

namespace softcuda {

// CUresult, as far as it is used. https://docs.nvidia.com/cuda/cuda-driver-api, "CUresult".
enum Result : int {
    success = 0,
    invalid_value = 1,
    out_of_memory = 2,
    not_initialized = 3,
    invalid_device = 101,
    invalid_image = 200,
    invalid_context = 201,
    map_failed = 205,
    file_not_found = 301,
    invalid_handle = 400,
    not_found = 500,
    not_ready = 600,
    illegal_address = 700,
    launch_timeout = 702,
    host_memory_not_registered = 713,
    assertion = 710,
    stack_error = 714,
    illegal_instruction = 715,
    misaligned_address = 716,
    launch_failed = 719,
    cooperative_launch_too_large = 720,
    not_permitted = 800,
    not_supported = 801,
    capture_unsupported = 900,
    capture_invalidated = 901,
    capture_unmatched = 903,
    graph_update_failed = 910,
    unknown = 999,
};

// Limits of a launch, those of a real GPU.
constexpr unsigned max_threads = 1024, max_block_z = 64, max_grid_yz = 65535, warp_size = 32;
constexpr unsigned max_shared_bytes = 48 * 1024, max_constant_bytes = 64 * 1024;
constexpr unsigned max_shared_opt_in = 227 * 1024; // for a function that was set so, as compute capability 9.0 has it

// memory.cpp: one allocation in the arena, alone in the 64 KiB pages that it touches.
struct Allocation {
    uintptr_t base;
    size_t size;
    bool live;
    bool trusted; // a kernel that the checker does not see may have written to it
    const void* context;
    bool shared; // with other processes: ipc.cpp has the file that its memory is
};
constexpr unsigned page_bits = 16;
struct Arena {
    uintptr_t first;
    size_t size;
    uint32_t* pages;  // number of the allocation in a page, 0 where there is none
    uint32_t* shadow; // a cell for each 4 bytes of the arena; see checker.cpp
};
extern Arena arena;
bool open_arena();
size_t total_memory(); // of the device: half of the host's
Allocation* allocation_at(uintptr_t address); // freed ones too; null where there never was one
Allocation* allocation_near(uintptr_t address);
bool is_device_range(uintptr_t address, size_t size);
struct Region {
    uintptr_t first;
    size_t size;
};
Region host_memory_at(uintptr_t address); // that cuMemHostAlloc or cuMemHostRegister gave; of no size where there is none
bool is_host_range(uintptr_t address, size_t size); // in such memory
void free_all_of(const void* context);
void trust_all();
extern Allocation* allocations; // reserved for as many as there are pages: a kernel may read while one is added
size_t allocation_count();
Allocation& allocation_number(size_t index);

// module.cpp
struct Module {
    const Image* image = nullptr;
    void* handle = nullptr;
    int file = -1; // the shared object, for addr2line and nm
    unsigned checksum = 0; // of it
    uintptr_t image_first = 0, image_last = 0, text_first = 0, text_last = 0; // where it is loaded
    const void* context = nullptr;
    std::vector<std::unique_ptr<struct Function>> functions;
    mutable std::map<uintptr_t, std::vector<std::string>> lines; // that addr2line was asked for
    mutable std::map<std::string, std::string> declared; // places of variables, that nm was asked for
};
std::vector<Region> unset_bytes(const Module& module); // of variables that nothing sets, in code and constants
struct Function {
    const Module* module = nullptr;
    const KernelEntry* entry = nullptr;
    std::string name;
    size_t static_shared = 0;
    unsigned dynamic_limit = 0; // of dynamic shared memory, as far as it and static memory are more than max_shared_bytes
    size_t most_shared() const { return std::max<size_t>(static_shared + dynamic_limit, max_shared_bytes); }
    // For the launch calls of before CUDA 4, which set block and arguments first.
    Dim block {1, 1, 1};
    unsigned dynamic_shared = 0;
    std::vector<char> arguments;
};

// executor.cpp
struct Launch {
    const Function* function;
    Dim grid, block;
    size_t dynamic_shared;
    std::vector<char> arguments;
    bool cooperative = false; // all blocks are alive at once
    bool programmatic = false; // it may begin before the launch before it has ended
};
// So many threads, because each has two pieces of the address space, of which a process may have 65,530.
constexpr uint64_t max_alive = 16384;

// What was found, or went wrong: `code` ends the launch, `text` says what a kernel's developer needs.
struct Finding {
    Result code = success;
    std::string text;
};
Finding run_grid(const Launch& launch);
Dim block_that_ran(uint64_t ordinal); // as which one of the present launch
void stop_running_kernel(); // a context that goes away does not wait for a kernel that never ends

// The launch that is being run, for checker and report.
struct Running {
    const Launch* launch = nullptr;
    Dim block_index {};
    unsigned thread = 0;      // its number in the block
    bool has_read_clock = false; // this launch
};
extern Running running;
Dim thread_index(unsigned number);
[[noreturn]] void fault(Result code, std::string text); // tells it and ends the launch; called on a thread's own stack
[[noreturn]] void end_launch(); // after what has been told
struct StackRange {
    uintptr_t first;
    size_t size;
};
StackRange thread_stacks();

// checker.cpp
void checker_begin_launch(const Launch& launch, char* dynamic_shared);
void checker_begin_block();
void checker_end_block(); // on the stack of one of its threads
void checker_barrier();
void checker_blocks_take_turns(); // from here on in this launch: what blocks do to each other is ordered
using MarksOfShared = std::vector<std::vector<uint8_t>>; // which bytes of shared memory have been written
MarksOfShared marks_of_shared();
void set_marks_of_shared(const MarksOfShared& marks);
void checker_lanes_met(unsigned warp, unsigned mask);
bool checker_is_active();
void check_access(uintptr_t address, unsigned size, bool write, uintptr_t pc); // by the present thread
void check_read_only(uintptr_t address, unsigned size, uintptr_t pc); // before a read by __ldg
void check_atomic(uintptr_t address, unsigned size, bool write, uintptr_t pc); // which hands nothing on
void mark_written(uintptr_t address, size_t size, bool written); // by the host
void forget_pages(uintptr_t first, size_t count); // of the arena, whose memory has been freed
void copy_marks(uintptr_t to, uintptr_t from, size_t size);

// arithmetic.cpp
void forget_noted_results(); // of conversions and shifts that g++ had left out

// asynchronous.cpp
void forget_copies(); // those of a block that nobody waited for
std::shared_ptr<void> rest_copies(); // those of the present block, which forgets them; null where there are none
void resume_copies(const std::shared_ptr<void>& rested);
bool is_copied_to(uintptr_t address, unsigned size); // by a copy that has not come yet
void touched_while_copied(uintptr_t address, unsigned size, bool write, uintptr_t pc);
struct CopyNow { // the copy whose accesses are being checked: of `size` bytes, 0 where there is none
    uintptr_t address = 0;
    unsigned size = 0;
    bool is_asynchronous = true; // or a range that the compiler copies
};
extern CopyNow copy_now;

// early_reads.cpp
enum class Watched { copies, early_read, rewrites, benign };
extern bool watching; // something is watched: every access is to be told
void watch_more(Watched what, bool on);
void watched_access(uintptr_t address, unsigned size, bool write, bool sets, uintptr_t pc); // `sets`: and does not read
// Begins a finding that is put into words when it is known who writes there later, or that nobody does.
void read_too_early(uintptr_t address, unsigned size, uintptr_t pc, bool of_shared, bool atomic, const std::string& text,
    const std::string& depends);
void watch_benign(uintptr_t address, unsigned size); // before a write (benign.cpp)
void judge_benign(); // when the launch has ended
void judge_restricts(); // likewise (restricted.cpp)
void judge_unset(); // likewise (unset.cpp)
void close_early_reads(); // another finding comes after them
void early_reads_at_the_end_of_a_block(bool last);
void forget_early_reads();

// unused_reads.cpp: whether what a launch reads of shared memory that nothing wrote makes a difference.
bool begin_twin(); // returns true in the other process, which goes on with other values there and tells nothing
bool is_twin();
[[noreturn]] void end_twin(bool well);
void fill_what_nothing_wrote(); // of a block that begins
void unused_if_twin_agrees(size_t finding);
void judge_unused_reads(); // when the launch has ended
void forget_twin();

// unset_trials.cpp: whether variables that nothing sets make a difference to a launch.
void begin_trials(const Launch& launch); // returns in other processes too, which tell nothing
bool is_trial();
[[noreturn]] void end_trial(const std::string& finding);
void judge_trials(); // when the launch has ended
void end_trials();

// findings_of_launch.cpp
void take_back(size_t number); // a finding, as a remark
// Whether a finding of that kind and these lines, of one access or of two, is still to be told.
bool is_different(const char* kind, uintptr_t pc, uintptr_t other = 0);
void tell(Result code, std::string text); // the launch goes on
size_t begin_finding(); // of which the words come later, by its number
void set_finding(size_t number, Finding finding);
bool has_findings(); // some have been told in this launch
bool may_go_on(uintptr_t address, unsigned size); // an access there touches nothing but memory of the device
void findings_begin_launch();
void no_finding_is_accepted(); // the launch ends at the last one that was
Finding findings_of_launch(); // all of them as one, which has the code of the first

bool is_accepted(const std::string& finding); // accepted.cpp; what is, is remembered

// notes.cpp: what is told beside findings. `remark`: a race that harms nothing; `cause`: what is right and rarely meant.
enum class Note { remark, cause };
void add_note(Note kind, const std::string& text);

// barriers.cpp: whether this launch has read from lanes that a warp function's mask does not name.
extern bool has_undefined_lanes;

// slices.cpp: a line of a finding, "\n    the address depends on row (kernels/matmul/tiled.cu:15), ...", ""
// where that is not known. `which`: "first " or "second " where it has two accesses, then without conditions.
bool decides(uintptr_t read, uintptr_t write); // whether the line of a read is a condition of a write
std::string dependences(uintptr_t pc, bool write, const std::string& which = "");

// report.cpp
void forget_returns();                        // of the block before
bool has_returned(unsigned thread);           // by a return statement of the kernel; noted with checks only
std::string how_it_ended(unsigned thread);    // "has returned (kernels/matmul/naive.cu:11)"
std::string where(uintptr_t pc);              // "kernels/matmul/tiled.cu:22", with the calls that led there
std::string where(const Module& module, uintptr_t pc); // "" where that is not known
const std::vector<std::string>& lines_of(uintptr_t pc); // each alone, the innermost first
std::string who(unsigned thread);             // "thread (3, 0) of block (2, 1)"
std::string who(unsigned thread, const Dim& block);
std::string in_kernel();                      // "in matmul_tiled", "in reduce<float, 4>"
std::string plain_name(const std::string& assembler_name); // of a function, without its parameters
std::string name_allocation(const Allocation& allocation); // "a (argument 1), 4,096 bytes"
std::string name_allocation(const Allocation& allocation, const Launch& launch);
std::string name_symbol(const char* assembler_name);
const Symbol* symbol_at(uintptr_t address);   // the variable of the module that it lies in, or null
std::string declared_at(const Symbol& symbol); // " (declared at kernels/matmul/tiled.cu:11)", "" where that is not known
std::string describe_symbol(const Symbol& symbol); // "shared a_tile, 1,024 bytes (declared at kernels/matmul/tiled.cu:11)"
std::string in_variable(uintptr_t address);   // ", in shared a_tile, ..."; "" where it lies in none
std::string count_bytes(size_t bytes);        // "4,096 bytes"
std::string name_of_place(uintptr_t address); // "flags (argument 1), 64 bytes at byte 4"

} // namespace softcuda
