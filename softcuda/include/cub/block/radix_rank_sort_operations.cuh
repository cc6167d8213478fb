// Digits of keys, which are bits of unsigned integers.
#pragma once

#include "../thread/thread_operators.cuh"

namespace cub {

template <class Key> struct ShiftDigitExtractor {
    unsigned bit_start, num_bits;
    SOFTCUDA_CUB explicit ShiftDigitExtractor(unsigned begin = 0, unsigned count = 0) : bit_start(begin), num_bits(count) { }
    SOFTCUDA_CUB unsigned Digit(Key key) const
    {
        static_assert(Key(-1) > Key(1), "digits of keys are bits of unsigned integers");
        return unsigned(key >> bit_start) & ((1u << num_bits) - 1);
    }
};
template <class Key> struct BFEDigitExtractor : ShiftDigitExtractor<Key> {
    using ShiftDigitExtractor<Key>::ShiftDigitExtractor;
};

} // namespace cub
