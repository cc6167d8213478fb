// Ranks of keys by one digit, stable. Each thread asks all lanes of its warp for the digits of their keys, which takes
// longer than cub's counting but needs no more storage than a count of each warp's.
#pragma once

#include "block_scan.cuh"
#include "radix_rank_sort_operations.cuh"

namespace cub::softcuda_cub {

// striped: whether the keys of a warp are in order by item first, and not by lane.
template <bool striped, int threads, int bits, bool descending> class RadixRank {
    static constexpr int digits = 1 << bits, warps = (threads + 31) / 32;

public:
    static constexpr int BINS_TRACKED_PER_THREAD = digits > threads ? (digits + threads - 1) / threads : 1;
    struct TempStorage {
        alignas(16) int softcuda_counts[warps * digits];
    };

private:
    int* softcuda_counts; // by warp, of keys with a digit

    static SOFTCUDA_CUB TempStorage& own_storage()
    {
        __shared__ TempStorage storage;
        return storage;
    }
    // How many keys of all threads have a digit that comes before one.
    SOFTCUDA_CUB int before(int digit)
    {
        int count = 0;
        for (int warp = 0; warp < warps; ++warp)
            for (int other = descending ? digit + 1 : 0; other < (descending ? digits : digit); ++other)
                count += softcuda_counts[warp * digits + other];
        return count;
    }

public:
    SOFTCUDA_CUB RadixRank() : RadixRank(own_storage()) { }
    SOFTCUDA_CUB explicit RadixRank(TempStorage& storage) : softcuda_counts(storage.softcuda_counts) { }

    template <class Key, int items, class Extractor>
    SOFTCUDA_CUB void RankKeys(Key (&keys)[items], int (&ranks)[items], Extractor extractor)
    {
        const int own = own_number(), warp = own / 32, lane = own % 32, lanes = threads - warp * 32 < 32 ? threads % 32 : 32;
        const unsigned mask = softcuda_activemask();
        int* const counts = softcuda_counts + warp * digits;
        int digit[items];
        for (int i = lane; i < digits; i += lanes)
            counts[i] = 0;
        for (int i = 0; i < items; ++i)
            digit[i] = extractor.Digit(keys[i]);
        softcuda_syncthreads();
        for (int i = 0; i < items; ++i) {
            int all = 0;
            ranks[i] = 0;
            for (int other = 0; other < items; ++other)
                for (int from = 0; from < lanes; ++from) {
                    const bool is_same = from_lane(mask, digit[other], from, 32) == digit[i];
                    const bool is_earlier = striped ? other < i || (other == i && from < lane) : from < lane || (from == lane && other < i);
                    ranks[i] += is_same && is_earlier;
                    all += is_same;
                }
            if (ranks[i] == all - 1)
                counts[digit[i]] = all;
        }
        softcuda_syncthreads();
        for (int i = 0; i < items; ++i) {
            ranks[i] += before(digit[i]);
            for (int other = 0; other < warp; ++other)
                ranks[i] += softcuda_counts[other * digits + digit[i]];
        }
    }
    template <class Key, int items, class Extractor>
    SOFTCUDA_CUB void RankKeys(
        Key (&keys)[items], int (&ranks)[items], Extractor extractor, int (&exclusive_digit_prefix)[BINS_TRACKED_PER_THREAD])
    {
        RankKeys(keys, ranks, extractor);
        for (int i = 0; i < BINS_TRACKED_PER_THREAD; ++i) {
            const int digit = int(own_number()) * BINS_TRACKED_PER_THREAD + i;
            if (digit < digits)
                exclusive_digit_prefix[i] = before(descending ? digits - 1 - digit : digit);
        }
    }
};

} // namespace cub::softcuda_cub

namespace cub {

template <int x, int bits, bool descending, bool = true, BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS, int = 0, int y = 1, int z = 1>
struct BlockRadixRank : softcuda_cub::RadixRank<false, x * y * z, bits, descending> {
    using softcuda_cub::RadixRank<false, x * y * z, bits, descending>::RadixRank;
};
template <int x, int bits, bool descending, BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS, int y = 1, int z = 1>
struct BlockRadixRankMatch : softcuda_cub::RadixRank<true, x * y * z, bits, descending> {
    using softcuda_cub::RadixRank<true, x * y * z, bits, descending>::RadixRank;
};

} // namespace cub
