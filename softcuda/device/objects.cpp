// The CUDA driver API: texture and surface objects, and what a kernel is told that uses one wrongly.
#include "arrays.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

namespace softcuda {
namespace {

// A place for each object that is alive at once; a handle says which place, and how often it was used before.
constexpr unsigned long long places = 1 << 16;
std::array<std::atomic<const Object*>, places>& objects = *new std::array<std::atomic<const Object*>, places> {};
std::mutex& objects_mutex = *new std::mutex;
unsigned long long made_so_far = 0;

int keep(unsigned long long* handle, Object object)
{
    std::lock_guard<std::mutex> lock(objects_mutex);
    for (unsigned long long tried = 0; tried < places; ++tried) {
        auto& place = objects[++made_so_far % places];
        if (place.load())
            continue;
        object.handle = *handle = made_so_far;
        place = new Object(object);
        return success;
    }
    return out_of_memory;
}

int let_go(unsigned long long handle, bool is_surface)
{
    const Object* object = object_of(handle);
    if (!object || object->is_surface != is_surface)
        return invalid_value;
    wait_for_everything(Waits::for_itself);
    objects[handle % places] = nullptr;
    delete object;
    return success;
}

int of_array(Object& o, const Resource& r)
{
    const Array* array = array_of(r.array);
    if (!array)
        return invalid_handle;
    const ArrayDescription& d = array->described;
    o.base = array->base, o.format = d.format, o.channels = d.channels, o.flags = d.flags;
    const bool has_layers = d.flags & (layered | cubemap);
    o.width = long(d.width), o.height = long(array->rows());
    (has_layers ? o.layers : o.depth) = long(array->slices());
    o.row = array->row_bytes(), o.slice = o.row * array->rows();
    return success;
}

// Alignments as an H100 with driver 580 asks for: 512 bytes, of a pitch 32.
int of_memory(Object& o, const Resource& r)
{
    const auto& m = r.memory;
    const bool is_linear = r.type == 2;
    const unsigned element = component_bytes(m.format) * m.channels;
    if (!element || (m.channels != 1 && m.channels != 2 && m.channels != 4) || m.address % 512)
        return invalid_value;
    o.base = m.address, o.format = m.format, o.channels = m.channels;
    o.width = long(is_linear ? m.size_or_width / element : m.size_or_width);
    o.height = is_linear ? 1 : long(m.height);
    o.row = is_linear ? m.size_or_width : m.pitch;
    if (!is_linear && (m.pitch % 32 || size_t(o.width) * element > m.pitch))
        return invalid_value;
    const size_t size = o.row * size_t(o.height - 1) + size_t(o.width) * element;
    return o.width > 0 && o.height > 0 && is_device_range(o.base, size) ? success : invalid_value;
}

int describe(Object& o, const Resource& r)
{
    o.resource = r;
    o.height = o.depth = o.layers = 1;
    if (const int failed = r.type == 0 ? of_array(o, r) : r.type == 1 ? int(not_supported) : of_memory(o, r))
        return failed;
    o.element_bytes = component_bytes(o.format) * o.channels;
    o.allocation = allocation_at(o.base);
    return success;
}

template <class Part> int get(Part* to, unsigned long long handle, bool is_surface, const Part Object::*part)
{
    const Object* object = object_of(handle);
    if (!object || !to || object->is_surface != is_surface)
        return invalid_value;
    *to = object->*part;
    return success;
}

std::string hex(unsigned long long number)
{
    char text[32];
    snprintf(text, sizeof text, "0x%llx", number);
    return text;
}

const char* const shapes[] = {"linear memory", "one dimension", "two dimensions", "three dimensions", "layers of one dimension",
    "layers of two dimensions", "a cube", "layers of cubes"};

// A dimension of extent 1 may be left out, and one that is not there be asked for, as on a GPU.
bool fits(const Object& o, int shape)
{
    const bool is_linear = o.resource.type == 2;
    if (is_linear || shape == linear_memory)
        return is_linear && shape == linear_memory;
    const bool layers = o.flags & layered, cube = o.flags & cubemap;
    switch (Shape(shape)) {
    case Shape::line: return !layers && !cube && o.depth == 1 && o.height == 1;
    case Shape::plane: return !layers && !cube && o.depth == 1;
    case Shape::volume: return !layers && !cube;
    case Shape::line_layers: return layers && !cube && o.height == 1;
    case Shape::plane_layers: return layers && !cube;
    case Shape::cube: return cube && !layers;
    default: return cube && layers;
    }
}

} // namespace

const Object* object_of(unsigned long long handle)
{
    const Object* object = objects[handle % places];
    return object && object->handle == handle ? object : nullptr;
}

void bad_object(const std::string& what, uintptr_t pc)
{
    fault(illegal_address, "texture error " + in_kernel() + "\n  " + where(pc) + ": " + who(running.thread) + " " + what);
}

const Object& usable(unsigned long long handle, bool is_surface, int shape, uintptr_t pc)
{
    const std::string name = is_surface ? "surface" : "texture";
    const Object* object = object_of(handle);
    if (__builtin_expect(!object, 0))
        bad_object("uses " + hex(handle) + ", which is no " + name + " object: it was destroyed, or never made", pc);
    if (__builtin_expect(object->is_surface != is_surface, 0))
        bad_object("uses a " + std::string(is_surface ? "texture" : "surface") + " object as a " + name, pc);
    if (__builtin_expect(!fits(*object, shape), 0))
        bad_object("asks a " + name + " of another kind for " + shapes[shape + 1], pc);
    if (__builtin_expect(object->allocation && !object->allocation->live, 0))
        bad_object("uses a " + name + " whose memory was freed", pc);
    return *object;
}

} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuTexObjectCreate(unsigned long long* handle, const Resource* resource, const Sampling* sampling, const void* view)
{
    ENTER(cuTexObjectCreate);
    if (!handle || !resource || !sampling)
        return invalid_value;
    if (view || sampling->flags & srgb)
        return not_supported;
    Object made {};
    made.sampling = *sampling;
    if (const int failed = describe(made, *resource))
        return failed;
    // Integers are not filtered; the driver takes such a texture, CUDA's runtime refuses it.
    const bool raw = !is_float(made.format) && (sampling->flags & as_integer || component_bytes(made.format) == 4);
    if (raw && sampling->filter == 1 && made.resource.type != 2)
        return invalid_value;
    return keep(handle, made);
}
API cuTexObjectDestroy(unsigned long long handle)
{
    ENTER(cuTexObjectDestroy);
    return let_go(handle, false);
}
API cuTexObjectGetResourceDesc(Resource* to, unsigned long long handle)
{
    ENTER(cuTexObjectGetResourceDesc);
    return get(to, handle, false, &Object::resource);
}
API cuTexObjectGetTextureDesc(Sampling* to, unsigned long long handle)
{
    ENTER(cuTexObjectGetTextureDesc);
    return get(to, handle, false, &Object::sampling);
}
API cuTexObjectGetResourceViewDesc(void*, unsigned long long)
{
    ENTER(cuTexObjectGetResourceViewDesc);
    return invalid_value; // no texture has one
}

API cuSurfObjectCreate(unsigned long long* handle, const Resource* resource)
{
    ENTER(cuSurfObjectCreate);
    if (!handle || !resource || resource->type != 0)
        return invalid_value;
    Object made {};
    made.is_surface = true;
    const int failed = describe(made, *resource);
    return failed ? failed : keep(handle, made);
}
API cuSurfObjectDestroy(unsigned long long handle)
{
    ENTER(cuSurfObjectDestroy);
    return let_go(handle, true);
}
API cuSurfObjectGetResourceDesc(Resource* to, unsigned long long handle)
{
    ENTER(cuSurfObjectGetResourceDesc);
    return get(to, handle, true, &Object::resource);
}

} // extern "C"
