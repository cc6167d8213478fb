// Streams and events. Each stream has a thread that does its work in order. The default stream waits for what
// the others were given before, and they for it, except those that were made not to (CU_STREAM_NON_BLOCKING).
#include <algorithm>
#include <memory>

#include "streams.h"

namespace softcuda {

// Never destroyed: threads wait on them when the process ends.
std::mutex& stream_mutex = *new std::mutex;

namespace {

std::mutex& mutex = stream_mutex;
std::condition_variable& changed = *new std::condition_variable;
auto& streams = *new std::vector<std::unique_ptr<StreamState>>;
auto& created = *new std::map<const void*, unsigned>; // so many streams in a context
uint64_t tickets = 0, streams_made = 0;

// Vector clocks, with the mutex held: what the host has waited for, and of each context all that was queued. A stream that
// was destroyed leaves its operations in them.
struct StreamClocks {
    StreamClock host;
    std::map<const void*, StreamClock> queued, queued_in_blocking; // by the context; the second without non-blocking streams
    std::vector<uint64_t> ticks; // of each slot, so many have been given
    std::vector<size_t> left;  // slots of streams that were destroyed
};
StreamClocks& clocks = *new StreamClocks;

// A record of a whole context is done when all that was queued there up to a ticket is.
struct ContextRecord {
    const void* context;
    uint64_t last;
    std::shared_ptr<Record> record;
};
auto& context_records = *new std::vector<ContextRecord>;
// What comes before all that is queued in a context from now on, in streams that are made later too.
struct ContextWait {
    std::shared_ptr<Record> record;
    StreamClock clock;
};
auto& context_waits = *new std::map<const void*, ContextWait>;

void set(StreamClock& clock, size_t slot, uint64_t tick)
{
    if (clock.size() <= slot)
        clock.resize(slot + 1);
    clock[slot] = std::max(clock[slot], tick);
}

// A slot of its own; or one of a destroyed stream, where all that was queued in that comes before whatever is queued now.
size_t take_slot()
{
    for (size_t i = 0; i < clocks.left.size(); ++i)
        if (const size_t slot = clocks.left[i]; clocks.ticks[slot] <= tick_at(clocks.host, slot)) {
            clocks.left.erase(clocks.left.begin() + long(i));
            return slot;
        }
    clocks.ticks.push_back(0);
    return clocks.ticks.size() - 1;
}

// The default stream waits for the blocking ones, and they for it.
void join_default(StreamState& stream)
{
    if (stream.is_default)
        join(stream.clock, clocks.queued_in_blocking[stream.context]);
    else if (!stream.non_blocking)
        for (const auto& other : streams)
            if (other->is_default && other->context == stream.context)
                join(stream.clock, other->clock);
}

Operation next_operation(StreamState& stream)
{
    join(stream.clock, clocks.host);
    join_default(stream);
    const auto context = static_cast<ContextState*>(const_cast<void*>(stream.context));
    Operation operation {context, stream.name, ++tickets, stream.slot, ++clocks.ticks[stream.slot], stream.clock,
        tick_at(clocks.host, stream.slot)};
    for (StreamClock* clock : {&stream.clock, &clocks.queued[stream.context]})
        set(*clock, stream.slot, operation.tick);
    if (!stream.non_blocking)
        set(clocks.queued_in_blocking[stream.context], stream.slot, operation.tick);
    return operation;
}

uint64_t oldest(const StreamState& stream)
{
    return stream.busy ? stream.busy_ticket : stream.queue.empty() ? ~uint64_t(0) : stream.queue.front().operation.ticket;
}

bool is_let_run(const StreamState& stream) // by CUDA's rules
{
    if (stream.queue.empty() || stream.non_blocking)
        return !stream.queue.empty();
    for (const auto& other : streams)
        if (other.get() != &stream && other->context == stream.context && !other->non_blocking
            && (stream.is_default || other->is_default) && oldest(*other) < oldest(stream))
            return false;
    return true;
}

// Whether what a stream does, or can do next, is over soon, so that something of that kind may wait for it. A kernel may
// wait for the host, as a function of the host may for anything; kernels are done one at a time whatever is here.
bool is_launch(NodeKind kind) { return kind == NodeKind::kernel || kind == NodeKind::graph; }

bool is_over_soon(const StreamState& stream, NodeKind waiting)
{
    const auto is_launching = [](const auto& other) { return other->busy && is_launch(other->busy_kind); };
    if (!stream.busy)
        return is_let_run(stream)
            && (is_launch(waiting) || !is_launch(stream.queue.front().kind) || std::none_of(streams.begin(), streams.end(), is_launching));
    const bool waits = stream.awaited && !stream.awaited->done;
    return !stream.held && !waits && (is_launch(waiting) || !is_launch(stream.busy_kind));
}

// Operations that nothing orders are done in the order in which they were queued, so that a missing event shows as what it
// is and not as what may come of it.
bool may_run(const StreamState& stream)
{
    if (!is_let_run(stream))
        return false;
    const NodeKind kind = stream.queue.front().kind;
    return kind == NodeKind::host || std::none_of(streams.begin(), streams.end(), [&](const auto& other) {
        return other.get() != &stream && oldest(*other) < oldest(stream) && is_over_soon(*other, kind);
    });
}

// With the mutex held. The time of a record is that of the last operation before it, and not that of this look.
void finish_context_records()
{
    const auto finish = [](const ContextRecord& each) {
        std::chrono::steady_clock::time_point latest;
        for (const auto& stream : streams)
            if (stream->context == each.context) {
                if (oldest(*stream) <= each.last)
                    return false;
                latest = std::max(latest, stream->ended);
            }
        each.record->time = latest;
        return each.record->done = true;
    };
    context_records.erase(std::remove_if(context_records.begin(), context_records.end(), finish), context_records.end());
}

thread_local StreamState* present_stream = nullptr;
thread_local std::chrono::steady_clock::time_point recorded; // by the present operation, where it records an event

void run(StreamState& stream)
{
    present_stream = &stream;
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
        changed.wait(lock, [&] { return stream.ending || may_run(stream); });
        if (stream.ending)
            return;
        const Queued next = std::move(stream.queue.front());
        stream.queue.pop_front();
        stream.busy = true;
        stream.busy_ticket = next.operation.ticket;
        stream.busy_kind = next.kind;
        changed.notify_all();
        lock.unlock();
        present_operation = &next.operation;
        recorded = {};
        next.work();
        const auto ended = std::chrono::steady_clock::now();
        present_operation = nullptr;
        lock.lock();
        stream.ended = recorded == decltype(recorded)() ? ended : recorded;
        stream.busy = false;
        finish_context_records();
        changed.notify_all();
    }
}

bool idle(const StreamState& stream) { return stream.queue.empty() && !stream.busy; }

// With the mutex held: all streams of the current context.
bool all_idle()
{
    const void* context = current_context();
    return std::all_of(streams.begin(), streams.end(), [&](const auto& each) { return each->context != context || idle(*each); });
}

// With the mutex held: the host knows that all of this is done.
void host_knows(const StreamClock& clock)
{
    join(clocks.host, clock);
    host_has_waited(clocks.host, std::all_of(streams.begin(), streams.end(), [](const auto& stream) { return idle(*stream); }));
}

int enqueue_in(StreamState* stream, Work work, NodeKind kind)
{
    if (!stream)
        return invalid_handle;
    if (stream->capture)
        return add_to_capture(stream->capture, std::move(work), kind) ? success : capture_invalidated;
    stream->queue.push_back({next_operation(*stream), kind, std::move(work)});
    changed.notify_all();
    return success;
}

// With the mutex held: what is queued in a stream from now on comes after a record.
int let_wait(StreamState& stream, const std::shared_ptr<Record>& record, const StreamClock& clock)
{
    if (!stream.capture)
        join(stream.clock, clock);
    return enqueue_in(&stream, [record] {
        std::unique_lock<std::mutex> lock(mutex);
        if (present_stream)
            present_stream->awaited = record.get();
        changed.notify_all();
        changed.wait(lock, [&] { return !record || record->done; });
        if (present_stream)
            present_stream->awaited = nullptr;
    }, NodeKind::host);
}

// With the mutex held.
bool is_capturing_in(const void* context)
{
    return std::any_of(streams.begin(), streams.end(), [&](const auto& stream) { return stream->context == context && stream->capture; });
}

} // namespace

