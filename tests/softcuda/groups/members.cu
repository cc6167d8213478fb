// What each group says of itself, in blocks of 8 x 4 x 2 threads: a row of 24 numbers for each thread of the grid.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ int of_any(cg::thread_group group) { return int(group.size() * 1000 + group.thread_rank()); }
template <unsigned count> __device__ int of_tile(cg::thread_block_tile<count> tile)
{
    return int(tile.num_threads() * 1000 + tile.thread_rank());
}

extern "C" __global__ void members(int* out)
{
    const cg::thread_block block = cg::this_thread_block();
    const cg::grid_group grid = cg::this_grid();
    const auto tile = cg::tiled_partition<8>(block);
    const auto part = cg::tiled_partition<2>(tile);
    const cg::thread_group quarter = cg::tiled_partition(block, 16);
    int* row = out + 24 * grid.thread_rank();
    row[0] = int(block.size()), row[1] = int(block.thread_rank());
    row[2] = int(block.group_index().x), row[3] = int(block.thread_index().x + 10 * block.thread_index().y + 100 * block.thread_index().z);
    row[4] = int(block.group_dim().x + block.dim_threads().z), row[5] = int(block.num_threads());
    row[6] = int(grid.size()), row[7] = int(grid.num_threads()), row[8] = int(grid.block_rank()), row[9] = int(grid.num_blocks());
    row[10] = int(tile.size()), row[11] = int(tile.thread_rank()), row[12] = int(tile.meta_group_rank()), row[13] = int(tile.meta_group_size());
    row[14] = int(part.thread_rank()), row[15] = int(part.meta_group_rank()), row[16] = int(part.meta_group_size());
    row[17] = of_any(block), row[18] = of_any(tile), row[19] = of_any(quarter), row[20] = of_tile<8>(tile);
    row[21] = of_any(cg::this_thread()), row[22] = int(cg::group_size(block) + cg::thread_rank(tile));
    row[23] = int(grid.dim_threads().x * 1000 + grid.thread_index().x);
}
