// What kernels read and write by surface objects: elements as they are, by bytes along x.
#include "arrays.h"

#include <algorithm>
#include <cstring>

namespace softcuda {
namespace {

enum Boundary { zero, clamp_to_edge, trap };

// The address of an element, 0 where it lies outside and nothing is to be done.
uintptr_t element_at(const Object& s, unsigned call, SurfacePlace at, bool write, uintptr_t pc)
{
    const int size = int(call >> 16), boundary = int(call >> 8 & 255);
    const std::string doing = std::string(write ? "writes " : "reads ") + std::to_string(size) + " bytes of a surface at x = "
        + std::to_string(at.x);
    if (at.x % size)
        fault(misaligned_address, "misaligned access " + in_kernel() + "\n  " + where(pc) + ": " + who(running.thread) + " "
                + doing + ", which is no multiple of " + std::to_string(size) + ": x is in bytes");
    const long last[] = {long(size_t(s.width) * s.element_bytes) - size, s.height - 1, s.depth - 1, s.layers - 1};
    long place[] = {at.x, at.y, at.z, at.layer};
    for (int i = 0; i < 4; ++i) {
        if (place[i] >= 0 && place[i] <= last[i])
            continue;
        if (boundary == zero)
            return 0;
        if (boundary == trap)
            fault(illegal_address, "out of bounds " + in_kernel() + "\n  " + where(pc) + ": " + who(running.thread) + " "
                    + doing + " (in bytes), y = " + std::to_string(at.y) + ", z = " + std::to_string(at.z) + ", layer "
                    + std::to_string(at.layer) + ", outside its " + std::to_string(s.width) + " x " + std::to_string(s.height)
                    + " x " + std::to_string(s.depth) + " elements of " + count_bytes(s.element_bytes) + " in "
                    + std::to_string(s.layers) + " layer(s)");
        place[i] = std::min(std::max(place[i], 0l), last[i]);
    }
    const size_t slices = size_t(place[2] + place[3]); // one of them is 0
    return s.base + slices * s.slice + size_t(place[1]) * s.row + size_t(place[0]);
}

} // namespace
} // namespace softcuda

using namespace softcuda;
#define CALLER reinterpret_cast<uintptr_t>(__builtin_return_address(0))

extern "C" {

EXPORT TexelWords softcuda_surface_read(unsigned long long handle, unsigned call, SurfacePlace at)
{
    const Object& s = usable(handle, true, int(call & 255), CALLER);
    TexelWords words {};
    const uintptr_t address = element_at(s, call, at, false, CALLER);
    if (!address)
        return words;
    check_cached_read(address, call >> 16, CALLER);
    memcpy(&words, reinterpret_cast<const void*>(address), call >> 16);
    return words;
}

EXPORT void softcuda_surface_write(unsigned long long handle, unsigned call, SurfacePlace at, TexelWords value)
{
    const Object& s = usable(handle, true, int(call & 255), CALLER);
    const uintptr_t address = element_at(s, call, at, true, CALLER);
    if (!address)
        return;
    check_access(address, call >> 16, true, CALLER);
    memcpy(reinterpret_cast<void*>(address), &value, call >> 16);
}

} // extern "C"
