// Reductions of a logical warp's lanes, whose first lane has the result.
#pragma once

#include "../thread/thread_operators.cuh"

namespace cub {

template <class Value, int lanes = 32> class WarpReduce {
    static_assert(lanes > 0 && lanes <= 32, "softcuda supports cub::WarpReduce of at most 32 lanes");
    static constexpr unsigned width = lanes <= 1 ? 1 : lanes <= 2 ? 2 : lanes <= 4 ? 4 : lanes <= 8 ? 8 : lanes <= 16 ? 16 : 32;

public:
    struct TempStorage { };
    SOFTCUDA_CUB explicit WarpReduce(TempStorage&) { }

    template <class Operator> SOFTCUDA_CUB Value Reduce(Value value, Operator join, int valid = lanes)
    {
        const unsigned lane = softcuda_cub::own_number() % 32, rank = lane % width;
        const unsigned mask = lanes == 32 ? 0xffffffffu : ((1u << lanes) - 1) << (lane - rank);
        for (unsigned apart = 1; apart < unsigned(lanes); apart *= 2) {
            const bool inside = rank + apart < unsigned(valid);
            const Value other = softcuda_cub::from_lane(mask, value, inside ? rank + apart : rank, width);
            if (inside)
                value = join(value, other);
        }
        return value;
    }
    SOFTCUDA_CUB Value Sum(Value value, int valid = lanes) { return Reduce(value, cub::Sum(), valid); }
    SOFTCUDA_CUB Value Max(Value value, int valid = lanes) { return Reduce(value, cub::Max(), valid); }
    SOFTCUDA_CUB Value Min(Value value, int valid = lanes) { return Reduce(value, cub::Min(), valid); }
};

} // namespace cub
