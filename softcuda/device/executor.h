// Whose turn it is: the threads of a block, what each waits for, and when a barrier opens.
#pragma once

#include "internal.h"

namespace softcuda {

enum class State : unsigned char { ready, at_barrier, at_grid, in_warp, in_activemask, at_mbarrier, spinning, ended };

struct Thread {
    void* fiber;
    Dim index;
    State state;
    uintptr_t site;  // where it waits
    int predicate;   // what it brought to __syncthreads_count and its like
    unsigned active; // what __activemask answers
    uintptr_t polled[4]; // the words that it waits for, in turns; the one that it read last comes first
};

// Lanes of a warp that meet: those of `mask`, for one function.
struct Meeting {
    unsigned named, mask, arrived, left; // `mask`: those that are named and have not ended
    int kind;
    uintptr_t site;
    unsigned long values[warp_size];
};

struct Turns {
    Thread threads[max_threads];
    unsigned count = 0, alive = 0;
    std::vector<unsigned> order, next_order; // whose turn it is until the next barrier, and after it
    std::vector<unsigned> asking;  // threads in __activemask, and such as wait until nobody can run
    std::vector<unsigned> at_grid; // threads at the barrier of the grid
    std::vector<unsigned> spinning; // threads that wait for another one's write
    bool resting = false;          // all of them are there
    bool stuck = false;            // none can go on before another block has
    size_t position = 0;
    int reduced[3] {}; // of the barrier that opened last: count, and, or
    std::vector<Meeting> meetings[max_threads / warp_size];

    void begin_launch(const Dim& block);
    void begin_block();
    // Nobody can run: answer __activemask, or open the barrier. False where the block has ended or rests; a fault where
    // none of these.
    bool advance();
    bool spinners_go_on(); // false where nobody else can
    void thread_has_ended(unsigned thread); // no lane waits for it any more
};
extern Turns turns;

void wait_for_turn(); // the present thread cannot go on
unsigned wait_until_nobody_runs(uintptr_t site); // of its block; returns the lanes of its warp that wait in that line
char* dynamic_shared();
bool is_below_a_stack(uintptr_t address); // in what ends a thread's 256 KiB

// grids.cpp: blocks that are alive at once.
struct BlockAtRest {
    std::vector<void*> fibers; // of its threads; none where they have ended
    std::vector<unsigned> order;
    uintptr_t site = 0; // where its first thread waits
    std::vector<std::vector<char>> shared;
    MarksOfShared marks;
    std::shared_ptr<void> copies;
};
BlockAtRest rest();                     // of the present block
void resume(const BlockAtRest& block); // which has begun like one that is new
Finding blocks_do_not_come(const std::vector<BlockAtRest>& blocks); // some of them rest

// spinning.cpp: a block whose threads wait for another one's write.
struct WaitingBlock {
    uint64_t ordinal; // as which one it began
    BlockAtRest memory;
    Turns turns;
    uint64_t state; // of its threads' stacks, in a number
    unsigned same;  // how often it has come back as it was
};
std::string waits_of(const std::vector<WaitingBlock>& blocks); // lines of a finding
void forget_spin();
void polls(uintptr_t address, unsigned size, uintptr_t pc); // before a read that is volatile or atomic

// time_limit.cpp: time limit and signals.
void watch_begin(const Function& function);
void watch_end();
void stop_within(double seconds); // if the launch has not ended by then
void stop_if_time_is_over(uintptr_t site); // of the call that the kernel waits in

} // namespace softcuda
