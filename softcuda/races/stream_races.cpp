// Races between streams: two operations touch the same bytes, one of them writes, and neither an event nor a
// synchronisation orders them. What an operation has touched is known of copies, fills and launches with checks; of a
// launch without it is not, and so nobody is accused of it.
//
// Also page-locked memory that the host changes while an asynchronous copy may still read it, and kernels of one stream of
// which the later may begin early (programmatic dependent launch): it touches what the one before touches before it waits.
#include "device/executor.h"
#include "stream_races.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace softcuda {

thread_local const Operation* present_operation = nullptr;

namespace {

constexpr size_t most_spans = size_t(1) << 20, most_races = 8, block_bytes = 4096;

// Of the present launch, where it may begin early: what was touched until the first block waited, also by threads of it
// that do not wait themselves, as far as they come without those that do.
struct Early {
    bool waits = false;
    Footprint touched;
};
Early& early = *new Early;

// What an operation is, in words, for as long as something is remembered that it has touched.
struct Doing {
    Operation operation;
    std::string name;
    std::shared_ptr<const Launch> launch; // null where it is none
};
using DoingPointer = std::shared_ptr<const Doing>;

// Bytes of which one operation of a stream was the last to write them, or the last to read them since.
struct Span {
    Touch touch;
    DoingPointer by;
};
using Spans = std::map<uintptr_t, Span>; // by where they end: none overlap

struct OfStream {
    Spans written, read;
    std::vector<DoingPointer> open; // the last launch, with checks, and those before it that it did not wait for
};

struct Races {
    std::mutex mutex;
    std::vector<OfStream> streams; // by slot
    std::vector<std::shared_ptr<Source>> sources; // that copies have read and the host has not waited for
    std::atomic<bool> on {false};
    std::atomic<uint64_t> changes {0}; // how often operations may have changed the host's memory, or waited for it
};
Races& races = *new Races;

bool writes(Deed deed) { return deed != Deed::reads; }

// The first of the spans that end behind an address.
Spans::iterator first_behind(Spans& spans, uintptr_t address) { return spans.upper_bound(address); }

void put(Spans& spans, Span span)
{
    const uintptr_t last = span.touch.last;
    spans[last] = std::move(span);
}

void cut_out(Spans& spans, uintptr_t first, uintptr_t last)
{
    for (auto at = first_behind(spans, first); at != spans.end() && at->second.touch.first < last;) {
        Span before = at->second, after = at->second;
        at = spans.erase(at);
        if (before.touch.first < first) {
            before.touch.last = first;
            put(spans, std::move(before));
        }
        if (after.touch.last > last) {
            after.touch.first = last;
            put(spans, std::move(after));
            return;
        }
    }
}

void remember(const Touch& touch, const DoingPointer& by)
{
    const size_t slot = by->operation.slot;
    if (races.streams.size() <= slot)
        races.streams.resize(slot + 1);
    OfStream& own = races.streams[slot];
    cut_out(own.read, touch.first, touch.last);
    Spans& spans = writes(touch.deed) ? own.written : own.read;
    if (writes(touch.deed))
        cut_out(spans, touch.first, touch.last);
    if (spans.size() < most_spans)
        put(spans, {touch, by});
}

struct Race {
    Span earlier; // in the order in which they were done
    Span later;
};

// `beside`: of its own stream, what may not have ended yet.
void find(Spans& spans, const Touch& touch, const DoingPointer& by, std::vector<Race>& found, const DoingPointer& beside = {})
{
    for (auto at = first_behind(spans, touch.first); at != spans.end() && at->second.touch.first < touch.last; ++at) {
        const Span& span = at->second;
        const auto is_known = [&](const Race& race) { return race.earlier.by == span.by; };
        const bool is_ordered = beside ? span.by != beside
            : span.by->operation.slot == by->operation.slot || is_before(span.by->operation, by->operation.before);
        if (is_ordered || (touch.strong && span.touch.strong))
            continue;
        if (found.size() < most_races && std::none_of(found.begin(), found.end(), is_known))
            found.push_back({span, {touch, by}});
    }
}

std::vector<Race> judged(const std::vector<const std::vector<Touch>*>& lists, const DoingPointer& by)
{
    std::vector<Race> found;
    std::lock_guard<std::mutex> lock(races.mutex);
    for (OfStream& stream : races.streams)
        for (const auto* touches : lists)
            for (const Touch& touch : *touches) {
                find(stream.written, touch, by, found);
                if (writes(touch.deed))
                    find(stream.read, touch, by, found);
            }
    for (const auto* touches : lists) // first what was read: what was also written takes its place
        for (const Touch& touch : *touches)
            remember(touch, by);
    return found;
}

bool is_next(const DoingPointer& first, const DoingPointer& second) { return first->operation.tick + 1 == second->operation.tick; }

// Of launches before in the stream, where the present one may begin before they have ended: it waits for the last alone, and
// so for those before that for which the last waited.
std::vector<Race> judged_early(const Launch& launch, const DoingPointer& by)
{
    std::vector<Race> found;
    std::lock_guard<std::mutex> lock(races.mutex);
    if (by->operation.slot >= races.streams.size())
        races.streams.resize(by->operation.slot + 1);
    OfStream& stream = races.streams[by->operation.slot];
    auto& open = stream.open;
    if (!launch.programmatic || open.empty() || !is_next(open.back(), by))
        open.clear();
    for (const DoingPointer& other : open) {
        if (other->operation.tick <= by->operation.waited)
            continue;
        const Footprint& touched = early.waits && is_next(other, by) ? early.touched : footprint_of_launch();
        for (const auto* touches : {&touched.read, &touched.written})
            for (const Touch& touch : *touches) {
                find(stream.written, touch, by, found, other);
                if (writes(touch.deed))
                    find(stream.read, touch, by, found, other);
            }
    }
    if (early.waits)
        open.clear();
    else if (open.size() == most_races)
        open.erase(open.begin());
    open.push_back(by);
    return found;
}

// Words.

std::string text_of(const StreamName& stream)
{
    switch (stream.kind) {
    case StreamName::legacy: return "the default stream";
    case StreamName::per_thread: return "a thread's default stream";
    default: return "stream " + std::to_string(stream.ordinal);
    }
}

const char* verb(Deed deed)
{
    switch (deed) {
    case Deed::reads: return "reads";
    case Deed::writes: return "writes";
    case Deed::allocates: return "allocates";
    default: return "frees";
    }
}

// "kernel.cu:3: " of the instructions that did it, the other lines after it in `also`; "" where they are not known.
std::string place_of(const Span& span, std::string& also)
{
    const Module* module = span.by->launch ? span.by->launch->function->module : nullptr;
    std::string first;
    std::vector<std::string> others;
    if (!module || !known(const_cast<Module*>(module)))
        return "";
    for (const uint32_t site : span.touch.sites) {
        const std::string place = site ? where(*module, module->image_first + site) : "";
        if (first.empty())
            first = place;
        else if (!place.empty() && place != first && std::find(others.begin(), others.end(), place) == others.end())
            others.push_back(place);
    }
    for (const std::string& place : others)
        also += (also.empty() ? " (also " : ", ") + place;
    also += also.empty() ? "" : ")";
    return first.empty() ? "" : first + ": ";
}

std::string bytes_text(uintptr_t first, uintptr_t last, const Span& one, const Span& other)
{
    const Allocation* array = allocation_at(first);
    if (!array)
        return count_bytes(last - first) + " of " + (is_host_range(first, 1) ? "page-locked memory" : name_module_variable(first));
    const size_t from = first - array->base, to = last - 1 - array->base;
    const std::string bytes = from == to ? "byte " + std::to_string(from)
                                         : "bytes " + std::to_string(from) + " to " + std::to_string(to);
    for (const Span* span : {&one, &other})
        if (span->by->launch && known(const_cast<Module*>(span->by->launch->function->module)))
            return bytes + " of " + name_allocation(*array, *span->by->launch);
    return bytes + " of an array of " + count_bytes(array->size);
}

// The one that was queued first comes second, as in other findings.
std::string text_of(const Race& race)
{
    const bool in_order = race.earlier.by->operation.ticket < race.later.by->operation.ticket;
    const Span &first = in_order ? race.earlier : race.later, &second = in_order ? race.later : race.earlier;
    const uintptr_t from = std::max(first.touch.first, second.touch.first);
    const uintptr_t to = std::min(first.touch.last, second.touch.last);
    const std::string one = text_of(first.by->operation.stream), two = text_of(second.by->operation.stream);
    const auto is_missed = [](const StreamName& x, const StreamName& y) { return x.kind == StreamName::legacy && y.non_blocking; };
    const StreamName &stream_one = first.by->operation.stream, &stream_two = second.by->operation.stream;
    const bool is_default_missed = is_missed(stream_one, stream_two) || is_missed(stream_two, stream_one);
    const Doing *a = first.by.get(), *b = second.by.get();
    std::string also_first, also_second;
    const std::string place_first = place_of(first, also_first), place_second = place_of(second, also_second);
    return "race between streams" + (b->launch ? " in " + b->name : a->launch ? " in " + a->name : "") + "\n  " + place_second
        + b->name + " " + verb(second.touch.deed) + " " + bytes_text(from, to, second, first) + ", in " + two + also_second
        + "\n  " + place_first + a->name + " " + verb(first.touch.deed) + " them in " + one + also_first
        + ", with no event or synchronisation between" + (is_default_missed ? ": a non-blocking stream does not wait for the default one" : "")
        + "\n    record an event in " + one + " after " + a->name + " and let "
        + two + " wait for it (cuStreamWaitEvent) before " + b->name + ", use one stream for both, or synchronise between them";
}

std::string text_of_early(const Race& race)
{
    const Span &first = race.earlier, &second = race.later;
    const uintptr_t from = std::max(first.touch.first, second.touch.first);
    const uintptr_t to = std::min(first.touch.last, second.touch.last);
    std::string also_first, also_second;
    const std::string place_first = place_of(first, also_first), place_second = place_of(second, also_second);
    const bool is_last = is_next(first.by, second.by);
    const char* how = !early.waits ? ", and never waits for the launch before it"
        : is_last ? ", before it waits for the launch before it" : ", and waits for the launch before it alone";
    return "race between launches in " + second.by->name + "\n  " + place_second + second.by->name + " " + verb(second.touch.deed) + " "
        + bytes_text(from, to, second, first) + how + also_second + "\n  " + place_first + first.by->name + " " + verb(first.touch.deed)
        + " them, and need not have ended, because the launch after it is programmatic"
        + (is_last ? "" : " and never waits") + also_first + "\n    call cudaGridDependencySynchronize() (griddepcontrol.wait) "
        + (is_last ? "before what the launch before touches" : "in the launches between the two too");
}

DoingPointer present(const std::string& name, const Launch* launch)
{
    return std::make_shared<Doing>(Doing {*present_operation, name, launch ? std::make_shared<Launch>(*launch) : nullptr});
}

bool is_judged() { return present_operation && streams_are_checked() && !has_failed(present_operation->context); }

} // namespace

