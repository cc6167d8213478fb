// cooperative_groups::inclusive_scan and exclusive_scan.
#pragma once

#include "reduce.h"

namespace cooperative_groups {

template <class Value, class Operator>
__forceinline__ Value inclusive_scan(const softcuda_lanes& group, Value value, Operator&& combine)
{
    const softcuda_groups::Values<Value> all(group.softcuda_members(), value);
    Value result = all.of[0];
    for (unsigned rank = 1; rank <= softcuda_groups::rank_in(group.softcuda_members()); ++rank)
        result = combine(result, all.of[rank]);
    return result;
}
template <class Value> __forceinline__ Value inclusive_scan(const softcuda_lanes& group, Value value)
{
    return inclusive_scan(group, value, plus<Value>());
}

// The first rank has a zero.
template <class Value, class Operator>
__forceinline__ Value exclusive_scan(const softcuda_lanes& group, Value value, Operator&& combine)
{
    const softcuda_groups::Values<Value> all(group.softcuda_members(), value);
    const unsigned own = softcuda_groups::rank_in(group.softcuda_members());
    if (own == 0)
        return Value {};
    Value result = all.of[0];
    for (unsigned rank = 1; rank < own; ++rank)
        result = combine(result, all.of[rank]);
    return result;
}
template <class Value> __forceinline__ Value exclusive_scan(const softcuda_lanes& group, Value value)
{
    return exclusive_scan(group, value, plus<Value>());
}

} // namespace cooperative_groups
