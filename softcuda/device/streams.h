// What streams.cpp and capture.cpp know of streams and events.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "races/stream_races.h"

namespace softcuda {

// One record of an event. Who waits, waits for the record that was the last one then, whatever is recorded later.
struct Record {
    bool done = false;
    std::chrono::steady_clock::time_point time;
};

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
    const Record* awaited = nullptr; // what a busy stream waits for
    std::deque<Queued> queue;
    size_t slot = 0; // its place in clocks
    StreamClock clock;     // what comes before the next operation that is queued here
    std::chrono::steady_clock::time_point ended; // when its last operation did
    std::map<int, std::vector<char>> attributes; // hints, kept for who asks
    std::thread thread;
};

struct EventState {
    std::shared_ptr<Record> last; // null until it is recorded
    uint64_t capture = 0;         // of the stream that it was recorded in last
    StreamClock clock;            // what comes before the last record, and that itself
    bool timing = true;
    bool is_done() const { return !last || last->done; }
};

extern std::mutex& stream_mutex;
StreamState* find_stream(void* handle); // with the mutex held; null where there is none
StreamState& add_stream(bool is_default, bool non_blocking, int priority = 0);

void end_capture_of_streams(uint64_t capture);

// capture.cpp; all with the mutex held.
bool add_to_capture(uint64_t capture, Work work, NodeKind kind); // false where that capture has ended
bool is_open(uint64_t capture);

} // namespace softcuda
