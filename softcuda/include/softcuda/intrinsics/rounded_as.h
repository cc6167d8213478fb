// An operation of the host's, rounded as one says: correctly, and once.
//
// To nearest is how the host rounds. For the others its rounding mode is changed for the one operation (fesetround),
// which g++ does not know of: so operands and result are volatile, and cannot be computed before or after.
// fma and sqrt of glibc are right in all modes.
#pragma once

#include <fenv.h>

#include "../narrow_floats.h"

namespace softcuda {
constexpr int mode_of(Rounding rounding)
{
    return rounding == Rounding::to_zero ? FE_TOWARDZERO : rounding == Rounding::down ? FE_DOWNWARD : FE_UPWARD;
}
template <Rounding rounding, class To, class Operation, class... From> SOFTCUDA_RAW To rounded_as(Operation operation, From... from)
{
    if (rounding == Rounding::nearest)
        return To(operation(from...));
    fesetround(mode_of(rounding));
    volatile To result = To(operation(static_cast<const volatile From&>(from)...));
    fesetround(FE_TONEAREST);
    return result;
}
// PTX ISA, "cvt": a number out of range becomes the nearest that there is; a NaN 0, but the highest bit alone where
// either side has 64 bits.
template <class To, class From> To integer_of(From value, Rounding rounding)
{
    if (value != value)
        return sizeof(From) == 8 || sizeof(To) == 8 ? To(uint64_t(1) << (8 * sizeof(To) - 1)) : To(0);
    return to_integer<To>(whole(double(value), rounding));
}
} // namespace softcuda
