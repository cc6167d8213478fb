// Mathematical functions that C has not. CUDA C++ Programming Guide, "Mathematical Functions": the bounds of their
// errors there hold here. Those of float32 are computed in 64 bits and rounded once.
#pragma once

namespace softcuda {

struct SineCosine {
    double sine, cosine;
};
// Of pi x. x is brought to a quarter of a turn or less, exactly; pi's digits beyond 64 bits are not left out.
static inline SineCosine sine_cosine_pi(double x)
{
    const double turns = fmod(x, 2.0), quarter = rint(2.0 * turns), rest = turns - 0.5 * quarter;
    const double angle = M_PI * rest, beyond = fma(M_PI, rest, -angle) + 0x1.1a62633145c07p-53 * rest;
    const double s0 = sin(angle), c0 = cos(angle), s = s0 + beyond * c0, c = c0 - beyond * s0;
    switch (int(quarter) & 3) {
    case 0: return {s, c};
    case 1: return {c, -s};
    case 2: return {-s, -c};
    default: return {-c, s};
    }
}
static inline double sine_pi(double x) { return x == rint(x) ? copysign(0.0, x) : sine_cosine_pi(x).sine; }
static inline double cosine_pi(double x) { return x - 0.5 == rint(x - 0.5) && fabs(x) < 0x1p52 ? 0.0 : sine_cosine_pi(x).cosine; }

// exp(x^2), where the square's rounding is made good.
static inline double exp_of_square(double x, double sign)
{
    const double square = x * x;
    return exp(sign * square) * (1.0 + sign * fma(x, x, -square));
}
// exp(x^2) erfc(x): its continued fraction from 2 on, which has positive terms only.
static inline double scaled_erfc(double x)
{
    if (x < 2.0)
        return x < -27.0 ? HUGE_VAL : exp_of_square(x, 1.0) * erfc(x);
    double below = x;
    for (int k = x < 4.0 ? 140 : 40; k > 0; --k)
        below = x + 0.5 * k / below;
    return 0.56418958354775628695 / below;
}
// Where erfc is y, for 0 < y <= 1, and erf is x = 1 - y: a first value within 0.002 (S. Winitzki, 2008), then Halley's
// method, of the two functions with the one that is not near 1.
static inline double inverse(double x, double y)
{
    const double of_squares = log(y) + log1p(x), a = 0.147, b = 2.0 / (M_PI * a) + 0.5 * of_squares;
    double z = x < 1e-4 ? x / M_2_SQRTPI : sqrt(sqrt(b * b - of_squares / a) - b);
    for (int i = 0; i < 4; ++i) {
        const double step = (x < 0.5 ? x - erf(z) : erfc(z) - y) * exp_of_square(z, 1.0) / M_2_SQRTPI;
        z += step / (1.0 - z * step);
    }
    return z;
}
static inline double inverse_erf(double x)
{
    if (!(fabs(x) < 1.0))
        return fabs(x) == 1.0 ? copysign(HUGE_VAL, x) : NAN;
    return x == 0.0 ? x : copysign(inverse(fabs(x), 1.0 - fabs(x)), x);
}
static inline double inverse_erfc(double y)
{
    if (!(y > 0.0 && y < 2.0))
        return y == 0.0 ? HUGE_VAL : y == 2.0 ? -HUGE_VAL : NAN;
    return y > 1.0 ? -inverse(y - 1.0, 2.0 - y) : y == 1.0 ? 0.0 : inverse(1.0 - y, y);
}
// The normal distribution; the rounding of x / sqrt(2) is made good.
static inline double normal(double x)
{
    const double t = -x * M_SQRT1_2, rest = fma(-x, M_SQRT1_2, -t) + x * 0x1.bdd3413b26456p-55;
    const double tail = erfc(t);
    return 0.5 * (tail > 0.0 && tail < 2.0 ? tail - rest * M_2_SQRTPI * exp_of_square(t, -1.0) : tail);
}
// One step of Newton's method from 1 / cbrt(x), whose two roundings may be more than one unit apart from it.
static inline double reciprocal_cube_root(double x)
{
    const double y = 1.0 / cbrt(x), square = y * y, product = x * square;
    if (!(fabs(y) > 0.0 && fabs(y) < HUGE_VAL))
        return y;
    const double rest = fma(-product, y, 1.0) - (fma(x, square, -product) + x * fma(y, y, -square)) * y;
    return y + y * rest * (1.0 / 3.0);
}
// Bessel functions of order 0 and 1: the power series, whose terms are positive, and from 20 on the asymptotic one.
static inline double bessel_i(int order, double x)
{
    const double size = fabs(x), squares = 4.0 * order;
    double term = 1.0, sum = 1.0;
    if (size < 20.0) {
        for (int k = 1; term > sum * 1e-18; ++k)
            sum += term *= 0.25 * x * x / (double(k) * (k + order));
        return order ? 0.5 * x * sum : sum;
    }
    for (int k = 1; k < 30 && fabs(term) > 1e-18; ++k)
        sum += term *= ((2 * k - 1.0) * (2 * k - 1.0) - squares) / (8.0 * k * size);
    const double half = exp(0.5 * size);
    const double value = size > 720.0 ? size == size ? HUGE_VAL : size : half * (sum / sqrt(2.0 * M_PI * size)) * half;
    return order && x < 0 ? -value : value;
}
// The root of a sum of squares of any size; what is larger than anything is infinite, also beside a NaN.
static inline double length(int count, const double* values)
{
    double largest = 0.0, sum = 0.0, low = 0.0;
    bool nan = false;
    for (int i = 0; i < count; ++i) {
        nan |= values[i] != values[i];
        largest = fmax(largest, fabs(values[i]));
    }
    if (largest == HUGE_VAL || largest == 0.0 || nan)
        return largest == HUGE_VAL || !nan ? largest : NAN;
    int exponent;
    frexp(largest, &exponent);
    for (int i = 0; i < count; ++i) { // the sum and what its roundings left out
        const double part = ldexp(values[i], -exponent), square = part * part, more = sum + square;
        low += fma(part, part, -square) + (square > sum ? (square - more) + sum : (sum - more) + square);
        sum = more;
    }
    return ldexp(sqrt(sum + low), exponent);
}
template <class... Numbers> double length_of(Numbers... numbers)
{
    const double values[] = {double(numbers)...};
    return length(sizeof...(numbers), values);
}
// 1 / length, where the length itself may be too large or too small.
template <class... Numbers> double reciprocal_length_of(Numbers... numbers)
{
    const double plain = length_of(numbers...);
    return plain < HUGE_VAL && plain > 0x1p-1021 ? 1.0 / plain : plain == HUGE_VAL ? 0.0 : 0x1p100 / length_of((0x1p100 * numbers)...);
}
static inline float narrow_length(int count, const float* values)
{
    double sum = 0.0;
    bool infinite = false;
    for (int i = 0; i < count; ++i) {
        sum += double(values[i]) * values[i];
        infinite |= fabsf(values[i]) == HUGE_VALF;
    }
    return infinite ? HUGE_VALF : float(sqrt(sum));
}

} // namespace softcuda

