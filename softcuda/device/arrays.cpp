// The CUDA driver API: arrays, and copies of a row to them and from them. Copies of more rows are in copies.cpp.
#include "arrays.h"

#include <mutex>
#include <set>

extern "C" int cuMemAlloc_v2(uintptr_t* address, size_t size);
extern "C" int cuMemFree_v2(uintptr_t address);

namespace softcuda {
namespace {

std::set<const Array*>& arrays = *new std::set<const Array*>;
std::mutex& arrays_mutex = *new std::mutex;

// Largest extents of compute capability 9.0 (the programming guide's table of technical specifications).
bool is_possible(const ArrayDescription& d)
{
    const bool layers = d.flags & layered, cube = d.flags & cubemap;
    if (!component_bytes(d.format) || (d.channels != 1 && d.channels != 2 && d.channels != 4) || !d.width)
        return false;
    if (cube)
        return d.width == d.height && d.width <= 32768 && (layers ? d.depth && d.depth % 6 == 0 : d.depth == 6);
    if (layers)
        return d.depth && d.depth <= 2048 && d.width <= 32768 && d.height <= 32768;
    if (d.depth)
        return d.height && d.width <= 16384 && d.height <= 16384 && d.depth <= 16384;
    return d.width <= 131072 && d.height <= 65536;
}

int create(const Array** made, const ArrayDescription& described)
{
    constexpr unsigned known = layered | cubemap | 2 | 8; // surfaces, tex2Dgather
    if (!made || !is_possible(described))
        return invalid_value;
    if (described.flags & ~known)
        return not_supported;
    auto* array = new Array {described, 0};
    if (const int failed = cuMemAlloc_v2(&array->base, array->size())) {
        delete array;
        return failed;
    }
    std::lock_guard<std::mutex> lock(arrays_mutex);
    arrays.insert(array);
    *made = array;
    return success;
}

struct Description2D { // CUDA_ARRAY_DESCRIPTOR
    size_t width, height;
    unsigned format, channels;
};

} // namespace

unsigned component_bytes(unsigned format)
{
    switch (format) {
    case u8: case s8: return 1;
    case u16: case s16: case f16: return 2;
    case u32: case s32: case f32: return 4;
    default: return 0;
    }
}

const Array* array_of(const void* handle)
{
    std::lock_guard<std::mutex> lock(arrays_mutex);
    const auto found = arrays.find(static_cast<const Array*>(handle));
    if (found == arrays.end())
        return nullptr;
    const Allocation* allocation = allocation_at((*found)->base);
    return allocation && allocation->live ? *found : nullptr; // it goes with its context
}

} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuArrayCreate_v2(const Array** made, const Description2D* d)
{
    ENTER(cuArrayCreate);
    return d ? create(made, {d->width, d->height, 0, d->format, d->channels, 2}) : invalid_value;
}
API cuArray3DCreate_v2(const Array** made, const ArrayDescription* d)
{
    ENTER(cuArray3DCreate);
    return d ? create(made, *d) : invalid_value;
}
API cuArrayGetDescriptor_v2(Description2D* d, const Array* handle)
{
    ENTER(cuArrayGetDescriptor);
    const Array* array = array_of(handle);
    if (!array || !d)
        return array ? invalid_value : invalid_handle;
    *d = {array->described.width, array->described.height, array->described.format, array->described.channels};
    return success;
}
API cuArray3DGetDescriptor_v2(ArrayDescription* d, const Array* handle)
{
    ENTER(cuArray3DGetDescriptor);
    const Array* array = array_of(handle);
    if (!array || !d)
        return array ? invalid_value : invalid_handle;
    *d = array->described;
    return success;
}
API cuArrayDestroy(const Array* handle)
{
    ENTER(cuArrayDestroy);
    const Array* array = array_of(handle);
    if (!array)
        return invalid_handle;
    cuMemFree_v2(array->base);
    std::lock_guard<std::mutex> lock(arrays_mutex);
    arrays.erase(array);
    delete array;
    return success;
}

int cuMemcpyHtoD_v2(uintptr_t to, const void* from, size_t size);
int cuMemcpyDtoH_v2(void* to, uintptr_t from, size_t size);
int cuMemcpyDtoD_v2(uintptr_t to, uintptr_t from, size_t size);
int cuMemcpyHtoDAsync_v2(uintptr_t to, const void* from, size_t size, void* stream);
int cuMemcpyDtoHAsync_v2(void* to, uintptr_t from, size_t size, void* stream);

// The address in an array where so many bytes are; the copy's own check refuses 0.
static uintptr_t within(const Array* handle, size_t offset, size_t size)
{
    const Array* array = array_of(handle);
    return array && offset <= array->size() && size <= array->size() - offset ? array->base + offset : 0;
}

API cuMemcpyHtoA_v2(const Array* to, size_t offset, const void* from, size_t size)
{
    return cuMemcpyHtoD_v2(within(to, offset, size), from, size);
}
API cuMemcpyAtoH_v2(void* to, const Array* from, size_t offset, size_t size)
{
    return cuMemcpyDtoH_v2(to, within(from, offset, size), size);
}
API cuMemcpyDtoA_v2(const Array* to, size_t offset, uintptr_t from, size_t size)
{
    return cuMemcpyDtoD_v2(within(to, offset, size), from, size);
}
API cuMemcpyAtoD_v2(uintptr_t to, const Array* from, size_t offset, size_t size)
{
    return cuMemcpyDtoD_v2(to, within(from, offset, size), size);
}
API cuMemcpyAtoA_v2(const Array* to, size_t to_offset, const Array* from, size_t from_offset, size_t size)
{
    return cuMemcpyDtoD_v2(within(to, to_offset, size), within(from, from_offset, size), size);
}
API cuMemcpyHtoAAsync_v2(const Array* to, size_t offset, const void* from, size_t size, void* stream)
{
    return cuMemcpyHtoDAsync_v2(within(to, offset, size), from, size, stream);
}
API cuMemcpyAtoHAsync_v2(void* to, const Array* from, size_t offset, size_t size, void* stream)
{
    return cuMemcpyDtoHAsync_v2(to, within(from, offset, size), size, stream);
}

} // extern "C"
