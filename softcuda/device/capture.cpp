// The CUDA driver API: capture of streams, and what else is asked about a stream. What is queued in a stream that is
// captured becomes nodes of a graph, each after the one before, also where two streams are captured together: an order
// that their events allow.
#include <cstring>
#include <map>

#include "graphs.h"
#include "streams.h"

namespace softcuda {
namespace {

struct Capture {
    GraphState* graph;
    const StreamState* origin;
    std::vector<NodeState*> tips; // what the next node comes after
};
std::map<uint64_t, Capture>& captures = *new std::map<uint64_t, Capture>;
uint64_t captures_made = 0;

// Calls a function of a stream, with the mutex held.
template <class Use>
int with_stream(void* handle, Use use)
{
    std::lock_guard<std::mutex> lock(stream_mutex);
    StreamState* stream = find_stream(handle);
    return stream ? use(*stream) : int(invalid_handle);
}

int begin(void* handle, GraphState* graph, std::vector<NodeState*> tips)
{
    return with_stream(handle, [&](StreamState& stream) -> int {
        if (stream.is_default)
            return capture_unsupported;
        if (stream.capture)
            return invalid_value;
        stream.capture = ++captures_made;
        captures[stream.capture] = {graph ? graph : new GraphState, &stream, std::move(tips)};
        return success;
    });
}

struct Asked {
    int status = 0; // CUstreamCaptureStatus
    uint64_t number = 0;
    Capture* capture = nullptr;
};

int ask(void* handle, Asked& asked)
{
    return with_stream(handle, [&](const StreamState& stream) -> int {
        const auto found = captures.find(stream.capture);
        if (found != captures.end())
            asked = {1, found->first, &found->second};
        return success;
    });
}

int information(void* stream, int* status, uint64_t* number, GraphState** graph, NodeState* const** tips, size_t* count)
{
    Asked asked;
    if (const int failed = ask(stream, asked))
        return failed;
    if (status)
        *status = asked.status;
    if (!asked.capture)
        return success;
    if (number)
        *number = asked.number;
    if (graph)
        *graph = asked.capture->graph;
    if (tips)
        *tips = asked.capture->tips.data();
    if (count)
        *count = asked.capture->tips.size();
    return success;
}

// What is true of a stream, read with the mutex held.
template <class Value, class Read>
int read(void* handle, Value* value, Read of)
{
    if (!value)
        return invalid_value;
    return with_stream(handle, [&](const StreamState& stream) -> int {
        *value = of(stream);
        return success;
    });
}

// Host functions wait for what was queued before them, and what is queued later waits for them. They may call no CUDA.
template <class Call>
int enqueue_on_host(void* stream, Call call)
{
    return enqueue(stream, [call, context = current_context()] {
        host_function_begins();
        call(has_failed(context));
        host_function_ends();
    }, NodeKind::host);
}

} // namespace

bool is_open(uint64_t capture) { return capture && captures.count(capture); }

bool add_to_capture(uint64_t capture, Work work, NodeKind kind)
{
    const auto found = captures.find(capture);
    if (found == captures.end())
        return false;
    found->second.tips = {found->second.graph->add(kind, std::move(work), found->second.tips)};
    return true;
}

bool is_capturing(void* handle)
{
    std::lock_guard<std::mutex> lock(stream_mutex);
    const StreamState* stream = find_stream(handle);
    return stream && stream->capture;
}

} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuStreamBeginCapture_v2(void* stream, int)
{
    ENTER(cuStreamBeginCapture);
    return begin(stream, nullptr, {});
}

API cuStreamBeginCaptureToGraph(void* stream, GraphState* graph, NodeState** needs, const void*, size_t count, int)
{
    ENTER(cuStreamBeginCaptureToGraph);
    return graph ? begin(stream, graph, {needs, needs + count}) : invalid_value;
}

API cuStreamEndCapture(void* handle, GraphState** graph)
{
    ENTER(cuStreamEndCapture);
    return with_stream(handle, [&](const StreamState& stream) -> int {
        if (!graph)
            return invalid_value;
        const auto found = captures.find(stream.capture);
        if (found == captures.end() || found->second.origin != &stream)
            return capture_unmatched;
        *graph = found->second.graph;
        end_capture_of_streams(found->first);
        captures.erase(found);
        return success;
    });
}

API cuStreamIsCapturing(void* stream, int* status)
{
    ENTER(cuStreamIsCapturing);
    return information(stream, status, nullptr, nullptr, nullptr, nullptr);
}

