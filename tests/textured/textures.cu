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
