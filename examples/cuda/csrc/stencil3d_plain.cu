// A step of a 3-D stencil with 7 points, a thread a point: y = centre x + side (the six neighbours); beyond the box is 0.
// Blocks have three dimensions, so that of a point's six neighbours most are read by the same block and come from L1.
// Costs: x once from memory where three planes of it fit in L2, y once.
// Limits: 65,535 blocks along z and along y, 2^31 - 1 along x.

extern "C" __global__ void __launch_bounds__(BLOCK_X* BLOCK_Y* BLOCK_Z)
stencil3d_plain(const float* x, float* y, int nz, int ny, int nx, float centre, float side)
{
    const int ix = blockIdx.x * BLOCK_X + threadIdx.x;
    const int iy = blockIdx.y * BLOCK_Y + threadIdx.y;
    const int iz = blockIdx.z * BLOCK_Z + threadIdx.z;
    if (ix >= nx || iy >= ny || iz >= nz)
        return;

    const size_t plane = size_t(ny) * nx, at = iz * plane + size_t(iy) * nx + ix;
    const float west = ix > 0 ? x[at - 1] : 0.0f, east = ix + 1 < nx ? x[at + 1] : 0.0f;
    const float north = iy > 0 ? x[at - nx] : 0.0f, south = iy + 1 < ny ? x[at + nx] : 0.0f;
    const float below = iz > 0 ? x[at - plane] : 0.0f, above = iz + 1 < nz ? x[at + plane] : 0.0f;
    y[at] = centre * x[at] + side * (west + east + north + south + below + above);
}
