// What cub's collectives compute, of blocks of 96 threads; with BROKEN (a number) a barrier is missing.
#include <cub/cub.cuh>
#ifndef BROKEN
#define BROKEN 0
#endif
constexpr int threads = 96;

// 1: the storage is used again without a barrier. 2: only some threads come.
extern "C" __global__ void sums_of_a_block(int* out)
{
    using BlockReduce = cub::BlockReduce<int, threads>;
    __shared__ typename BlockReduce::TempStorage storage;
    const int own = threadIdx.x, mine = out[own];
    if (BROKEN == 2 && own > 90)
        return;
    const int sum = BlockReduce(storage).Sum(mine);
    if (BROKEN != 1)
        __syncthreads();
    const int most = BlockReduce(storage).Reduce(mine, cub::Max());
    __syncthreads();
    int two[2] = {mine, 2 * mine};
    const int all = BlockReduce(storage).Sum(two);
    __syncthreads();
    const int some = BlockReduce(storage).Sum(mine, 40);
    __syncthreads();
    using Pair = cub::KeyValuePair<int, float>;
    const Pair where = cub::BlockReduce<Pair, threads>().Reduce(Pair(own, float(mine % 50)), cub::ArgMax());
    if (own == 0)
        out[0] = sum, out[1] = most, out[2] = all, out[3] = some, out[4] = where.key;
}

// 1: the storage is used again without a barrier.
extern "C" __global__ void scans_of_a_block(int* out)
{
    using BlockScan = cub::BlockScan<int, threads, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ typename BlockScan::TempStorage storage;
    const int own = threadIdx.x, mine = out[own];
    int before, total, upto, most, two[2] = {mine, 1}, sums[2];
    BlockScan(storage).ExclusiveSum(mine, before, total);
    if (BROKEN != 1)
        __syncthreads();
    BlockScan(storage).InclusiveSum(mine, upto);
    __syncthreads();
    BlockScan(storage).InclusiveScan(mine % 50, most, cub::Max());
    __syncthreads();
    BlockScan(storage).ExclusiveSum(two, sums);
    int* const row = out + threads + 6 * own;
    row[0] = before, row[1] = total, row[2] = upto, row[3] = most, row[4] = sums[0], row[5] = sums[1];
}

extern "C" __global__ void of_warps(int* out)
{
    using WarpReduce = cub::WarpReduce<int>;
    using EightReduce = cub::WarpReduce<double, 8>;
    using WarpScan = cub::WarpScan<int>;
    __shared__ typename WarpReduce::TempStorage storage[threads / 32];
    __shared__ typename EightReduce::TempStorage eights[threads / 8];
    __shared__ typename WarpScan::TempStorage scans[threads / 32];
    const int own = threadIdx.x, mine = out[own];
    int upto, before, total;
    const int sum = WarpReduce(storage[own / 32]).Sum(mine);
    const double least = EightReduce(eights[own / 8]).Reduce(double(mine % 50), cub::Min());
    WarpScan(scans[own / 32]).InclusiveSum(mine, upto);
    WarpScan(scans[own / 32]).ExclusiveSum(mine, before, total);
    int* const row = out + threads + 5 * own;
    row[0] = own % 32 ? 0 : sum, row[1] = own % 8 ? 0 : int(least), row[2] = upto, row[3] = before, row[4] = total;
}


// What CUB 3 has (nvcc 13.0, sm_90): kernels put their own memory behind it.
template <cub::BlockLoadAlgorithm load, cub::BlockStoreAlgorithm store, int count> constexpr bool are_sizes(int loads, int stores)
{
    return sizeof(typename cub::BlockLoad<float, 128, count, load>::TempStorage) == loads
        && sizeof(typename cub::BlockStore<float, 128, count, store>::TempStorage) == stores;
}
static_assert(are_sizes<cub::BLOCK_LOAD_DIRECT, cub::BLOCK_STORE_VECTORIZE, 4>(1, 1));
static_assert(are_sizes<cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::BLOCK_STORE_WARP_TRANSPOSE, 4>(2048, 2064));
static_assert(are_sizes<cub::BLOCK_LOAD_TRANSPOSE, cub::BLOCK_STORE_TRANSPOSE, 8>(4224, 4240));
static_assert(are_sizes<cub::BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED, cub::BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED, 8>(1056, 1072));
static_assert(alignof(typename cub::BlockLoad<char, 64, 3, cub::BLOCK_LOAD_TRANSPOSE>::TempStorage) == 16);

extern "C" __global__ void loads_and_stores(int* out)
{
    using Load = cub::BlockLoad<int, threads, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    using Striped = cub::BlockLoad<int, threads, 4, cub::BLOCK_LOAD_STRIPED>;
    using Store = cub::BlockStore<int, threads, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } storage;
    int items[4], others[4];
    Load(storage.load).Load(out, items, 4 * threads - 1, -1);
    Striped().Load(out, others);
    for (int i = 0; i < 4; ++i)
        items[i] += 1000 * others[i];
    __syncthreads();
    Store(storage.store).Store(out + 4 * threads, items);
}