// The function of float64, and that of float32 with an f behind its name and without.
#define SOFTCUDA_ONE(name, result) \
    static inline double name(double x) { return result; } \
    static inline float name##f(float narrow) { const double x = narrow; return float(result); } \
    static inline float name(float narrow) { return name##f(narrow); }
#define SOFTCUDA_2(type) type a, type b
#define SOFTCUDA_3(type) type a, type b, type c
#define SOFTCUDA_4(type) type a, type b, type c, type d
SOFTCUDA_ONE(rcbrt, softcuda::reciprocal_cube_root(x))
SOFTCUDA_ONE(sinpi, softcuda::sine_pi(x))
SOFTCUDA_ONE(cospi, softcuda::cosine_pi(x))
SOFTCUDA_ONE(erfcx, x < 0.0 && x >= -27.0 ? 2.0 * softcuda::exp_of_square(x, 1.0) - softcuda::scaled_erfc(-x) : softcuda::scaled_erfc(x))
SOFTCUDA_ONE(erfcinv, softcuda::inverse_erfc(x))
SOFTCUDA_ONE(erfinv, softcuda::inverse_erf(x))
SOFTCUDA_ONE(normcdf, softcuda::normal(x))
SOFTCUDA_ONE(normcdfinv, -M_SQRT2 * softcuda::inverse_erfc(2.0 * x))
SOFTCUDA_ONE(cyl_bessel_i0, softcuda::bessel_i(0, x))
SOFTCUDA_ONE(cyl_bessel_i1, softcuda::bessel_i(1, x))
#define SOFTCUDA_LENGTH(count, name, reciprocal, arguments) \
    static inline double name(SOFTCUDA_##count(double)) { return softcuda::length_of arguments; } \
    static inline double reciprocal(SOFTCUDA_##count(double)) { return softcuda::reciprocal_length_of arguments; } \
    static inline float name##f(SOFTCUDA_##count(float)) { return float(softcuda::length_of arguments); } \
    static inline float reciprocal##f(SOFTCUDA_##count(float)) { return float(softcuda::reciprocal_length_of arguments); }
SOFTCUDA_LENGTH(2, softcuda_length2, rhypot, (a, b))
SOFTCUDA_LENGTH(3, norm3d, rnorm3d, (a, b, c))
SOFTCUDA_LENGTH(4, norm4d, rnorm4d, (a, b, c, d))
static inline float rhypot(float a, float b) { return rhypotf(a, b); }
static inline double norm(int count, const double* values) { return softcuda::length(count, values); }
static inline double rnorm(int count, const double* values) { return 1.0 / softcuda::length(count, values); }
static inline float normf(int count, const float* values) { return softcuda::narrow_length(count, values); }
static inline float rnormf(int count, const float* values) { return 1.0f / softcuda::narrow_length(count, values); }
static inline void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
static inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
static inline void sincospi(float x, float* s, float* c) { sincospif(x, s, c); }
#undef SOFTCUDA_ONE
#undef SOFTCUDA_LENGTH
#undef SOFTCUDA_2
#undef SOFTCUDA_3
#undef SOFTCUDA_4

// Functions of one type each that CUDA has beside min and max.
#define SOFTCUDA_EXTREMES(prefix, type) \
    static inline type prefix##min(type a, type b) { return b < a ? b : a; } \
    static inline type prefix##max(type a, type b) { return a < b ? b : a; }
SOFTCUDA_EXTREMES(u, unsigned)
SOFTCUDA_EXTREMES(ll, long long)
SOFTCUDA_EXTREMES(ull, unsigned long long)
#undef SOFTCUDA_EXTREMES