void join(StreamClock& clock, const StreamClock& other)
{
    for (size_t slot = 0; slot < other.size(); ++slot)
        if (tick_at(clock, slot) < other[slot])
            set(clock, slot, other[slot]);
}

void host_waited_for(const Operation& operation)
{
    std::lock_guard<std::mutex> lock(mutex);
    join(clocks.host, operation.before);
}

void hold_present_stream(bool held)
{
    std::lock_guard<std::mutex> lock(mutex);
    if (present_stream)
        present_stream->held = held;
    changed.notify_all();
}

StreamState& add_stream(bool is_default, bool non_blocking, int priority)
{
    auto stream = std::make_unique<StreamState>();
    stream->context = current_context();
    stream->is_default = is_default;
    stream->non_blocking = stream->name.non_blocking = non_blocking;
    stream->priority = priority;
    stream->number = ++streams_made;
    stream->slot = take_slot();
    streams.push_back(std::move(stream));
    StreamState& added = *streams.back();
    added.thread = std::thread([&added] { run(added); });
    const auto wait = context_waits.find(added.context);
    if (wait != context_waits.end())
        let_wait(added, wait->second.record, wait->second.clock);
    return added;
}

// With the mutex held. 1 and 2 are CUDA's names for the legacy and the per-thread default stream.
StreamState* find_stream(void* handle)
{
    if (uintptr_t(handle) <= 2) {
        const bool of_thread = uintptr_t(handle) == 2;
        const std::thread::id owner = of_thread ? std::this_thread::get_id() : std::thread::id();
        for (const auto& stream : streams)
            if (stream->name.kind != StreamName::created && stream->owner == owner && stream->context == current_context())
                return stream.get();
        StreamState& added = add_stream(!of_thread, false);
        added.owner = owner;
        added.name = {of_thread ? StreamName::per_thread : StreamName::legacy};
        return &added;
    }
    for (const auto& stream : streams)
        if (stream.get() == handle)
            return stream.get();
    return nullptr;
}

