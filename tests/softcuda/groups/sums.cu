// Reductions and scans of a tile of SIZE lanes, and of every third lane: a row of 20 numbers for each thread.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

struct Best {
    double value;
    int where;
};

template <class Group> __device__ void sums(const Group& group, int* row, int mine)
{
    row[0] = cg::reduce(group, mine, cg::plus<int>()), row[1] = cg::reduce(group, mine, cg::less<int>());
    row[2] = cg::reduce(group, mine, cg::greater<int>()), row[3] = cg::reduce(group, mine, cg::bit_and<int>());
    row[4] = cg::reduce(group, mine, cg::bit_or<int>()), row[5] = cg::reduce(group, mine, cg::bit_xor<int>());
    row[6] = int(8 * cg::reduce(group, mine / 8.0f, cg::plus<float>()));
    const Best best = cg::reduce(group, Best {mine / 4.0, int(threadIdx.x)}, [](const Best& one, const Best& other) {
        return other.value > one.value || (other.value == one.value && other.where < one.where) ? other : one;
    });
    row[7] = int(4 * best.value) + 100 * best.where;
    row[8] = cg::inclusive_scan(group, mine), row[9] = cg::exclusive_scan(group, mine);
    row[10] = cg::inclusive_scan(group, mine, cg::greater<int>());
    row[11] = cg::exclusive_scan(group, mine, [](int one, int other) { return one + 2 * other; });
    row[12] = int(group.size()), row[13] = int(group.thread_rank());
    row[14] = int(4 * cg::inclusive_scan(group, mine / 4.0, cg::plus<double>()));
}

extern "C" __global__ void sums(int* out)
{
    int* row = out + 20 * threadIdx.x;
    const int mine = int(threadIdx.x) * 7 % 11 + 1;
    if (EVERY == 1)
        sums(cg::tiled_partition<SIZE>(cg::this_thread_block()), row, mine);
    else if (threadIdx.x % EVERY == 0)
        sums(cg::coalesced_threads(), row, mine);
}
