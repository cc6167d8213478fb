// Groups that are found as the kernel runs: a row of 16 numbers for each thread.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

// g++ makes two calls of one here, where lanes with and without five go on apart.
extern "C" __global__ void joined(int* out)
{
    int mine = 0;
    if (out[threadIdx.x] & 1)
        mine = 5;
    const auto active = cg::coalesced_threads();
    if (mine == 5)
        mine += int(active.size());
    else
        mine = -int(active.size());
    out[threadIdx.x] = mine;
}

extern "C" __global__ void parts(int* out)
{
    int* row = out + 16 * threadIdx.x;
    const int mine = int(threadIdx.x);
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const cg::coalesced_group labeled = cg::labeled_partition(warp, mine * 5 % 3);
    row[0] = int(labeled.size()), row[1] = int(labeled.thread_rank()), row[2] = cg::reduce(labeled, mine, cg::plus<int>());
    const auto halves = cg::binary_partition(warp, mine % 4 == 1);
    row[3] = int(halves.size()), row[4] = int(halves.thread_rank()), row[5] = halves.shfl(mine, 1);
    row[15] = int(labeled.meta_group_size() + 10 * halves.meta_group_rank() + 100 * halves.meta_group_size());
    if (mine % 32 < 20 && mine % 2) {
        const cg::coalesced_group active = cg::coalesced_threads(); // 10 lanes
        row[6] = int(active.size()), row[7] = active.shfl(mine, 9), row[8] = active.shfl_up(mine, 1), row[9] = active.shfl_down(mine, 4);
        row[10] = int(active.ballot(mine % 3 == 0));
        const cg::coalesced_group four = cg::tiled_partition(active, 4);
        row[11] = int(four.size() + 10 * four.thread_rank() + 100 * four.meta_group_rank() + 1000 * four.meta_group_size());
        row[12] = cg::reduce(four, mine, cg::plus<int>());
        row[13] = int(active.match_any(mine % 4)), row[14] = active.any(mine == 5) + 2 * active.all(mine > 0);
    }
}
