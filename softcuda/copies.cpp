// Copies and fills. Those with a stream are done in its order; those without are done when the call returns.
#include <cstring>

#include "driver.h"

namespace softcuda {
namespace {

// An address of CUDA is the device's or the host's, by the call. Each end is checked when the work is queued,
// as the driver does, and again by nobody: memory that is freed meanwhile is waited for.
struct End {
    uintptr_t address;
    bool on_device;
};

bool is_valid(const End& end, size_t size) { return end.on_device ? is_device_range(end.address, size) : end.address != 0; }

void move(End to, End from, size_t size)
{
    memmove(reinterpret_cast<void*>(to.address), reinterpret_cast<const void*>(from.address), size);
    if (!to.on_device || !allocation_at(to.address))
        return;
    if (from.on_device && allocation_at(from.address))
        copy_marks(to.address, from.address, size);
    else
        mark_written(to.address, size, true);
}

int copy(End to, End from, size_t size, void* stream, bool wait)
{
    if (!size)
        return success;
    if (!is_valid(to, size) || !is_valid(from, size))
        return invalid_value;
    // The host may do with its memory what it likes once an asynchronous call has returned only if it is
    // page-locked; from other memory CUDA copies first. So does this.
    std::shared_ptr<std::vector<char>> staged;
    if (!wait && !from.on_device && !is_host_range(from.address, size)) {
        const char* bytes = reinterpret_cast<const char*>(from.address);
        staged = std::make_shared<std::vector<char>>(bytes, bytes + size);
        from.address = uintptr_t(staged->data());
    }
    const int failed = enqueue(stream, [=] {
        (void)staged;
        move(to, from, size);
    });
    return failed || !wait ? failed : finish_stream(stream);
}

int fill(uintptr_t address, size_t pitch, unsigned value, unsigned bytes, size_t width, size_t height, void* stream, bool wait)
{
    if (!width || !height)
        return success;
    if (address % bytes || !is_device_range(address, pitch * (height - 1) + width * bytes) || (height > 1 && pitch < width * bytes))
        return invalid_value;
    const int failed = enqueue(stream, [=] {
        for (size_t row = 0; row < height; ++row) {
            char* first = reinterpret_cast<char*>(address + row * pitch);
            for (size_t i = 0; i < width; ++i)
                memcpy(first + i * bytes, &value, bytes); // the low bytes: this is a little-endian machine
            mark_written(address + row * pitch, width * bytes, true);
        }
    });
    return failed || !wait ? failed : finish_stream(stream);
}

// CUDA_MEMCPY2D and CUDA_MEMCPY3D as cuda.h lays them out; memory of type 1 is the host's, 2 the device's.
struct Side2D {
    size_t x, y;
    unsigned type;
    uintptr_t host, device;
    void* array;
    size_t pitch;
};
struct Copy2D {
    Side2D from, to;
    size_t width, height;
};
struct Side3D {
    size_t x, y, z, level;
    unsigned type;
    uintptr_t host, device;
    void *array, *reserved;
    size_t pitch, height;
};
struct Copy3D {
    Side3D from, to;
    size_t width, height, depth;
};

bool plain(unsigned type) { return type == 1 || type == 2 || type == 4; }

End end_of(unsigned type, uintptr_t host, uintptr_t device) { return {type == 1 ? host : device, type != 1}; }

int copy_rows(const Copy3D& c, void* stream, bool wait)
{
    if (!plain(c.from.type) || !plain(c.to.type))
        return not_supported; // arrays
    const auto row = [](const Side3D& side, size_t y, size_t z) {
        End end = end_of(side.type, side.host, side.device);
        end.address += side.x + (side.y + y) * side.pitch + (side.z + z) * side.pitch * side.height;
        return end;
    };
    for (size_t z = 0; z < c.depth; ++z)
        for (size_t y = 0; y < c.height; ++y)
            if (const int failed = copy(row(c.to, y, z), row(c.from, y, z), c.width, stream, false))
                return failed;
    return wait ? finish_stream(stream) : success;
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

} // namespace
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
    return copy(host(to), device(from), size, stream, !is_host_range(uintptr_t(to), size));
}
API cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t size, void* stream)
{
    ENTER(cuMemcpyDtoDAsync);
    return copy(device(to), device(from), size, stream, false);
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
