// Warp intrinsics that groups share their meetings with: a row of 16 numbers for each thread.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

extern "C" __global__ void intrinsics(int* out)
{
    int* row = out + 16 * threadIdx.x;
    const int mine = int(threadIdx.x) * 7 % 11 - 5;
    const unsigned half_mask = threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u;
    row[0] = __reduce_add_sync(half_mask, mine), row[1] = __reduce_min_sync(half_mask, mine), row[2] = __reduce_max_sync(half_mask, mine);
    row[3] = int(__reduce_add_sync(0xffffffffu, unsigned(mine))), row[4] = int(__reduce_min_sync(0xffffffffu, unsigned(mine)));
    row[5] = int(__reduce_and_sync(half_mask, unsigned(mine))), row[6] = int(__reduce_or_sync(half_mask, unsigned(mine)));
    row[7] = int(__reduce_xor_sync(half_mask, unsigned(mine))), row[8] = int(__reduce_max_sync(half_mask, unsigned(mine)));
    int same = 5;
    row[9] = int(__match_all_sync(half_mask, threadIdx.x / 16, &same)) + same;
    row[10] = int(__match_all_sync(half_mask, mine, &same)) + same;
    row[11] = int(2 * float(__shfl_down_sync(0xffffffffu, __float2half(mine / 2.0f), 1)));
    row[12] = int(2 * __low2float(__shfl_xor_sync(0xffffffffu, __floats2half2_rn(mine / 2.0f, 1.0f), 5)));
    row[13] = int(2 * __shfl_up_sync(0xffffffffu, mine / 2.0, 3)), row[14] = int(2 * __shfl_sync(0xffffffffu, mine / 2.0f, 2, 8));
    row[15] = int(__shfl_xor_sync(0xffffffffu, (unsigned long long)(mine + 5) << 40, 9) >> 40);
}

// Sums that wrap, and of half precision: a row of 4 numbers for each thread.
extern "C" __global__ void other_sums(int* out)
{
    int* row = out + 4 * threadIdx.x;
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int mine = int(threadIdx.x) % 16;
    row[0] = cg::reduce(tile, 0x10000000 + mine, cg::plus<int>());
    row[1] = int(cg::inclusive_scan(tile, 0x1000000000000000 + mine) >> 32);
    row[2] = int(2 * float(cg::reduce(tile, __float2half(mine / 2.0f), cg::plus<__half>())));
    row[3] = int(2 * float(cg::reduce(tile, __float2half(mine / 2.0f), cg::greater<__half>())));
}
