// CUDA's arrays, and the textures and surfaces through which kernels see them: arrays.cpp makes arrays, objects.cpp what
// kernels are given, sampling.cpp and surfaces.cpp do what they ask for.
#pragma once

#include "driver.h"

namespace softcuda {

// CUarray_format and flags of CUDA_ARRAY3D_DESCRIPTOR, by cuda.h's numbers.
enum Format : unsigned { u8 = 1, u16 = 2, u32 = 3, s8 = 8, s16 = 9, s32 = 10, f16 = 0x10, f32 = 0x20 };
constexpr unsigned layered = 1, cubemap = 4;
unsigned component_bytes(unsigned format); // 0 where there is no such format
inline bool is_float(unsigned format) { return format == f16 || format == f32; }

struct ArrayDescription { // CUDA_ARRAY3D_DESCRIPTOR
    size_t width, height, depth;
    unsigned format, channels, flags;
};

// Elements lie row by row, with nothing between, in an allocation of their own: so the checker knows what was written.
struct Array {
    ArrayDescription described;
    uintptr_t base;

    unsigned element_bytes() const { return component_bytes(described.format) * described.channels; }
    size_t row_bytes() const { return described.width * element_bytes(); }
    size_t rows() const { return described.height ? described.height : 1; }
    size_t slices() const { return described.depth ? described.depth : 1; } // or layers, or faces
    size_t size() const { return row_bytes() * rows() * slices(); }
};
const Array* array_of(const void* handle); // null where it is none, or no more

struct Resource { // CUDA_RESOURCE_DESC
    int type;     // 0 array, 1 mipmapped array, 2 linear, 3 pitch2D
    union {
        const void* array;
        struct {
            uintptr_t address;
            unsigned format, channels;
            size_t size_or_width, height, pitch;
        } memory;
        int reserved[32];
    };
    unsigned flags;
};
struct Sampling { // CUDA_TEXTURE_DESC
    int modes[3];
    int filter; // 0 point, 1 linear
    unsigned flags, anisotropy;
    int mipmap_filter;
    float bias, least, most;
    float border[4];
    int reserved[12];
};
enum AddressMode { wrap, clamp, mirror, border };
constexpr unsigned as_integer = 1, normalized = 2, srgb = 16, seamless = 64;

// A texture or a surface, as kernels use it.
struct Object {
    unsigned long long handle;
    bool is_surface;
    Resource resource;
    Sampling sampling;
    const Allocation* allocation; // null: a module's variable, or the host's memory
    uintptr_t base;
    unsigned format, channels, element_bytes, flags; // flags of the array
    long width, height, depth, layers; // in elements; 1 where there is no such extent
    size_t row, slice; // in bytes
};
const Object* object_of(unsigned long long handle); // null where there is none
// The object for a kernel's access, of which `shape` and `is_surface` say what it must be. Ends the launch where it is not.
const Object& usable(unsigned long long handle, bool is_surface, int shape, uintptr_t pc);
[[noreturn]] void bad_object(const std::string& what, uintptr_t pc); // "k.cu:3: thread (0, 0) of block (0, 0) " + what
constexpr int linear_memory = -1; // in the place of a Shape

// checker.cpp, findings.cpp: an access by an element's address, where accesses are checked.
void check_cached_read(uintptr_t address, unsigned size, uintptr_t pc);

} // namespace softcuda
