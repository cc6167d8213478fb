// Loads of a block: several values a thread, side by side, or (striped) a block's size apart.
#pragma once

#include "../thread/thread_operators.cuh"

namespace cub {

enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT,
    BLOCK_LOAD_STRIPED,
    BLOCK_LOAD_VECTORIZE,
    BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};

template <class Value, int x, int count, BlockLoadAlgorithm algorithm = BLOCK_LOAD_DIRECT, int y = 1, int z = 1, int = 0> class BlockLoad {
    static SOFTCUDA_CUB int place(int item)
    {
        const int own = int(softcuda_cub::own_number());
        return algorithm == BLOCK_LOAD_STRIPED ? own + item * x * y * z : own * count + item;
    }

public:
    // Of the size that CUB's has, because kernels put their own memory behind it.
    using TempStorage = softcuda_cub::Storage<softcuda_cub::exchange_bytes(
        sizeof(Value), x * y * z, count, algorithm >= BLOCK_LOAD_TRANSPOSE, algorithm == BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED)>;
    BlockLoad() = default;
    SOFTCUDA_CUB explicit BlockLoad(TempStorage&) { }

    template <class From> SOFTCUDA_CUB void Load(From from, Value (&items)[count])
    {
        for (int i = 0; i < count; ++i)
            items[i] = from[place(i)];
    }
    template <class From> SOFTCUDA_CUB void Load(From from, Value (&items)[count], int valid)
    {
        for (int i = 0; i < count; ++i)
            if (place(i) < valid)
                items[i] = from[place(i)];
    }
    template <class From, class Other> SOFTCUDA_CUB void Load(From from, Value (&items)[count], int valid, Other other)
    {
        for (int i = 0; i < count; ++i) {
            items[i] = Value(other);
            if (place(i) < valid)
                items[i] = from[place(i)];
        }
    }
};

// The same without a class, for the thread of that number.
#define SOFTCUDA_CUB_LOAD(name, before, place) \
    template <before class Value, int count, class From> SOFTCUDA_CUB void name(int own, From from, Value (&items)[count]) \
    { \
        for (int i = 0; i < count; ++i) \
            items[i] = from[place]; \
    } \
    template <before class Value, int count, class From> SOFTCUDA_CUB void name(int own, From from, Value (&items)[count], int valid) \
    { \
        for (int i = 0; i < count; ++i) \
            if (place < valid) \
                items[i] = from[place]; \
    } \
    template <before class Value, class Other, int count, class From> \
    SOFTCUDA_CUB void name(int own, From from, Value (&items)[count], int valid, Other other) \
    { \
        for (int i = 0; i < count; ++i) { \
            items[i] = Value(other); \
            if (place < valid) \
                items[i] = from[place]; \
        } \
    }
#define SOFTCUDA_THREADS int threads,
#define SOFTCUDA_NONE
SOFTCUDA_CUB_LOAD(LoadDirectBlocked, SOFTCUDA_NONE, own * count + i)
SOFTCUDA_CUB_LOAD(LoadDirectStriped, SOFTCUDA_THREADS, own + i * threads)
#undef SOFTCUDA_CUB_LOAD
#undef SOFTCUDA_THREADS
#undef SOFTCUDA_NONE

} // namespace cub
