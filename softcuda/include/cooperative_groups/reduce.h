// cooperative_groups::reduce, and the operators that it and the scans know.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

namespace softcuda_groups {

// Sums of signed integers wrap, as those of the hardware do.
template <class Value> __forceinline__ Value sum(Value first, Value second) { return first + second; }
#define SOFTCUDA_SUM(type) \
    SOFTCUDA_IN type sum(type first, type second) { return __builtin_add_overflow(first, second, &first), first; }
SOFTCUDA_SUM(int) SOFTCUDA_SUM(long) SOFTCUDA_SUM(long long)
#undef SOFTCUDA_SUM

} // namespace softcuda_groups

#define SOFTCUDA_OPERATOR(name, result) \
    template <class Value = void> struct name { \
        SOFTCUDA_M Value operator()(Value first, Value second) const { return result; } \
    }; \
    template <> struct name<void> { \
        template <class Value> SOFTCUDA_M Value operator()(Value first, Value second) const { return result; } \
    };
SOFTCUDA_OPERATOR(plus, softcuda_groups::sum(first, second))
SOFTCUDA_OPERATOR(less, second < first ? second : first)
SOFTCUDA_OPERATOR(greater, first < second ? second : first)
SOFTCUDA_OPERATOR(bit_and, first & second)
SOFTCUDA_OPERATOR(bit_or, first | second)
SOFTCUDA_OPERATOR(bit_xor, first ^ second)
#undef SOFTCUDA_OPERATOR

namespace softcuda_groups {

// What the lanes of a mask have, by rank; all of them meet for it.
template <class Value> struct Values {
    Value of[32];
    unsigned count = 0;

    SOFTCUDA_M Values(unsigned mask, const Value& own)
    {
        constexpr unsigned words = (sizeof(Value) + 7) / 8;
        unsigned long given[words] = {}, got[words][32];
        __builtin_memcpy(given, &own, sizeof(Value));
        for (unsigned word = 0; word < words; ++word) {
            const softcuda::Lanes lanes = softcuda_gather(mask, given[word]);
            __builtin_memcpy(got[word], lanes.values, sizeof lanes.values);
        }
        for (; mask; mask &= mask - 1, ++count) {
            unsigned long mine[words];
            for (unsigned word = 0; word < words; ++word)
                mine[word] = got[word][__builtin_ctz(mask)];
            __builtin_memcpy(&of[count], mine, sizeof(Value));
        }
    }
};

} // namespace softcuda_groups

// All lanes have the result. Pairs of ranks are combined that lie 16, 8, 4, 2 and 1 apart, as shuffles would do it.
template <class Value, class Operator>
__forceinline__ Value reduce(const softcuda_lanes& group, Value value, Operator&& combine)
{
    softcuda_groups::Values<Value> all(group.softcuda_members(), value);
    for (unsigned apart = 16; apart; apart /= 2)
        for (unsigned rank = 0; rank < apart && rank + apart < all.count; ++rank)
            all.of[rank] = combine(all.of[rank], all.of[rank + apart]);
    return all.of[0];
}

} // namespace cooperative_groups