int enqueue(void* handle, Work work, NodeKind kind)
{
    std::lock_guard<std::mutex> lock(mutex);
    return enqueue_in(find_stream(handle), std::move(work), kind);
}

int finish_stream(void* handle, Waits waits)
{
    std::unique_lock<std::mutex> lock(mutex);
    StreamState* stream = find_stream(handle);
    if (!stream)
        return invalid_handle;
    if (stream->capture)
        return capture_unsupported;
    // To wait for the default stream is to wait for all that it would wait for.
    const uint64_t last = tickets;
    const auto is_done = [&](const auto& other) {
        return other.get() == stream ? idle(*stream)
                                     : !stream->is_default || other->non_blocking || other->context != stream->context || oldest(*other) > last;
    };
    join_default(*stream);
    const StreamClock before = stream->clock;
    changed.wait(lock, [&] { return std::all_of(streams.begin(), streams.end(), is_done); });
    if (waits == Waits::for_the_host)
        host_knows(before);
    return success;
}

bool is_everything_done()
{
    std::lock_guard<std::mutex> lock(mutex);
    return all_idle();
}

void wait_for_everything(Waits waits)
{
    std::unique_lock<std::mutex> lock(mutex);
    const StreamClock before = clocks.queued[current_context()];
    changed.wait(lock, all_idle);
    if (waits == Waits::for_the_host)
        host_knows(before);
}

void wait_for_every_context()
{
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [] {
        for (const auto& stream : streams)
            if (!idle(*stream))
                return false;
        return true;
    });
}

void end_capture_of_streams(uint64_t capture)
{
    for (const auto& stream : streams)
        if (stream->capture == capture)
            stream->capture = 0;
}

void end_streams_of(const void* context)
{
    for (;;) {
        std::unique_ptr<StreamState> ending;
        {
            std::lock_guard<std::mutex> lock(mutex);
            for (size_t i = 0; i < streams.size() && !ending; ++i)
                if (streams[i]->context == context) {
                    ending = std::move(streams[i]);
                    streams.erase(streams.begin() + long(i));
                    clocks.left.push_back(ending->slot);
                    set(clocks.host, ending->slot, clocks.ticks[ending->slot]);
                    ending->ending = true;
                    ending->queue.clear();
                    if (ending->busy)
                        stop_running_kernel();
                }
            finish_context_records();
            changed.notify_all();
        }
        if (!ending)
            break;
        ending->thread.join();
    }
    forget_operations_of(context);
    std::lock_guard<std::mutex> lock(mutex);
    created.erase(context);
    context_waits.erase(context);
}

} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuStreamCreateWithPriority(StreamState** stream, unsigned flags, int priority)
{
    ENTER(cuStreamCreate);
    if (!stream || flags > 1)
        return invalid_value;
    std::lock_guard<std::mutex> lock(mutex);
    *stream = &add_stream(false, flags == 1, std::max(-5, std::min(priority, 0)));
    (*stream)->name.ordinal = ++created[current_context()];
    return success;
}

