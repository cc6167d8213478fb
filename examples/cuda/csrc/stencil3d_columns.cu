// A step of a 3-D stencil with 7 points, a thread a column of DEEP points along z: below, own and above stay in
// registers from one plane to the next, so a point is read once by its own column and four times by its neighbours'.
// Costs: DEEP + 2 planes read for DEEP written; five loads a point, four of them from L1 or L2; no barriers.
// Limits: 65,535 blocks along z and along y, 2^31 - 1 along x.

extern "C" __global__ void __launch_bounds__(BLOCK_X* BLOCK_Y)
stencil3d_columns(const float* x, float* y, int nz, int ny, int nx, float centre, float side)
{
    const int ix = blockIdx.x * BLOCK_X + threadIdx.x;
    const int iy = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int first = blockIdx.z * DEEP, end = min(nz - first, DEEP) + first;
    if (ix >= nx || iy >= ny)
        return;

    const size_t plane = size_t(ny) * nx;
    size_t at = first * plane + size_t(iy) * nx + ix;
    float below = first > 0 ? x[at - plane] : 0.0f, own = x[at];
#pragma unroll 4
    for (int iz = first; iz < end; ++iz, at += plane) {
        const float above = iz + 1 < nz ? x[at + plane] : 0.0f;
        const float west = ix > 0 ? x[at - 1] : 0.0f, east = ix + 1 < nx ? x[at + 1] : 0.0f;
        const float north = iy > 0 ? x[at - nx] : 0.0f, south = iy + 1 < ny ? x[at + nx] : 0.0f;
        y[at] = centre * own + side * (west + east + north + south + below + above);
        below = own;
        own = above;
    }
}
