extern "C" __global__ void gather(cudaTextureObject_t x, const int* places, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float2 pair = tex1Dfetch<float2>(x, places[i]);
        y[i] = pair.x + pair.y;
    }
}

// One texel of a linear filter is the mean of four, where it is asked for the corner that they share.
extern "C" __global__ void shrink(cudaTextureObject_t image, float* small, int m, int n)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < n / 2 && row < (m + 1) / 2)
        small[row * (n / 2) + column] = tex2D<float>(image, 2 * column + 1, 2 * row + 1);
}

// x is in bytes.
extern "C" __global__ void neighbours(cudaSurfaceObject_t image, cudaSurfaceObject_t sums, int m, int n)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < n && row < m) {
        const float above = surf2Dread<float>(image, 4 * column, row - 1, cudaBoundaryModeClamp);
        surf2Dwrite(above + surf2Dread<float>(image, 4 * column, row + 1, cudaBoundaryModeClamp), sums, 4 * column, row);
    }
}

extern "C" __global__ void doubled(cudaSurfaceObject_t x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float2 pair = surf1Dread<float2>(x, 8 * i);
        surf1Dwrite(make_float2(2 * pair.x, 2 * pair.y), x, 8 * i);
    }
}

extern "C" __global__ void added(cudaTextureObject_t x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float2 pair = tex1D<float2>(x, i + 0.5f);
        y[i] = pair.x + pair.y;
    }
}

// A linear filter gives the mean of eight at the corner that they share.
extern "C" __global__ void corners(cudaTextureObject_t volume, float* means, int d, int m, int n)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x <= n && y <= m && z <= d)
        means[(z * (m + 1) + y) * (n + 1) + x] = tex3D<float>(volume, x, y, z);
}