API cuStreamCreate(StreamState** stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

API cuStreamDestroy_v2(StreamState* stream)
{
    ENTER(cuStreamDestroy);
    if (uintptr_t(stream) <= 2)
        return invalid_handle;
    if (const int failed = finish_stream(stream, Waits::for_itself))
        return failed;
    std::unique_ptr<StreamState> ending;
    {
        std::lock_guard<std::mutex> lock(mutex);
        for (size_t i = 0; i < streams.size(); ++i)
            if (streams[i].get() == stream) {
                ending = std::move(streams[i]);
                streams.erase(streams.begin() + long(i));
                clocks.left.push_back(stream->slot);
                break;
            }
        stream->ending = true;
        changed.notify_all();
    }
    stream->thread.join();
    return success;
}

API cuStreamSynchronize(void* stream)
{
    ENTER(cuStreamSynchronize);
    const int failed = finish_stream(stream);
    return failed ? failed : softcuda::enter("cuStreamSynchronize (after)", true);
}

API cuStreamQuery(void* handle)
{
    ENTER(cuStreamQuery);
    std::lock_guard<std::mutex> lock(mutex);
    StreamState* stream = find_stream(handle);
    if (!stream || !idle(*stream))
        return stream ? not_ready : invalid_handle;
    host_knows(stream->clock);
    return success;
}

API cuStreamWaitEvent(void* stream, EventState* event, unsigned)
{
    ENTER(cuStreamWaitEvent);
    if (!event)
        return invalid_handle;
    std::lock_guard<std::mutex> lock(mutex);
    StreamState* waiting = find_stream(stream);
    if (!waiting)
        return invalid_handle;
    if (is_open(event->capture)) { // then this stream joins the capture, after the work captured so far
        if (waiting->is_default)
            return capture_unsupported;
        waiting->capture = event->capture;
        return success;
    }
    return let_wait(*waiting, event->last, event->clock);
}

API cuCtxWaitEvent(ContextState* context, EventState* event)
{
    ENTER(cuCtxWaitEvent);
    if (!context || !event)
        return context ? invalid_handle : invalid_context;
    std::lock_guard<std::mutex> lock(mutex);
    if (is_capturing_in(context))
        return capture_unsupported;
    for (const auto& stream : streams)
        if (stream->context == context)
            let_wait(*stream, event->last, event->clock);
    context_waits[context] = {event->last, event->clock};
    return success;
}

API cuEventCreate(EventState** event, unsigned flags)
{
    ENTER(cuEventCreate);
    if (!event)
        return invalid_value;
    *event = new EventState;
    (*event)->timing = !(flags & 2);
    return success;
}

API cuEventDestroy_v2(EventState* event)
{
    ENTER(cuEventDestroy);
    if (!event)
        return invalid_handle;
    delete event; // its records live as long as something waits for them
    return success;
}

API cuEventRecord(EventState* event, void* stream)
{
    ENTER(cuEventRecord);
    if (!event)
        return invalid_handle;
    std::lock_guard<std::mutex> lock(mutex);
    StreamState* in = find_stream(stream);
    if (!in)
        return invalid_handle;
    event->capture = in->capture;
    if (event->capture)
        return success;
    event->last = std::make_shared<Record>();
    const int failed = enqueue_in(in, [record = event->last] {
        std::lock_guard<std::mutex> lock(mutex);
        recorded = record->time = std::chrono::steady_clock::now();
        record->done = true;
    }, NodeKind::host);
    event->clock = in->clock;
    return failed;
}

API cuCtxRecordEvent(ContextState* context, EventState* event)
{
    ENTER(cuCtxRecordEvent);
    if (!context || !event)
        return context ? invalid_handle : invalid_context;
    std::lock_guard<std::mutex> lock(mutex);
    if (is_capturing_in(context))
        return capture_unsupported;
    event->capture = 0;
    event->last = std::make_shared<Record>();
    event->clock = clocks.queued[context];
    context_records.push_back({context, tickets, event->last});
    finish_context_records();
    changed.notify_all();
    return success;
}

API cuEventRecordWithFlags(EventState* event, void* stream, unsigned) { return cuEventRecord(event, stream); }

API cuEventQuery(EventState* event)
{
    ENTER(cuEventQuery);
    if (!event)
        return invalid_handle;
    std::lock_guard<std::mutex> lock(mutex);
    if (!event->is_done())
        return not_ready;
    host_knows(event->clock);
    return success;
}

API cuEventSynchronize(EventState* event)
{
    ENTER(cuEventSynchronize);
    if (!event)
        return invalid_handle;
    {
        std::unique_lock<std::mutex> lock(mutex);
        const StreamClock before = event->clock;
        changed.wait(lock, [record = event->last] { return !record || record->done; });
        host_knows(before);
    }
    return softcuda::enter("cuEventSynchronize (after)", true);
}

API cuEventElapsedTime_v2(float* milliseconds, EventState* start, EventState* stop)
{
    ENTER(cuEventElapsedTime);
    if (!milliseconds)
        return invalid_value;
    std::lock_guard<std::mutex> lock(mutex);
    if (!start || !stop || !start->timing || !stop->timing || !start->last || !stop->last)
        return invalid_handle;
    if (!start->last->done || !stop->last->done)
        return not_ready;
    for (const EventState* event : {start, stop})
        host_knows(event->clock);
    *milliseconds = std::chrono::duration<float, std::milli>(stop->last->time - start->last->time).count();
    return success;
}

API cuEventElapsedTime(float* milliseconds, EventState* start, EventState* stop)
{
    return cuEventElapsedTime_v2(milliseconds, start, stop);
}

} // extern "C"