struct Source {
    uintptr_t address;
    size_t size;
    std::vector<uint64_t> sums; // of each `block_bytes`
    uint64_t changes;           // when it was summed
    Operation read_by;
};

namespace {

uint64_t sum_of(const char* bytes, size_t size)
{
    uint64_t sum = 14695981039346656037ull ^ size;
    for (; size >= 8; bytes += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        sum = (sum ^ word) * 1099511628211ull;
        sum ^= sum >> 29;
    }
    for (; size; ++bytes, --size)
        sum = (sum ^ uint8_t(*bytes)) * 1099511628211ull;
    return sum;
}

std::vector<uint64_t> sums_of(const Source& source)
{
    std::vector<uint64_t> sums;
    for (size_t at = 0; at < source.size; at += block_bytes)
        sums.push_back(sum_of(reinterpret_cast<const char*>(source.address) + at, std::min(block_bytes, source.size - at)));
    return sums;
}

// Tells it where the host has changed what a copy reads. Each source is looked at once.
void verify(const Source& source, const Operation& copy)
{
    const std::vector<uint64_t> now = sums_of(source);
    const auto differs = std::mismatch(now.begin(), now.end(), source.sums.begin()).first;
    if (differs == now.end() || has_failed(copy.context))
        return;
    const size_t first = size_t(differs - now.begin()) * block_bytes, last = std::min(first + block_bytes, source.size) - 1;
    fail(copy.context, {launch_failed, "page-locked memory changed under a copy\n  the copy to the device in "
            + text_of(copy.stream) + " reads " + count_bytes(source.size) + " of page-locked memory, and the host changed some of bytes "
            + std::to_string(first) + " to " + std::to_string(last)
            + " of them before it had waited for the copy\n    synchronise with " + text_of(copy.stream)
            + ", or with an event that is recorded in it after the copy, before the buffer is filled again"});
}

// Takes out those that `is_over` is true of, and verifies them. With the mutex held.
template <class Over>
void end_sources(Over is_over, bool verified)
{
    auto& all = races.sources;
    const auto over = std::stable_partition(all.begin(), all.end(), [&](const auto& source) { return !is_over(*source); });
    for (auto at = over; verified && at != all.end(); ++at)
        verify(**at, (*at)->read_by);
    all.erase(over, all.end());
}

// The present operation may touch memory of the host: what copies before it have read is its own now.
void take_sources(bool verified)
{
    ++races.changes;
    if (!present_operation)
        return;
    std::lock_guard<std::mutex> lock(races.mutex);
    end_sources([](const Source& source) { return is_before(source.read_by, present_operation->before); }, verified);
}

template <class Over>
void forget_spans(Over is_over) // with the mutex held
{
    for (OfStream& stream : races.streams)
        for (Spans* spans : {&stream.written, &stream.read})
            for (auto span = spans->begin(); span != spans->end();)
                span = is_over(span->second) ? spans->erase(span) : std::next(span);
}

bool overlaps(const Source& source, uintptr_t first, size_t size)
{
    return source.address < first + size && first < source.address + source.size;
}

} // namespace

