// Streams and events. Each stream has a thread that does its work in order. The default stream waits for what
// the others were given before, and they for it, except those that were made not to (CU_STREAM_NON_BLOCKING).
#include <algorithm>
#include <memory>

#include "driver_streams.h"

namespace softcuda {

// Never destroyed: threads wait on them when the process ends.
std::mutex& stream_mutex = *new std::mutex;

namespace {

std::mutex& mutex = stream_mutex;
std::condition_variable& changed = *new std::condition_variable;
auto& streams = *new std::vector<std::unique_ptr<StreamState>>;
uint64_t tickets = 0, streams_made = 0;

uint64_t oldest(const StreamState& stream)
{
    return stream.busy ? stream.busy_ticket : stream.queue.empty() ? ~uint64_t(0) : stream.queue.front().first;
}

bool may_run(const StreamState& stream)
{
    if (stream.queue.empty() || stream.non_blocking)
        return !stream.queue.empty();
    for (const auto& other : streams)
        if (other.get() != &stream && other->context == stream.context && !other->non_blocking
            && (stream.is_default || other->is_default) && oldest(*other) < stream.queue.front().first)
            return false;
    return true;
}

void run(StreamState& stream)
{
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
        changed.wait(lock, [&] { return stream.ending || may_run(stream); });
        if (stream.ending)
            return;
        auto [ticket, work] = std::move(stream.queue.front());
        stream.queue.pop_front();
        stream.busy = true;
        stream.busy_ticket = ticket;
        lock.unlock();
        work();
        lock.lock();
        stream.busy = false;
        changed.notify_all();
    }
}

} // namespace

StreamState& add_stream(bool is_default, bool non_blocking, int priority)
{
    auto stream = std::make_unique<StreamState>();
    stream->context = current_context();
    stream->is_default = is_default;
    stream->non_blocking = non_blocking;
    stream->priority = priority;
    stream->number = ++streams_made;
    streams.push_back(std::move(stream));
    StreamState& added = *streams.back();
    added.thread = std::thread([&added] { run(added); });
    return added;
}

// With the mutex held. 1 and 2 are CUDA's names for the legacy and the per-thread default stream.
StreamState* find_stream(void* handle)
{
    if (uintptr_t(handle) <= 2) {
        for (const auto& stream : streams)
            if (stream->is_default && stream->context == current_context())
                return stream.get();
        return &add_stream(true, false);
    }
    for (const auto& stream : streams)
        if (stream.get() == handle)
            return stream.get();
    return nullptr;
}

namespace {

bool idle(const StreamState& stream) { return stream.queue.empty() && !stream.busy; }

} // namespace

int enqueue(void* handle, Work work, NodeKind kind)
{
    std::lock_guard<std::mutex> lock(mutex);
    StreamState* stream = find_stream(handle);
    if (!stream)
        return invalid_handle;
    if (stream->capture)
        return add_to_capture(stream->capture, std::move(work), kind) ? success : capture_invalidated;
    stream->queue.emplace_back(++tickets, std::move(work));
    changed.notify_all();
    return success;
}

int finish_stream(void* handle)
{
    std::unique_lock<std::mutex> lock(mutex);
    StreamState* stream = find_stream(handle);
    if (!stream)
        return invalid_handle;
    if (stream->capture)
        return capture_unsupported;
    changed.wait(lock, [&] { return idle(*stream); });
    return success;
}

void wait_for_everything()
{
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [] {
        for (const auto& stream : streams)
            if (stream->context == current_context() && !idle(*stream))
                return false;
        return true;
    });
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
                    ending->ending = true;
                    ending->queue.clear();
                    if (ending->busy)
                        stop_running_kernel();
                }
            changed.notify_all();
        }
        if (!ending)
            return;
        ending->thread.join();
    }
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
    return success;
}

API cuStreamCreate(StreamState** stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

API cuStreamDestroy_v2(StreamState* stream)
{
    ENTER(cuStreamDestroy);
    const int failed = finish_stream(stream);
    if (failed || !stream)
        return failed ? failed : invalid_handle;
    std::unique_ptr<StreamState> ending;
    {
        std::lock_guard<std::mutex> lock(mutex);
        for (size_t i = 0; i < streams.size(); ++i)
            if (streams[i].get() == stream) {
                ending = std::move(streams[i]);
                streams.erase(streams.begin() + long(i));
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
    return !stream ? invalid_handle : idle(*stream) ? success : not_ready;
}

API cuStreamWaitEvent(void* stream, EventState* event, unsigned)
{
    ENTER(cuStreamWaitEvent);
    if (!event)
        return invalid_handle;
    uint64_t asked;
    {
        std::lock_guard<std::mutex> lock(mutex);
        asked = event->asked;
        if (is_open(event->capture)) { // then this stream's work is captured from here on, behind what is there
            StreamState* joining = find_stream(stream);
            if (!joining || joining->is_default)
                return joining ? capture_unsupported : invalid_handle;
            joining->capture = event->capture;
            return success;
        }
    }
    return enqueue(stream, [event, asked] {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return event->done >= asked; });
    }, NodeKind::host);
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
    wait_for_everything();
    delete event;
    return success;
}

API cuEventRecord(EventState* event, void* stream)
{
    ENTER(cuEventRecord);
    if (!event)
        return invalid_handle;
    uint64_t number;
    {
        std::lock_guard<std::mutex> lock(mutex);
        const StreamState* recorded = find_stream(stream);
        event->capture = recorded ? recorded->capture : 0;
        if (event->capture)
            return success;
        number = ++event->asked;
    }
    return enqueue(stream, [event, number] {
        std::lock_guard<std::mutex> lock(mutex);
        event->time = std::chrono::steady_clock::now();
        event->done = number;
    }, NodeKind::host);
}

API cuEventRecordWithFlags(EventState* event, void* stream, unsigned) { return cuEventRecord(event, stream); }

API cuEventQuery(EventState* event)
{
    ENTER(cuEventQuery);
    if (!event)
        return invalid_handle;
    std::lock_guard<std::mutex> lock(mutex);
    return event->done == event->asked ? success : not_ready;
}

API cuEventSynchronize(EventState* event)
{
    ENTER(cuEventSynchronize);
    if (!event)
        return invalid_handle;
    {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return event->done == event->asked; });
    }
    return softcuda::enter("cuEventSynchronize (after)", true);
}

API cuEventElapsedTime_v2(float* milliseconds, EventState* start, EventState* stop)
{
    ENTER(cuEventElapsedTime);
    if (!milliseconds)
        return invalid_value;
    std::lock_guard<std::mutex> lock(mutex);
    if (!start || !stop || !start->timing || !stop->timing || !start->asked || !stop->asked)
        return invalid_handle;
    if (start->done != start->asked || stop->done != stop->asked)
        return not_ready;
    *milliseconds = std::chrono::duration<float, std::milli>(stop->time - start->time).count();
    return success;
}

API cuEventElapsedTime(float* milliseconds, EventState* start, EventState* stop)
{
    return cuEventElapsedTime_v2(milliseconds, start, stop);
}

} // extern "C"
