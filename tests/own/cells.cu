// Multiplies each cell of a box with its number; a thread takes PER cells along x.
template <int width_of_block, int per>
__global__ void cells(const int* u, int* v, int depth, int height, int width)
{
    const int z = blockIdx.z * blockDim.z + threadIdx.z, y = blockIdx.y * blockDim.y + threadIdx.y;
    for (int i = 0; i < per; ++i) {
        const int x = (blockIdx.x * per + i) * width_of_block + threadIdx.x;
        if (x < width && y < height && z < depth) {
            const int cell = (z * height + y) * width + x;
            v[cell] = u[cell] * cell;
        }
    }
}