void check_streams_from_now_on() { races.on = true; }

bool streams_are_checked()
{
    static const bool asked = getenv("SOFTCUDA_CHECKS") && *getenv("SOFTCUDA_CHECKS") == '1';
    return asked || races.on;
}

void judge(const char* what, const std::vector<Touch>& touches)
{
    if (!is_judged())
        return;
    std::string text;
    for (const Race& race : judged({&touches}, present(what, nullptr)))
        text += (text.empty() ? "" : "\nsoftcuda: ") + text_of(race);
    if (!text.empty())
        fail(present_operation->context, {launch_failed, text});
}

void judge_freed(const char* what, uintptr_t address, bool write, size_t size)
{
    fail(present_operation->context, {illegal_address, std::string("use after free\n  ") + what + " in "
            + text_of(present_operation->stream) + (write ? " writes " : " reads ") + count_bytes(size) + " of an array of "
            + count_bytes(allocation_at(address)->size) + " that cuMemFreeAsync has freed in another stream, with no event or "
            + "synchronisation between"});
}

void judge_launch(const Launch& launch)
{
    if (!launch.function->module->image->checked) { // it may have done anything
        take_sources(false);
        return;
    }
    const Footprint& footprint = footprint_of_launch();
    if (footprint.of_host)
        ++races.changes;
    if (footprint.wrote_host) { // the host may see by it what has been done
        take_sources(false);
        host_waited_for(*present_operation);
    }
    if (!is_judged())
        return;
    const DoingPointer by = present(launch.function->name, &launch);
    for (const Race& race : judged_early(launch, by))
        tell(launch_failed, text_of_early(race));
    for (const Race& race : judged({&footprint.read, &footprint.written}, by))
        tell(launch_failed, text_of(race));
}

