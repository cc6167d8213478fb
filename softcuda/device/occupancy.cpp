// The CUDA driver API: how many blocks are on a multiprocessor at once. A device of software has none; the answers follow
// from the limits that it states (threads and shared memory), since clients choose blocks and grids by them.
#include <algorithm>

#include "driver.h"

namespace softcuda {
namespace {

constexpr size_t threads_of_multiprocessor = 1024, blocks_of_multiprocessor = 32;

int blocks_at_once(const Function& function, int threads, size_t dynamic_shared)
{
    if (threads <= 0 || unsigned(threads) > most_threads(function))
        return 0;
    const size_t whole_warps = (size_t(threads) + warp_size - 1) / warp_size * warp_size;
    const size_t shared = function.static_shared + dynamic_shared;
    size_t blocks = std::min(blocks_of_multiprocessor, threads_of_multiprocessor / whole_warps);
    if (shared)
        blocks = std::min(blocks, size_t(max_shared_opt_in) / shared);
    return int(blocks);
}

} // namespace
} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Function* function, int threads, size_t shared, unsigned)
{
    ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    if (!blocks || !function || threads <= 0)
        return invalid_value;
    *blocks = blocks_at_once(*function, threads, shared);
    return success;
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function* function, int threads, size_t shared)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

API cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* grid, int* block, Function* function, size_t (*shared_of)(int), size_t shared, int limit, unsigned)
{
    ENTER(cuOccupancyMaxPotentialBlockSize);
    if (!grid || !block || !function)
        return invalid_value;
    int most = int(most_threads(*function)), best = 0;
    if (limit > 0)
        most = std::min(most, limit);
    for (int threads = most; threads > 0; threads = (threads - 1) / int(warp_size) * int(warp_size)) {
        const int blocks = blocks_at_once(*function, threads, shared_of ? shared_of(threads) : shared);
        if (blocks * threads > best)
            best = blocks * threads, *grid = blocks, *block = threads;
    }
    return best ? success : invalid_value;
}

API cuOccupancyMaxPotentialBlockSize(int* grid, int* block, Function* function, size_t (*shared_of)(int), size_t shared, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared, limit, 0);
}

API cuOccupancyAvailableDynamicSMemPerBlock(size_t* shared, Function* function, int blocks, int threads)
{
    ENTER(cuOccupancyAvailableDynamicSMemPerBlock);
    if (!shared || !function || blocks <= 0 || blocks_at_once(*function, threads, 0) < blocks)
        return invalid_value;
    const size_t each = std::min(size_t(max_shared_opt_in) / size_t(blocks), function->most_shared());
    *shared = each - std::min(each, function->static_shared);
    return success;
}

} // extern "C"
