// Which operations of streams are ordered, and what each has touched: streams.cpp keeps the order, stream_races.cpp finds
// two operations that touch the same bytes without one, footprint.cpp reads what a launch has touched.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "device/driver.h"

namespace softcuda {

// A vector clock: for each stream, by its slot, how many of its operations come before. The host has no slot: what it has
// waited for comes before all that it queues from then on.
using StreamClock = std::vector<uint64_t>;

inline uint64_t tick_at(const StreamClock& clock, size_t slot) { return slot < clock.size() ? clock[slot] : 0; }
void join(StreamClock& clock, const StreamClock& other);

struct StreamName {
    enum Kind : uint8_t { created, legacy, per_thread } kind = created;
    unsigned ordinal = 0; // as which one of its context it was created
    bool non_blocking = false;
};

// One thing that is queued in a stream.
struct Operation {
    ContextState* context = nullptr;
    StreamName stream;
    uint64_t ticket = 0; // of all streams' operations, in the order in which they were queued
    size_t slot = 0;
    uint64_t tick = 0; // as which operation of its stream
    StreamClock before;      // of the other streams' operations
    uint64_t waited = 0; // so many of its stream's the host had waited for when it was queued
};
inline bool is_before(const Operation& operation, const StreamClock& clock) { return operation.tick <= tick_at(clock, operation.slot); }
extern thread_local const Operation* present_operation; // that this thread does; null where it does none

// streams.cpp
void host_waited_for(const Operation& operation); // for what comes before it
void hold_present_stream(bool held);              // while a function of the host runs in it

enum class Deed : uint8_t { reads, writes, allocates, frees };

// Bytes that an operation touches in one way.
struct Touch {
    uintptr_t first, last; // `last` is behind them
    Deed deed;
    bool strong = false; // atomically, or as volatile
    std::array<uint32_t, 4> sites {}; // instructions, from where the image is loaded
};
void add_site(Touch& touch, uint32_t site);

// footprint.cpp: of the present launch.
struct Footprint {
    std::vector<Touch> written, read;
    bool of_host = false, wrote_host = false; // it has touched the host's memory
};
void footprint_begin_launch();
void add_to_footprint(); // what has been touched since the checker began the launch
Footprint& footprint_of_launch();
Footprint footprint_so_far(); // while it runs

// stream_races.cpp
void check_streams_from_now_on(); // an image with checks has been loaded
bool streams_are_checked();
void order_begins_launch();
void judge_launch(const Launch& launch); // at its end; tells what is found
// Of the present operation, `what` names it: "the copy to the host".
void judge(const char* what, const std::vector<Touch>& touches);
void judge_freed(const char* what, uintptr_t address, bool write, size_t size); // memory that is gone when it is touched
void forget_touches(uintptr_t first, size_t size);       // that memory is gone
void forget_operations_of(const void* context);
void host_has_waited(const StreamClock& clock, bool all_idle); // for what lies before

// Page-locked memory that an asynchronous copy reads, and that the host must leave as it is until it has waited for the copy.
struct Source;
std::shared_ptr<Source> source_of_copy(uintptr_t address, size_t size); // null where nothing is checked
void source_is_read(const std::shared_ptr<Source>& source);             // by the present operation
void host_function_begins(); // as the present operation: it may touch what was copied before
void host_function_ends();
void host_is_written(uintptr_t address, size_t size); // by a copy, which comes now

} // namespace softcuda
