// Processes that go on with a launch in the place of this one, as forks of it, and tell what memory is then.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace softcuda {

using ForkClock = std::chrono::steady_clock;

struct Fork {
    pid_t id = 0;
    int socket = -1; // in the fork, to the process that made it
};
bool may_be_forked(); // other processes do not see what a fork writes
bool begin_fork(Fork& fork); // returns true in the fork, which tells nothing; an id that is not positive: there is none
void print_nothing(); // from here on: what a kernel prints is printed once
void end_fork(Fork& fork);

bool send_all(int to, const void* data, size_t size);
bool receive_all(int from, void* data, size_t size, ForkClock::time_point end);
uint64_t sum_of(uintptr_t address, size_t size, uint64_t before = 14695981039346656037ull);

} // namespace softcuda
