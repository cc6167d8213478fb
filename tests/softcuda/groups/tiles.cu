// The functions of a tile of SIZE lanes: a row of 16 numbers for each thread.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

struct Wide { // of 24 bytes
    double first;
    int rank;
    long last;
};

extern "C" __global__ void tiles(int* out)
{
    const cg::thread_block_tile<SIZE> tile = cg::tiled_partition<SIZE>(cg::this_thread_block());
    const int mine = int(threadIdx.x) * 7 % 11, rank = int(tile.thread_rank());
    int* row = out + 16 * threadIdx.x;
    row[0] = tile.shfl(mine, 3 % SIZE), row[1] = tile.shfl(mine, rank + 1); // modulo the size
    row[2] = tile.shfl_up(mine, 2), row[3] = tile.shfl_down(mine, 3), row[4] = tile.shfl_xor(mine, SIZE / 2);
    row[5] = tile.any(mine == 4), row[6] = tile.all(mine < 9), row[7] = int(tile.ballot(mine > 5));
    row[8] = int(tile.match_any(mine % 3));
    int same = 5;
    row[9] = int(tile.match_all(mine / 12, same)) + same, row[10] = int(tile.match_all(rank, same)), row[11] = same;
    row[12] = int(tile.shfl(mine / 2.0, 0) * 2), row[13] = int(tile.shfl_down((long long)mine << 40, 1) >> 40);
    const Wide wide = tile.shfl(Wide {mine / 4.0, rank, mine}, SIZE - 1);
    row[14] = int(wide.first * 4) + 100 * wide.rank + 10000 * int(wide.last);
    cg::invoke_one(tile, [&] { row[15] += 1000; });
    row[15] += cg::invoke_one_broadcast(tile, [&](int more) { return mine + more; }, 1);
}
