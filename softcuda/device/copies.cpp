// Copies and fills. Those with a stream are done in its order; those without are done when the call returns.
#include <cstring>
#include <shared_mutex>

#include "arrays.h"
#include "copies.h"
#include "races/stream_races.h"

namespace softcuda {
namespace {

// An address of CUDA is the device's or the host's, by the call. Each end is checked when the work is queued,
// as the driver does, and again by nobody: memory that is freed meanwhile is waited for.
struct End {
    uintptr_t address;
    bool on_device;
};

bool is_valid(const End& end, size_t size) { return end.on_device ? is_device_range(end.address, size) : end.address != 0; }

const char* name_of(const End& to, const End& from)
{
    const bool to_device = allocation_at(to.address), from_device = allocation_at(from.address);
    if (to_device || to.on_device)
        return from_device || (from.on_device && !is_host_range(from.address, 1)) ? "the copy on the device" : "the copy to the device";
    return from_device || from.on_device ? "the copy to the host" : "the copy on the host";
}

bool is_remembered(const End& end) { return end.on_device || is_host_range(end.address, 1); }

// Memory that cuMemFreeAsync gives back must not go while a copy on another stream uses it.
bool is_gone(const End& end)
{
    const Allocation* array = end.on_device ? allocation_at(end.address) : nullptr;
    return array && !array->live;
}

void move(End to, End from, size_t size)
{
    const char* name = name_of(to, from);
    std::shared_lock<std::shared_mutex> lock(memory_in_use);
    if (is_gone(to) || is_gone(from))
        return judge_freed(name, (is_gone(to) ? to : from).address, is_gone(to), size);
    std::vector<Touch> touches;
    if (is_remembered(from))
        touches.push_back({from.address, from.address + size, Deed::reads});
    if (is_remembered(to))
        touches.push_back({to.address, to.address + size, Deed::writes});
    judge(name, touches);
    if (is_host_range(to.address, 1))
        host_is_written(to.address, size);
    memmove(reinterpret_cast<void*>(to.address), reinterpret_cast<const void*>(from.address), size);
    if (!to.on_device || !allocation_at(to.address))
        return;
    if (from.on_device && allocation_at(from.address))
        copy_marks(to.address, from.address, size);
    else
        mark_written(to.address, size, true);
}

// A copy to or from the host is over when a call without a stream returns; on the device it may go on.
Waits waits_for(const End& to, const End& from)
{
    const auto is_host = [](const End& end) { return !end.on_device || is_host_range(end.address, 1); };
    return is_host(to) || is_host(from) ? Waits::for_the_host : Waits::for_itself;
}

int copy(End to, End from, size_t size, void* stream, bool wait)
{
    if (!size)
        return success;
    std::shared_lock<std::shared_mutex> until_queued(memory_in_use); // another thread may free it only before or after
    if (!is_valid(to, size) || !is_valid(from, size))
        return invalid_value;
    // The host may do with its memory what it likes once an asynchronous call has returned only if it is
    // page-locked; from other memory CUDA copies first. So does this.
    std::shared_ptr<std::vector<char>> staged;
    // A graph reads them when it is launched.
    if (!wait && !from.on_device && !is_host_range(from.address, size) && !is_capturing(stream)) {
        const char* bytes = reinterpret_cast<const char*>(from.address);
        staged = std::make_shared<std::vector<char>>(bytes, bytes + size);
        from.address = uintptr_t(staged->data());
    }
    std::shared_ptr<Source> source;
    if (!wait && !staged && is_host_range(from.address, size) && !is_capturing(stream))
        source = source_of_copy(from.address, size);
    const int failed = enqueue(stream, [=] {
        (void)staged;
        source_is_read(source);
        move(to, from, size);
    }, NodeKind::copy);
    until_queued.unlock();
    return failed || !wait ? failed : finish_stream(stream, waits_for(to, from));
}

std::vector<Touch> rows_of(uintptr_t address, size_t pitch, size_t width, size_t height)
{
    std::vector<Touch> rows;
    for (size_t row = 0; row < height; ++row)
        rows.push_back({address + row * pitch, address + row * pitch + width, Deed::writes});
    return rows;
}

Checked filling(uintptr_t address, size_t pitch, unsigned value, unsigned bytes, size_t width, size_t height)
{
    if (address % bytes || !is_device_range(address, pitch * (height - 1) + width * bytes) || (height > 1 && pitch < width * bytes))
        return {invalid_value, nullptr};
    return {success, [=] {
        judge("the fill", rows_of(address, pitch, width * bytes, height));
        for (size_t row = 0; row < height; ++row) {
            char* first = reinterpret_cast<char*>(address + row * pitch);
            for (size_t i = 0; i < width; ++i)
                memcpy(first + i * bytes, &value, bytes); // the low bytes: this is a little-endian machine
            mark_written(address + row * pitch, width * bytes, true);
        }
    }};
}

int fill(uintptr_t address, size_t pitch, unsigned value, unsigned bytes, size_t width, size_t height, void* stream, bool wait)
{
    if (!width || !height)
        return success;
    std::shared_lock<std::shared_mutex> until_queued(memory_in_use);
    Checked filled = filling(address, pitch, value, bytes, width, height);
    if (filled.code)
        return filled.code;
    const int failed = enqueue(stream, std::move(filled.work), NodeKind::fill);
    until_queued.unlock();
    // Only a fill of the host's memory is over when a call without a stream returns.
    return failed || !wait ? failed : finish_stream(stream, is_host_range(address, 1) ? Waits::for_the_host : Waits::for_itself);
}

End end_of(unsigned type, uintptr_t host, uintptr_t device) { return {type == 1 ? host : device, type != 1}; }

// An array is device memory whose rows and slices it knows itself. False where there is no such part of it.
bool resolve_array(Side3D& side, const Copy3D& c)
{
    if (side.type != 3)
        return side.type == 1 || side.type == 2 || side.type == 4;
    const Array* array = array_of(side.array);
    if (!array || side.x + c.width > array->row_bytes() || side.y + c.height > array->rows() || side.z + c.depth > array->slices())
        return false;
    side.type = 2, side.device = array->base, side.pitch = array->row_bytes(), side.height = array->rows();
    return true;
}

End row_of(const Side3D& side, size_t y, size_t z)
{
    End end = end_of(side.type, side.host, side.device);
    end.address += side.x + (side.y + y) * side.pitch + (side.z + z) * side.pitch * side.height;
    return end;
}

int copy_rows(Copy3D c, void* stream, bool wait)
{
    if (!resolve_array(c.from, c) || !resolve_array(c.to, c))
        return invalid_value;
    for (size_t z = 0; z < c.depth; ++z)
        for (size_t y = 0; y < c.height; ++y)
            if (const int failed = copy(row_of(c.to, y, z), row_of(c.from, y, z), c.width, stream, false))
                return failed;
    return wait ? finish_stream(stream, waits_for(row_of(c.to, 0, 0), row_of(c.from, 0, 0))) : success;
}

Side3D deepen(const Side2D& s, size_t width)
{
    return {s.x, s.y, 0, 0, s.type, s.host, s.device, s.array, nullptr, s.pitch ? s.pitch : width, 0};
}

int copy_rows(const Copy2D* c, void* stream, bool wait)
{
    if (!c)
        return invalid_value;
    return copy_rows(Copy3D {deepen(c->from, c->width), deepen(c->to, c->width), c->width, c->height, 1}, stream, wait);
}

End device(uintptr_t address) { return {address, true}; }
End host(const void* address) { return {uintptr_t(address), false}; }
End either(uintptr_t address) { return {address, is_device_range(address, 1)}; }

} // namespace

Checked copy_work(Copy3D c)
{
    if (!resolve_array(c.from, c) || !resolve_array(c.to, c))
        return {invalid_value, nullptr};
    for (size_t z = 0; z < c.depth; ++z)
        for (size_t y = 0; y < c.height; ++y)
            if (!is_valid(row_of(c.to, y, z), c.width) || !is_valid(row_of(c.from, y, z), c.width))
                return {invalid_value, nullptr};
    return {success, [c] {
        for (size_t z = 0; z < c.depth; ++z)
            for (size_t y = 0; y < c.height; ++y)
                move(row_of(c.to, y, z), row_of(c.from, y, z), c.width);
    }};
}

Checked fill_work(uintptr_t address, size_t pitch, unsigned value, unsigned bytes, size_t width, size_t height)
{
    if (!width || !height || (bytes != 1 && bytes != 2 && bytes != 4))
        return {invalid_value, nullptr};
    return filling(address, pitch, value, bytes, width, height);
}

} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuMemcpyHtoD_v2(uintptr_t to, const void* from, size_t size)
{
    ENTER(cuMemcpyHtoD);
    return copy(device(to), host(from), size, nullptr, true);
}
API cuMemcpyDtoH_v2(void* to, uintptr_t from, size_t size)
{
    ENTER(cuMemcpyDtoH);
    const int failed = copy(host(to), device(from), size, nullptr, true);
    return failed ? failed : softcuda::enter("cuMemcpyDtoH (after)", true);
}
API cuMemcpyDtoD_v2(uintptr_t to, uintptr_t from, size_t size)
{
    ENTER(cuMemcpyDtoD);
    return copy(device(to), device(from), size, nullptr, true);
}
API cuMemcpyHtoDAsync_v2(uintptr_t to, const void* from, size_t size, void* stream)
{
    ENTER(cuMemcpyHtoDAsync);
    return copy(device(to), host(from), size, stream, false);
}
API cuMemcpyDtoHAsync_v2(void* to, uintptr_t from, size_t size, void* stream)
{
    ENTER(cuMemcpyDtoHAsync);
    return copy(host(to), device(from), size, stream, !is_host_range(uintptr_t(to), size) && !is_capturing(stream));
}
API cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t size, void* stream)
{
    ENTER(cuMemcpyDtoDAsync);
    return copy(device(to), device(from), size, stream, false);
}
API cuMemcpy(uintptr_t to, uintptr_t from, size_t size)
{
    ENTER(cuMemcpy);
    const int failed = copy(either(to), either(from), size, nullptr, true);
    return failed ? failed : softcuda::enter("cuMemcpy (after)", true);
}
API cuMemcpyAsync(uintptr_t to, uintptr_t from, size_t size, void* stream)
{
    ENTER(cuMemcpyAsync);
    const bool wait = !either(to).on_device && !is_host_range(to, size) && !is_capturing(stream);
    return copy(either(to), either(from), size, stream, wait);
}
API cuMemcpyPeer(uintptr_t to, void*, uintptr_t from, void*, size_t size)
{
    ENTER(cuMemcpyPeer);
    return copy(device(to), device(from), size, nullptr, true);
}
API cuMemcpyPeerAsync(uintptr_t to, void*, uintptr_t from, void*, size_t size, void* stream)
{
    ENTER(cuMemcpyPeerAsync);
    return copy(device(to), device(from), size, stream, false);
}
API cuMemcpy2D_v2(const Copy2D* what)
{
    ENTER(cuMemcpy2D);
    return copy_rows(what, nullptr, true);
}
API cuMemcpy2DUnaligned_v2(const Copy2D* what)
{
    ENTER(cuMemcpy2DUnaligned);
    return copy_rows(what, nullptr, true);
}
API cuMemcpy2DAsync_v2(const Copy2D* what, void* stream)
{
    ENTER(cuMemcpy2DAsync);
    return copy_rows(what, stream, false);
}
API cuMemcpy3D_v2(const Copy3D* what)
{
    ENTER(cuMemcpy3D);
    return what ? copy_rows(*what, nullptr, true) : invalid_value;
}
API cuMemcpy3DAsync_v2(const Copy3D* what, void* stream)
{
    ENTER(cuMemcpy3DAsync);
    return what ? copy_rows(*what, stream, false) : invalid_value;
}

#define FILL(bits, type) \
    API cuMemsetD##bits##_v2(uintptr_t to, type value, size_t count) \
    { \
        ENTER(cuMemsetD##bits); \
        return fill(to, 0, value, bits / 8, count, 1, nullptr, true); \
    } \
    API cuMemsetD##bits##Async(uintptr_t to, type value, size_t count, void* stream) \
    { \
        ENTER(cuMemsetD##bits##Async); \
        return fill(to, 0, value, bits / 8, count, 1, stream, false); \
    } \
    API cuMemsetD2D##bits##_v2(uintptr_t to, size_t pitch, type value, size_t width, size_t height) \
    { \
        ENTER(cuMemsetD2D##bits); \
        return fill(to, pitch, value, bits / 8, width, height, nullptr, true); \
    } \
    API cuMemsetD2D##bits##Async(uintptr_t to, size_t pitch, type value, size_t width, size_t height, void* stream) \
    { \
        ENTER(cuMemsetD2D##bits##Async); \
        return fill(to, pitch, value, bits / 8, width, height, stream, false); \
    }
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned)

} // extern "C"
