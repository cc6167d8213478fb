// What streams.cpp and capture.cpp know of streams and events.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "races/stream_races.h"

namespace softcuda {

struct EventState;

struct Queued {
    Operation operation;
    NodeKind kind;
    Work work;
};
struct StreamState {
    const void* context = nullptr;
    bool is_default = false, non_blocking = false, ending = false, busy = false;
    int priority = 0; // kept for who asks: all streams are equal here
    uint64_t number = 0;
    std::thread::id owner; // of a thread's own default stream
    StreamName name;
    uint64_t capture = 0; // number of the capture that takes what is queued; 0 where there is none
    uint64_t busy_ticket = 0;
    NodeKind busy_kind = NodeKind::empty;
    bool held = false; // by a function of the host, which may wait for whatever it likes
    const EventState* awaited = nullptr; // until its record of that number has come to pass
    uint64_t awaited_number = 0;
    std::deque<Queued> queue;
    size_t slot = 0; // its place in clocks
    StreamClock clock;     // what comes before the next operation that is queued here
    std::thread thread;
};

struct EventState {
    uint64_t asked = 0, done = 0; // how often it was recorded, and which of those has come to pass
    uint64_t capture = 0;         // of the stream that it was recorded in last
    StreamClock clock;                  // what comes before the last record, and that itself
    bool timing = true;
    std::chrono::steady_clock::time_point time;
};

extern std::mutex& stream_mutex;
StreamState* find_stream(void* handle); // with the mutex held; null where there is none
StreamState& add_stream(bool is_default, bool non_blocking, int priority = 0);

void end_capture_of_streams(uint64_t capture);

// capture.cpp; all with the mutex held.
bool add_to_capture(uint64_t capture, Work work, NodeKind kind); // false where that capture has ended
bool is_open(uint64_t capture);

} // namespace softcuda
