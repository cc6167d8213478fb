// Scans of a logical warp's lanes.
#pragma once

#include "../thread/thread_operators.cuh"

namespace cub {

template <class Value, int lanes = 32> class WarpScan {
    static_assert(lanes == 1 || lanes == 2 || lanes == 4 || lanes == 8 || lanes == 16 || lanes == 32,
        "softcuda supports cub::WarpScan of a power of two of lanes, at most 32");
    static SOFTCUDA_CUB unsigned rank() { return softcuda_cub::own_number() % lanes; }
    static SOFTCUDA_CUB unsigned mask()
    {
        return lanes == 32 ? 0xffffffffu : ((1u << lanes % 32) - 1) << (softcuda_cub::own_number() % 32 / lanes * lanes);
    }
    static SOFTCUDA_CUB Value from(const Value& value, unsigned other) { return softcuda_cub::from_lane(mask(), value, other, lanes); }

public:
    struct TempStorage { };
    SOFTCUDA_CUB explicit WarpScan(TempStorage&) { }

    template <class Operator> SOFTCUDA_CUB void InclusiveScan(Value value, Value& result, Operator join)
    {
        for (unsigned apart = 1; apart < unsigned(lanes); apart *= 2) {
            const bool inside = rank() >= apart;
            const Value other = from(value, inside ? rank() - apart : rank());
            if (inside)
                value = join(other, value);
        }
        result = value;
    }
    template <class Operator> SOFTCUDA_CUB void InclusiveScan(Value value, Value& result, Operator join, Value& total)
    {
        InclusiveScan(value, result, join);
        total = from(result, lanes - 1);
    }
    // The first lane's result is the initial value, or where there is none not defined.
    template <class Operator> SOFTCUDA_CUB void ExclusiveScan(Value value, Value& result, Value initial, Operator join)
    {
        Value whole;
        Scan(value, whole, result, initial, join);
    }
    template <class Operator> SOFTCUDA_CUB void ExclusiveScan(Value value, Value& result, Value initial, Operator join, Value& total)
    {
        Value whole;
        Scan(value, whole, result, initial, join);
        InclusiveScan(value, whole, join, total);
    }
    template <class Operator> SOFTCUDA_CUB void ExclusiveScan(Value value, Value& result, Operator join)
    {
        Value whole;
        Scan(value, whole, result, join);
    }
    template <class Operator> SOFTCUDA_CUB void Scan(Value value, Value& inclusive, Value& exclusive, Operator join)
    {
        InclusiveScan(value, inclusive, join);
        exclusive = from(inclusive, rank() ? rank() - 1 : 0);
    }
    template <class Operator> SOFTCUDA_CUB void Scan(Value value, Value& inclusive, Value& exclusive, Value initial, Operator join)
    {
        Value whole;
        InclusiveScan(value, whole, join);
        const Value before = from(whole, rank() ? rank() - 1 : 0);
        exclusive = rank() ? join(initial, before) : initial;
        inclusive = join(initial, whole);
    }
    SOFTCUDA_CUB void InclusiveSum(Value value, Value& result) { InclusiveScan(value, result, cub::Sum()); }
    SOFTCUDA_CUB void InclusiveSum(Value value, Value& result, Value& total) { InclusiveScan(value, result, cub::Sum(), total); }
    SOFTCUDA_CUB void ExclusiveSum(Value value, Value& result) { ExclusiveScan(value, result, Value(0), cub::Sum()); }
    SOFTCUDA_CUB void ExclusiveSum(Value value, Value& result, Value& total) { ExclusiveScan(value, result, Value(0), cub::Sum(), total); }
    SOFTCUDA_CUB Value Broadcast(Value value, unsigned lane) { return from(value, lane); }
};

} // namespace cub
