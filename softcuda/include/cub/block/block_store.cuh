// Stores of a block: several values a thread, side by side, or (striped) a block's size apart.
#pragma once

#include "../thread/thread_operators.cuh"

namespace cub {

enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT,
    BLOCK_STORE_STRIPED,
    BLOCK_STORE_VECTORIZE,
    BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

template <class Value, int x, int count, BlockStoreAlgorithm algorithm = BLOCK_STORE_DIRECT, int y = 1, int z = 1, int = 0> class BlockStore {
    static SOFTCUDA_CUB int place(int item)
    {
        const int own = int(softcuda_cub::own_number());
        return algorithm == BLOCK_STORE_STRIPED ? own + item * x * y * z : own * count + item;
    }

public:
    // Of the size that CUB's has, because kernels put their own memory behind it.
    using TempStorage = softcuda_cub::Storage<softcuda_cub::exchange_bytes(
        sizeof(Value), x * y * z, count, algorithm >= BLOCK_STORE_TRANSPOSE, algorithm == BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED) + (algorithm >= BLOCK_STORE_TRANSPOSE ? 16 : 0)>;
    BlockStore() = default;
    SOFTCUDA_CUB explicit BlockStore(TempStorage&) { }

    template <class To> SOFTCUDA_CUB void Store(To to, Value (&items)[count])
    {
        for (int i = 0; i < count; ++i)
            to[place(i)] = items[i];
    }
    template <class To> SOFTCUDA_CUB void Store(To to, Value (&items)[count], int valid)
    {
        for (int i = 0; i < count; ++i)
            if (place(i) < valid)
                to[place(i)] = items[i];
    }
};

// The same without a class, for the thread of that number.
#define SOFTCUDA_CUB_STORE(name, before, place) \
    template <before class Value, int count, class To> SOFTCUDA_CUB void name(int own, To to, Value (&items)[count]) \
    { \
        for (int i = 0; i < count; ++i) \
            to[place] = items[i]; \
    } \
    template <before class Value, int count, class To> SOFTCUDA_CUB void name(int own, To to, Value (&items)[count], int valid) \
    { \
        for (int i = 0; i < count; ++i) \
            if (place < valid) \
                to[place] = items[i]; \
    }
#define SOFTCUDA_THREADS int threads,
#define SOFTCUDA_NONE
SOFTCUDA_CUB_STORE(StoreDirectBlocked, SOFTCUDA_NONE, own * count + i)
SOFTCUDA_CUB_STORE(StoreDirectStriped, SOFTCUDA_THREADS, own + i * threads)
#undef SOFTCUDA_CUB_STORE
#undef SOFTCUDA_THREADS
#undef SOFTCUDA_NONE

} // namespace cub