API cuStreamGetCaptureInfo_v2(
    void* stream, int* status, uint64_t* number, GraphState** graph, NodeState* const** tips, size_t* count)
{
    ENTER(cuStreamGetCaptureInfo);
    return information(stream, status, number, graph, tips, count);
}

API cuStreamGetCaptureInfo_v3(void* stream, int* status, uint64_t* number, GraphState** graph, NodeState* const** tips,
    const void** edges, size_t* count)
{
    ENTER(cuStreamGetCaptureInfo);
    if (edges)
        *edges = nullptr;
    return information(stream, status, number, graph, tips, count);
}

API cuStreamUpdateCaptureDependencies(void* stream, NodeState** needs, size_t count, unsigned flags)
{
    ENTER(cuStreamUpdateCaptureDependencies);
    Asked asked;
    if (const int failed = ask(stream, asked))
        return failed;
    if (!asked.capture)
        return capture_unmatched;
    auto& tips = asked.capture->tips;
    if (flags == 1) // CU_STREAM_SET_CAPTURE_DEPENDENCIES
        tips.clear();
    tips.insert(tips.end(), needs, needs + count);
    return success;
}

API cuStreamUpdateCaptureDependencies_v2(void* stream, NodeState** needs, const void*, size_t count, unsigned flags)
{
    return cuStreamUpdateCaptureDependencies(stream, needs, count, flags);
}

API cuThreadExchangeStreamCaptureMode(int* mode)
{
    ENTER_WITHOUT_CONTEXT(cuThreadExchangeStreamCaptureMode);
    thread_local int present = 0;
    std::swap(*mode, present);
    return success;
}

API cuStreamGetPriority(void* stream, int* priority)
{
    ENTER(cuStreamGetPriority);
    return read(stream, priority, [](const StreamState& s) { return s.priority; });
}

API cuStreamGetFlags(void* stream, unsigned* flags)
{
    ENTER(cuStreamGetFlags);
    return read(stream, flags, [](const StreamState& s) { return unsigned(s.non_blocking); });
}

API cuStreamGetId(void* stream, unsigned long long* number)
{
    ENTER(cuStreamGetId);
    return read(stream, number, [](const StreamState& s) { return s.number; });
}

API cuStreamGetCtx(void* stream, const void** context)
{
    ENTER(cuStreamGetCtx);
    return read(stream, context, [](const StreamState& s) { return s.context; });
}

API cuStreamGetCtx_v2(void* stream, const void** context, void** green)
{
    if (green)
        *green = nullptr;
    return cuStreamGetCtx(stream, context);
}

API cuStreamGetDevice(void* stream, int* device)
{
    ENTER(cuStreamGetDevice);
    return read(stream, device, [](const StreamState&) { return 0; });
}

API cuLaunchHostFunc(void* stream, void (*function)(void*), void* data)
{
    ENTER(cuLaunchHostFunc);
    if (!function)
        return invalid_value;
    return enqueue_on_host(stream, [=](bool failed) {
        if (!failed)
            function(data);
    });
}

API cuStreamAddCallback(void* stream, void (*function)(void*, int, void*), void* data, unsigned flags)
{
    ENTER(cuStreamAddCallback);
    if (!function || flags)
        return invalid_value;
    if (is_capturing(stream))
        return capture_unsupported;
    return enqueue_on_host(stream, [=](bool failed) { function(stream, failed ? launch_failed : success, data); });
}

constexpr size_t attribute_bytes = 64; // of the union CUstreamAttrValue

API cuStreamGetAttribute(void* handle, int attribute, void* value)
{
    ENTER(cuStreamGetAttribute);
    if (!value)
        return invalid_value;
    return with_stream(handle, [&](StreamState& stream) -> int {
        auto& kept = stream.attributes[attribute];
        kept.resize(attribute_bytes);
        memcpy(value, kept.data(), attribute_bytes);
        return success;
    });
}

API cuStreamSetAttribute(void* handle, int attribute, const void* value)
{
    ENTER(cuStreamSetAttribute);
    if (!value)
        return invalid_value;
    return with_stream(handle, [&](StreamState& stream) -> int {
        const char* bytes = static_cast<const char*>(value);
        stream.attributes[attribute].assign(bytes, bytes + attribute_bytes);
        return success;
    });
}

API cuStreamCopyAttributes(void*, void*)
{
    ENTER(cuStreamCopyAttributes);
    return success;
}

} // extern "C"