void order_begins_launch() { early = {}; }

void forget_touches(uintptr_t first, size_t size)
{
    std::lock_guard<std::mutex> lock(races.mutex);
    for (OfStream& stream : races.streams)
        for (Spans* spans : {&stream.written, &stream.read})
            cut_out(*spans, first, first + size);
    end_sources([&](const Source& source) { return overlaps(source, first, size); }, false);
}

void host_has_waited(const StreamClock& clock, bool all_idle)
{
    std::lock_guard<std::mutex> lock(races.mutex);
    end_sources([&](const Source& source) { return is_before(source.read_by, clock); }, true);
    if (!all_idle) // what was queued before may still come, beside what was waited for
        return;
    forget_spans([&](const Span& span) { return is_before(span.by->operation, clock); });
}

void forget_operations_of(const void* context)
{
    std::lock_guard<std::mutex> lock(races.mutex);
    end_sources([&](const Source& source) { return source.read_by.context == context; }, false);
    forget_spans([&](const Span& span) { return span.by->operation.context == context; });
}

std::shared_ptr<Source> source_of_copy(uintptr_t address, size_t size)
{
    if (!streams_are_checked())
        return nullptr;
    auto source = std::make_shared<Source>(Source {address, size, {}, races.changes, {}});
    source->sums = sums_of(*source);
    return source;
}

void source_is_read(const std::shared_ptr<Source>& source)
{
    if (!source || !is_judged())
        return;
    if (source->changes == races.changes)
        verify(*source, *present_operation);
    else
        source->sums = sums_of(*source);
    source->read_by = *present_operation;
    std::lock_guard<std::mutex> lock(races.mutex);
    races.sources.push_back(source);
}

void host_function_begins()
{
    take_sources(true);
    if (present_operation)
        host_waited_for(*present_operation);
    hold_present_stream(true);
}

void host_function_ends()
{
    ++races.changes;
    hold_present_stream(false);
}

void host_is_written(uintptr_t address, size_t size)
{
    ++races.changes;
    std::lock_guard<std::mutex> lock(races.mutex);
    end_sources([&](const Source& source) { return overlaps(source, address, size); }, true);
}

} // namespace softcuda

using namespace softcuda;

extern "C" EXPORT void softcuda_waits_for_grid()
{
    if (!running.launch->programmatic || early.waits || !checker_is_active())
        return;
    wait_until_nobody_runs(uintptr_t(__builtin_return_address(0))); // others of the block may have no need to wait
    if (!early.waits)
        early = {true, footprint_so_far()};
}