// 1: the storage is used again without a barrier.
extern "C" __global__ void sorts_of_a_block(int* out)
{
    using Numbers = cub::BlockRadixSort<int, threads, 2>;
    using Pairs = cub::BlockRadixSort<float, threads, 2, int>;
    using Bits = cub::BlockRadixSort<unsigned char, threads, 1>;
    __shared__ union {
        typename Numbers::TempStorage numbers;
        typename Pairs::TempStorage pairs;
    } storage;
    const int own = threadIdx.x;
    int numbers[2], places[2];
    float keys[2];
    for (int i = 0; i < 2; ++i) {
        const int mine = out[2 * own + i];
        numbers[i] = mine % 3 ? mine : -mine;
        keys[i] = (mine % 3 ? 0.5f : -0.5f) * (mine / 4); // with zeros of both signs
        places[i] = 2 * own + i;
    }
    Numbers(storage.numbers).SortDescendingBlockedToStriped(numbers);
    if (BROKEN != 1)
        __syncthreads();
    Pairs(storage.pairs).Sort(keys, places);
    unsigned char byte[1] = {(unsigned char)out[own]};
    Bits().SortDescending(byte, 2, 5);
    const int sorted[2] = {out[places[0]], out[places[1]]};
    for (int i = 0; i < 2; ++i) {
        out[2 * threads + 2 * own + i] = numbers[i];
        out[4 * threads + 2 * own + i] = places[i];
        out[6 * threads + 2 * own + i] = sorted[i];
    }
    out[8 * threads + own] = byte[0];
}

extern "C" __global__ void ranks_of_a_block(int* out)
{
    using Ranks = cub::BlockRadixRank<threads, 3, true>;
    using Matched = cub::BlockRadixRankMatch<threads, 7, false>;
    __shared__ union {
        typename Ranks::TempStorage ranks;
        typename Matched::TempStorage matched;
    } storage;
    const int own = threadIdx.x;
    unsigned keys[2] = {unsigned(out[2 * own]), unsigned(out[2 * own + 1])};
    int ranks[2], matched[2], before[Matched::BINS_TRACKED_PER_THREAD];
    Ranks(storage.ranks).RankKeys(keys, ranks, cub::BFEDigitExtractor<unsigned>(2, 3));
    __syncthreads();
    Matched(storage.matched).RankKeys(keys, matched, cub::ShiftDigitExtractor<unsigned>(0, 7), before);
    for (int i = 0; i < 2; ++i) {
        out[2 * threads + 2 * own + i] = ranks[i];
        out[4 * threads + 2 * own + i] = matched[i];
    }
    if (own < 128 / Matched::BINS_TRACKED_PER_THREAD)
        out[6 * threads + own] = before[0];
}

// Hands on what came before a block's values, and adds what they have.
struct Before {
    int sum;
    __device__ int operator()(int all)
    {
        const int before = sum;
        sum += all;
        return before;
    }
};

extern "C" __global__ void scans_with_prefixes(int* out)
{
    using BlockScan = cub::BlockScan<int, threads>;
    __shared__ typename BlockScan::TempStorage storage;
    const int own = threadIdx.x;
    Before sum { 1000 }, upto { 0 };
    int* row = out + threads + 6 * own;
    for (int i = 0; i < 2; ++i) {
        BlockScan(storage).ExclusiveSum(out[own] + i, row[i], sum);
        __syncthreads();
    }
    BlockScan(storage).InclusiveScan(out[own], row[2], cub::Sum(), upto);
    __syncthreads();
    BlockScan(storage).ExclusiveScan(out[own], row[3], 5, cub::Max());
    __syncthreads();
    int two[2] = {out[own], 1}, sums[2];
    BlockScan(storage).InclusiveSum(two, sums, upto);
    row[4] = sums[0], row[5] = sums[1];
}

// 1: the storage is used again without a barrier.
extern "C" __global__ void exchanges(int* out)
{
    using Exchange = cub::BlockExchange<int, threads, 2>;
    __shared__ typename Exchange::TempStorage storage;
    const int own = threadIdx.x;
    int items[2], ranks[2], warps[2];
    cub::LoadDirectStriped<threads>(own, out, items);
    Exchange(storage).StripedToBlocked(items);
    __syncthreads();
    for (int i = 0; i < 2; ++i)
        ranks[i] = 2 * threads - 1 - (2 * own + i);
    Exchange(storage).BlockedToWarpStriped(items, warps);
    cub::StoreDirectBlocked(own, out + 2 * threads, warps);
    if (BROKEN != 1)
        __syncthreads();
    Exchange(storage).ScatterToStriped(items, ranks);
    cub::StoreDirectStriped<threads>(own, out + 4 * threads, items, 2 * threads - 3);
}
