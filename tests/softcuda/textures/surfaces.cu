// Surface functions: each thread reads or writes an element; the boundary mode and the first x are arguments.
#define MODES(call) \
    switch (mode) { \
    case 0: { constexpr auto MODE = cudaBoundaryModeZero; call; break; } \
    case 1: { constexpr auto MODE = cudaBoundaryModeClamp; call; break; } \
    default: { constexpr auto MODE = cudaBoundaryModeTrap; call; } \
    }

extern "C" __global__ void read_1d(cudaSurfaceObject_t s, int first, int mode, float* out)
{
    const int t = threadIdx.x;
    MODES(out[t] = surf1Dread<float>(s, 4 * (first + t), MODE))
}
// Rows of 8 elements, of a plane that may be smaller.
extern "C" __global__ void read_2d(cudaSurfaceObject_t s, int first, int mode, float* out)
{
    const int t = threadIdx.x, x = 4 * (first + t % 8), y = first + t / 8;
    MODES(surf2Dread(out + t, s, x, y, MODE))
}
extern "C" __global__ void read_3d(cudaSurfaceObject_t s, int first, int mode, float* out)
{
    const int t = threadIdx.x, x = 4 * (first + t % 4), y = first + t / 4 % 4, z = first + t / 16;
    MODES(out[t] = surf3Dread<float>(s, x, y, z, MODE))
}
extern "C" __global__ void read_layers(cudaSurfaceObject_t s, int first, int mode, float* out)
{
    const int t = threadIdx.x, x = 4 * (first + t % 4), y = first + t / 4 % 4, z = first + t / 16;
    MODES(out[t] = surf2DLayeredread<float>(s, x, y, z, MODE))
}
extern "C" __global__ void read_faces(cudaSurfaceObject_t s, int first, int mode, float* out)
{
    const int t = threadIdx.x, x = 4 * (first + t % 4), y = first + t / 4 % 4, z = first + t / 16;
    MODES(out[t] = surfCubemapread<float>(s, x, y, z, MODE))
}
extern "C" __global__ void write_2d(cudaSurfaceObject_t s, int first, int mode, float* out)
{
    const int t = threadIdx.x, x = 4 * (first + t % 8), y = first + t / 8;
    if (mode != 1 || t == 63) // by clamping, several would write one element
        MODES(surf2Dwrite(float(100 + t), s, x, y, MODE))
}
extern "C" __global__ void write_3d(cudaSurfaceObject_t s, int first, int mode, float* out)
{
    const int t = threadIdx.x, x = 4 * (first + t % 4), y = first + t / 4 % 4, z = first + t / 16;
    if (mode != 1 || t == 63)
        MODES(surf3Dwrite(float(100 + t), s, x, y, z, MODE))
}
// Elements of other types, read from a plane of one's own and written to the next row.
template <class T> __device__ void move_row(cudaSurfaceObject_t s, int row)
{
    const int x = sizeof(T) * (threadIdx.x % (64 / sizeof(T)));
    if (threadIdx.x < 64 / sizeof(T)) {
        T value;
        surf2Dread(&value, s, x, row);
        surf2Dwrite(value, s, x, row + 1);
    }
}
extern "C" __global__ void types(cudaSurfaceObject_t s, int, int, float*)
{
    move_row<unsigned char>(s, 0);
    move_row<char2>(s, 2);
    move_row<uchar4>(s, 4);
    move_row<short>(s, 6);
    move_row<ushort2>(s, 8);
    move_row<short4>(s, 10);
    move_row<int>(s, 12);
    move_row<uint2>(s, 14);
    move_row<float4>(s, 16);
    move_row<long long>(s, 18);
    move_row<ulonglong2>(s, 20);
    move_row<char>(s, 22);
}
