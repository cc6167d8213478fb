// CUDA_MEMCPY2D and CUDA_MEMCPY3D as cuda.h lays them out; memory of type 1 is the host's, 2 the
// device's, 3 an array, 4 any of the first two.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softcuda {

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

} // namespace softcuda
