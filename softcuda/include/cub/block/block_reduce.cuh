// Reductions of a block, whose thread 0 has the result. Each thread leaves its value in the temporary storage: who uses
// that again without a barrier between is found.
#pragma once

#include "../thread/thread_operators.cuh"

namespace cub {

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };

template <class Value, int x, BlockReduceAlgorithm algorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int y = 1, int z = 1, int = 0> class BlockReduce {
    static constexpr unsigned threads = x * y * z;

public:
    struct TempStorage {
        alignas(Value) char softcuda_bytes[threads * sizeof(Value)];
    };

private:
    Value* softcuda_values;

    static SOFTCUDA_CUB TempStorage& own_storage()
    {
        __shared__ TempStorage storage;
        return storage;
    }
    // Pairs of a warp first, neighbours before those farther apart; then the warps one after another.
    template <class Operator> SOFTCUDA_CUB Value of_warp(unsigned first, unsigned count, Operator join) const
    {
        alignas(Value) char bytes[32 * sizeof(Value)];
        Value* const values = reinterpret_cast<Value*>(bytes);
        for (unsigned i = 0; i < count; ++i)
            __builtin_memcpy(static_cast<void*>(values + i), softcuda_values + first + i, sizeof(Value));
        for (unsigned apart = 1; apart < count; apart *= 2)
            for (unsigned i = 0; i + apart < count; i += 2 * apart)
                values[i] = join(values[i], values[i + apart]);
        return values[0];
    }

public:
    SOFTCUDA_CUB BlockReduce() : BlockReduce(own_storage()) { }
    SOFTCUDA_CUB explicit BlockReduce(TempStorage& storage) : softcuda_values(reinterpret_cast<Value*>(storage.softcuda_bytes)) { }

    template <class Operator> SOFTCUDA_CUB Value Reduce(const Value& value, Operator join, int valid = int(threads))
    {
        const unsigned own = softcuda_cub::own_number(), count = unsigned(valid) < threads ? unsigned(valid) : threads;
        softcuda_values[own] = value;
        softcuda_syncthreads();
        if (own)
            return value;
        Value all = of_warp(0, count < 32 ? count : 32, join);
        for (unsigned first = 32; first < count; first += 32)
            all = join(all, of_warp(first, count - first < 32 ? count - first : 32, join));
        return all;
    }
    template <int count, class Operator> SOFTCUDA_CUB Value Reduce(Value (&items)[count], Operator join)
    {
        return Reduce(softcuda_cub::together(items, join), join);
    }
    SOFTCUDA_CUB Value Sum(const Value& value, int valid = int(threads)) { return Reduce(value, cub::Sum(), valid); }
    template <int count> SOFTCUDA_CUB Value Sum(Value (&items)[count]) { return Reduce(items, cub::Sum()); }
};

} // namespace cub
