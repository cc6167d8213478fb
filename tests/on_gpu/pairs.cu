// Reverses an array tile by tile: each block of a cluster of two stores the tile that the other one has loaded, which it
// reads from the other's shared memory. Adds a constant.
#include <cooperative_groups.h>

__constant__ float shift[1];

extern "C" __global__ void reverse_pairs(const float* x, float* y)
{
    extern __shared__ float tile[];
    const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    tile[threadIdx.x] = x[i];
    cluster.sync();
    const float* other = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
    y[i] = other[BLOCK_X - 1 - threadIdx.x] + shift[0];
    cluster.sync();
}
