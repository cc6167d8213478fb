// What formats of 16 and 8 bits have in common: from 64 bits to those with one rounding, and back.
#pragma once

#include <cstdint>

namespace softcuda {

enum class Rounding { nearest, to_zero, down, up };

// A format of 16 bits: binary16 has 10 bits of fraction and 5 of exponent, bfloat16 7 and 8; or of 8 bits: E5M2 and E4M3.
// `finite`: it has no infinity, in whose place NaN stands, and one NaN of each sign (E4M3).
template <int fraction, int width = 16, bool finite = false> struct Narrow {
    enum : int { exponent_bits = width - 1 - fraction, smallest = 2 - (1 << (exponent_bits - 1)) }; // of normal numbers
    enum : unsigned {
        sign_bit = 1u << (width - 1),
        nan = sign_bit - 1, // the hardware's one NaN
        infinity = finite ? unsigned(nan) : ((1u << exponent_bits) - 1) << fraction,
    };

    // Without a subnormal double, which is 0 where denormals are flushed.
    __attribute__((always_inline)) static double widen_here(uint16_t bits)
    {
        const unsigned size = bits & nan;
        const uint64_t sign = uint64_t(bits >> (width - 1)) << 63, fields = uint64_t(size) << (52 - fraction);
        if (finite ? size == unsigned(nan) : size >= unsigned(infinity))
            return from_bits<double>(sign | uint64_t(2047) << 52 | fields);
        if (size >> fraction)
            return from_bits<double>(sign | (fields + (uint64_t(1022 + smallest) << 52)));
        return from_bits<double>(sign | to_bits(size * from_bits<double>(uint64_t(1023 + smallest - fraction) << 52)));
    }
    static double widen(uint16_t bits) { return widen_here(bits); }

    static uint16_t narrow(double value, Rounding mode = Rounding::nearest)
    {
        const uint64_t bits = to_bits(value);
        const bool negative = bits >> 63;
        const int field = int(bits >> 52 & 2047);
        const unsigned sign = negative ? unsigned(sign_bit) : 0;
        if (field == 2047)
            return uint16_t(bits << 12 ? unsigned(nan) : sign | infinity);
        const int exponent = field ? field - 1023 : -1022;
        const uint64_t digits = (bits & ((uint64_t(1) << 52) - 1)) | uint64_t(field != 0) << 52;
        const int below = exponent < smallest ? smallest - exponent : 0;
        const int shift = below > 2 + fraction ? 54 : 52 - fraction + below;
        const uint64_t rest = digits & ((uint64_t(1) << shift) - 1), middle = uint64_t(1) << (shift - 1);
        unsigned made = unsigned(digits >> shift);
        const bool away = mode == Rounding::nearest ? rest > middle || (rest == middle && made & 1)
                                                    : rest && (mode == Rounding::down ? negative : mode == Rounding::up && !negative);
        made += away;
        if (!below)
            made += unsigned(exponent - smallest) << fraction;
        if (made >= infinity) {
            const bool stays = mode == Rounding::to_zero || (mode == Rounding::down && !negative) || (mode == Rounding::up && negative);
            made = infinity - stays;
        }
        return uint16_t(sign | made);
    }
};

// The sum of two numbers, whose last bit says where it is not exact: rounded once more, the result is as if it were.
static inline double sum_to_odd(double a, double b)
{
    const double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
    const uint64_t bits = to_bits(sum);
    if (!(sum - sum == 0) || error == 0 || bits & 1)
        return sum;
    return from_bits<double>((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

// An integer as a double, whose last bit says where it is not exact.
template <class Integer> double integer_to_odd(Integer value)
{
    const bool negative = value < 0;
    uint64_t size = negative ? 0 - uint64_t(value) : uint64_t(value);
    if (size >> 53)
        size = (size >> 11 | uint64_t((size & 2047) != 0)) << 11;
    return negative ? -double(size) : double(size);
}

// The integer of a number that has been rounded already, at most what Integer holds. NaN is 0, or of 64 bits the highest bit.
template <class Integer> Integer to_integer(double value)
{
    constexpr bool is_signed = Integer(-1) < Integer(0);
    constexpr Integer highest = is_signed ? Integer(~(uint64_t(1) << (8 * sizeof(Integer) - 1)) & (~uint64_t(0) >> (64 - 8 * sizeof(Integer)))) : Integer(~Integer(0));
    constexpr Integer lowest = is_signed ? Integer(-highest - 1) : Integer(0);
    if (value != value)
        return sizeof(Integer) == 8 ? Integer(uint64_t(1) << 63) : Integer(0);
    if (value >= double(highest))
        return highest;
    return value <= double(lowest) ? lowest : Integer(value);
}

// All bits of each half of a word where it holds, as comparisons of pairs have it.
static inline unsigned masks(bool low, bool high) { return (low ? 0xffffu : 0u) | (high ? 0xffff0000u : 0u); }

static inline double whole(double value, Rounding mode)
{
    return mode == Rounding::nearest ? rint(value) : mode == Rounding::to_zero ? trunc(value) : mode == Rounding::down ? floor(value) : ceil(value);
}

} // namespace softcuda
