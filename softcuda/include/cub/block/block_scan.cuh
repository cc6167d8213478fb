// Scans of a block. Each thread leaves its value in the temporary storage: who uses that again without a barrier between
// is found.
#pragma once

#include "../thread/thread_operators.cuh"

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class Value, int x, BlockScanAlgorithm algorithm = BLOCK_SCAN_RAKING, int y = 1, int z = 1, int = 0> class BlockScan {
    static constexpr unsigned threads = x * y * z;
    template <class Type> static Type& declared();

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
    // What comes before the thread, without a value for thread 0, and what all have. A warp's first lane adds up those of
    // the warps before, and each lane those of its own.
    template <class Operator> SOFTCUDA_CUB void scan(const Value& value, Value& before, Value& total, Operator join)
    {
        const unsigned own = softcuda_cub::own_number(), first = own / 32 * 32;
        softcuda_values[own] = value;
        softcuda_syncthreads();
        Value prefix = value, all = value;
        if (own == first) {
            all = softcuda_values[0];
            for (unsigned i = 1; i < threads; ++i) {
                if (i == first)
                    prefix = all;
                all = join(all, softcuda_values[i]);
            }
        }
        prefix = softcuda_cub::from_lane(0xffffffffu, prefix, 0, 32);
        total = softcuda_cub::from_lane(0xffffffffu, all, 0, 32);
        before = first ? prefix : softcuda_values[0];
        for (unsigned i = first ? first : 1; i < own; ++i)
            before = join(before, softcuda_values[i]);
    }
    // What comes before the whole block, by a function that its first warp calls with what all have. It is left where the
    // values were, for all threads.
    template <class Prefix> SOFTCUDA_CUB Value of_block(const Value& total, Prefix& prefix)
    {
        const unsigned own = softcuda_cub::own_number();
        softcuda_syncthreads(); // all have read
        if (own < 32) {
            const Value given = prefix(total);
            if (!own)
                softcuda_values[0] = given;
        }
        softcuda_syncthreads();
        return softcuda_values[0];
    }

public:
    SOFTCUDA_CUB BlockScan() : BlockScan(own_storage()) { }
    SOFTCUDA_CUB explicit BlockScan(TempStorage& storage) : softcuda_values(reinterpret_cast<Value*>(storage.softcuda_bytes)) { }

    // One value a thread.
    template <class Operator> SOFTCUDA_CUB void InclusiveScan(Value value, Value& result, Operator join, Value& total)
    {
        Value before;
        scan(value, before, total, join);
        result = softcuda_cub::own_number() ? join(before, value) : value;
    }
    template <class Operator> SOFTCUDA_CUB void InclusiveScan(Value value, Value& result, Operator join)
    {
        Value total;
        InclusiveScan(value, result, join, total);
    }
    template <class Operator> SOFTCUDA_CUB void ExclusiveScan(Value value, Value& result, Value initial, Operator join, Value& total)
    {
        Value before;
        scan(value, before, total, join);
        result = softcuda_cub::own_number() ? join(initial, before) : initial;
    }
    template <class Operator> SOFTCUDA_CUB void ExclusiveScan(Value value, Value& result, Value initial, Operator join)
    {
        Value total;
        ExclusiveScan(value, result, initial, join, total);
    }
    // Thread 0's result is not defined.
    template <class Operator> SOFTCUDA_CUB void ExclusiveScan(Value value, Value& result, Operator join)
    {
        Value total;
        scan(value, result, total, join);
    }
    SOFTCUDA_CUB void InclusiveSum(Value value, Value& result) { InclusiveScan(value, result, cub::Sum()); }
    SOFTCUDA_CUB void InclusiveSum(Value value, Value& result, Value& total) { InclusiveScan(value, result, cub::Sum(), total); }
    SOFTCUDA_CUB void ExclusiveSum(Value value, Value& result) { ExclusiveScan(value, result, Value(), cub::Sum()); }
    SOFTCUDA_CUB void ExclusiveSum(Value value, Value& result, Value& total) { ExclusiveScan(value, result, Value(), cub::Sum(), total); }

    // The same with a function for what comes before the block.
    template <class Operator, class Prefix, class = decltype(declared<Prefix>()(declared<Value>()))>
    SOFTCUDA_CUB void InclusiveScan(Value value, Value& result, Operator join, Prefix& prefix)
    {
        Value before, total;
        scan(value, before, total, join);
        const Value first = of_block(total, prefix);
        result = join(softcuda_cub::own_number() ? join(first, before) : first, value);
    }
    template <class Operator, class Prefix, class = decltype(declared<Prefix>()(declared<Value>()))>
    SOFTCUDA_CUB void ExclusiveScan(Value value, Value& result, Operator join, Prefix& prefix)
    {
        Value before, total;
        scan(value, before, total, join);
        const Value first = of_block(total, prefix);
        result = softcuda_cub::own_number() ? join(first, before) : first;
    }
    template <class Prefix, class = decltype(declared<Prefix>()(declared<Value>()))>
    SOFTCUDA_CUB void InclusiveSum(Value value, Value& result, Prefix& prefix)
    {
        InclusiveScan(value, result, cub::Sum(), prefix);
    }
    template <class Prefix, class = decltype(declared<Prefix>()(declared<Value>()))>
    SOFTCUDA_CUB void ExclusiveSum(Value value, Value& result, Prefix& prefix)
    {
        ExclusiveScan(value, result, cub::Sum(), prefix);
    }

    // Several values a thread, which lie side by side.
    template <int count, class Operator>
    SOFTCUDA_CUB void InclusiveScan(Value (&items)[count], Value (&results)[count], Operator join, Value& total)
    {
        Value before;
        scan(softcuda_cub::together(items, join), before, total, join);
        results[0] = softcuda_cub::own_number() ? join(before, items[0]) : items[0];
        for (int i = 1; i < count; ++i)
            results[i] = join(results[i - 1], items[i]);
    }
    template <int count, class Operator> SOFTCUDA_CUB void InclusiveScan(Value (&items)[count], Value (&results)[count], Operator join)
    {
        Value total;
        InclusiveScan(items, results, join, total);
    }
    template <int count, class Operator>
    SOFTCUDA_CUB void ExclusiveScan(Value (&items)[count], Value (&results)[count], Value initial, Operator join, Value& total)
    {
        Value before;
        scan(softcuda_cub::together(items, join), before, total, join);
        before = softcuda_cub::own_number() ? join(initial, before) : initial;
        for (int i = 0; i < count; ++i) { // the results may be where the items are
            const Value next = join(before, items[i]);
            results[i] = before;
            before = next;
        }
    }
    template <int count, class Operator>
    SOFTCUDA_CUB void ExclusiveScan(Value (&items)[count], Value (&results)[count], Value initial, Operator join)
    {
        Value total;
        ExclusiveScan(items, results, initial, join, total);
    }
    template <int count, class Operator, class Prefix, class = decltype(declared<Prefix>()(declared<Value>()))>
    SOFTCUDA_CUB void InclusiveScan(Value (&items)[count], Value (&results)[count], Operator join, Prefix& prefix)
    {
        Value before;
        ExclusiveScan(softcuda_cub::together(items, join), before, join, prefix);
        for (int i = 0; i < count; ++i)
            results[i] = before = join(before, items[i]);
    }
    template <int count, class Operator, class Prefix, class = decltype(declared<Prefix>()(declared<Value>()))>
    SOFTCUDA_CUB void ExclusiveScan(Value (&items)[count], Value (&results)[count], Operator join, Prefix& prefix)
    {
        Value before;
        ExclusiveScan(softcuda_cub::together(items, join), before, join, prefix);
        for (int i = 0; i < count; ++i) { // the results may be where the items are
            const Value next = join(before, items[i]);
            results[i] = before;
            before = next;
        }
    }
    template <int count, class Prefix, class = decltype(declared<Prefix>()(declared<Value>()))>
    SOFTCUDA_CUB void ExclusiveSum(Value (&items)[count], Value (&results)[count], Prefix& prefix)
    {
        ExclusiveScan(items, results, cub::Sum(), prefix);
    }
    template <int count, class Prefix, class = decltype(declared<Prefix>()(declared<Value>()))>
    SOFTCUDA_CUB void InclusiveSum(Value (&items)[count], Value (&results)[count], Prefix& prefix)
    {
        InclusiveScan(items, results, cub::Sum(), prefix);
    }
    template <int count> SOFTCUDA_CUB void InclusiveSum(Value (&items)[count], Value (&results)[count])
    {
        InclusiveScan(items, results, cub::Sum());
    }
    template <int count> SOFTCUDA_CUB void InclusiveSum(Value (&items)[count], Value (&results)[count], Value& total)
    {
        InclusiveScan(items, results, cub::Sum(), total);
    }
    template <int count> SOFTCUDA_CUB void ExclusiveSum(Value (&items)[count], Value (&results)[count])
    {
        ExclusiveScan(items, results, Value(), cub::Sum());
    }
    template <int count> SOFTCUDA_CUB void ExclusiveSum(Value (&items)[count], Value (&results)[count], Value& total)
    {
        ExclusiveScan(items, results, Value(), cub::Sum(), total);
    }
};

} // namespace cub
