// Uniform, normal, log-normal and Poisson numbers of curand_kernel.h's generators.
//
// Uniform ones have cuRAND's bits. Normal ones are made of the same ones by the same formula (G. Box and M. Muller, 1958),
// but with the C library's logarithm, sine and cosine: the last bits are not a GPU's. So it is with Poisson numbers, and
// from a mean of 64 to 4000 they are others than a GPU's, of the same distribution.
#pragma once

namespace softcuda_random {

constexpr double mrg_unit = 2.3283065498378288e-10; // 1 / 4294967088
enum { of_normal = 1, of_log_normal = 2 };           // of what the number is that is kept for the next call

static inline float unit(unsigned x) { return float(x) * 0x1p-32f + 0x1p-33f; }
static inline double unit_double(unsigned x) { return x * 0x1p-32 + 0x1p-32; }
static inline double unit_double(unsigned x, unsigned y) { return double(x ^ (unsigned long long)y << 21) * 0x1p-53 + 0x1p-54; }

// Two normal numbers of two in (0, 1]: `turn` is the second's part of a circle.
static inline float2 normals(float x, float turn)
{
    const float radius = sqrtf(-2.0f * logf(x));
    return make_float2(radius * sinf(turn), radius * cosf(turn));
}
static inline double2 normals_double(double x, double half_turns)
{
    const double radius = sqrt(-2.0 * log(x)), angle = half_turns * 3.14159265358979323846;
    return make_double2(radius * sin(angle), radius * cos(angle));
}

constexpr float two_pi = 6.2831855f;
template <class State> float2 two_normals(State* state)
{
    const unsigned x = curand(state), y = curand(state);
    return normals(unit(x), float(y) * (two_pi * 0x1p-32f) + two_pi * 0x1p-33f);
}
static inline float2 two_normals(curandStateMRG32k3a* state)
{
    const float x = float(next_mrg(state) * mrg_unit);
    return normals(x, float(next_mrg(state) * mrg_unit) * two_pi);
}
template <class State> double2 two_normals_double(State* state)
{
    const unsigned a = curand(state), b = curand(state), c = curand(state), d = curand(state);
    return normals_double(unit_double(a, b), double(c ^ (unsigned long long)d << 21) * 0x1p-52 + 0x1p-53);
}
static inline double2 two_normals_double(curandStateMRG32k3a* state)
{
    const double x = next_mrg(state) * mrg_unit;
    return normals_double(x, next_mrg(state) * mrg_unit * 2.0);
}

// One of a pair, of which the other waits for the next call of the same kind.
template <class State, class Change> float one_of_two(State* state, int kind, Change change)
{
    if (state->boxmuller_flag == kind) {
        state->boxmuller_flag = 0;
        return state->boxmuller_extra;
    }
    const float2 two = two_normals(state);
    state->boxmuller_extra = change(two.y);
    state->boxmuller_flag = kind;
    return change(two.x);
}
template <class State, class Change> double one_of_two_doubles(State* state, int kind, Change change)
{
    if (state->boxmuller_flag_double == kind) {
        state->boxmuller_flag_double = 0;
        return state->boxmuller_extra_double;
    }
    const double2 two = two_normals_double(state);
    state->boxmuller_extra_double = change(two.y);
    state->boxmuller_flag_double = kind;
    return change(two.x);
}

} // namespace softcuda_random

// Uniform ones, in (0, 1].
static inline float curand_uniform(curandStateMRG32k3a* state) { return float(softcuda_random::next_mrg(state) * softcuda_random::mrg_unit); }
static inline double curand_uniform_double(curandStateMRG32k3a* state) { return softcuda_random::next_mrg(state) * softcuda_random::mrg_unit; }
static inline float curand_uniform(curandStateXORWOW* state) { return softcuda_random::unit(curand(state)); }
static inline double curand_uniform_double(curandStateXORWOW* state)
{
    const unsigned x = curand(state);
    return softcuda_random::unit_double(x, curand(state));
}
static inline float curand_uniform(curandStatePhilox4_32_10* state) { return softcuda_random::unit(curand(state)); }
static inline double curand_uniform_double(curandStatePhilox4_32_10* state) { return softcuda_random::unit_double(curand(state)); }
static inline float4 curand_uniform4(curandStatePhilox4_32_10* state)
{
    const uint4 x = curand4(state);
    return make_float4(softcuda_random::unit(x.x), softcuda_random::unit(x.y), softcuda_random::unit(x.z), softcuda_random::unit(x.w));
}
static inline double2 curand_uniform2_double(curandStatePhilox4_32_10* state)
{
    const uint4 x = curand4(state);
    return make_double2(softcuda_random::unit_double(x.x, x.y), softcuda_random::unit_double(x.z, x.w));
}
static inline float curand_uniform(curandStateSobol32* state) { return softcuda_random::unit(curand(state)); }
static inline double curand_uniform_double(curandStateSobol32* state) { return softcuda_random::unit_double(curand(state)); }
static inline float curand_uniform(curandStateSobol64* state) { return softcuda_random::unit(unsigned(curand(state) >> 32)); }
static inline double curand_uniform_double(curandStateSobol64* state) { return double(curand(state) >> 11) * 0x1p-53 + 0x1p-54; }

// Normal ones, and their exponentials.
template <class State> float curand_normal(State* state)
{
    return softcuda_random::one_of_two(state, softcuda_random::of_normal, [](float x) { return x; });
}
template <class State> float2 curand_normal2(State* state) { return softcuda_random::two_normals(state); }
template <class State> double curand_normal_double(State* state)
{
    return softcuda_random::one_of_two_doubles(state, softcuda_random::of_normal, [](double x) { return x; });
}
template <class State> double2 curand_normal2_double(State* state) { return softcuda_random::two_normals_double(state); }
static inline float4 curand_normal4(curandStatePhilox4_32_10* state)
{
    const float2 a = curand_normal2(state), b = curand_normal2(state);
    return make_float4(a.x, a.y, b.x, b.y);
}
template <class State> float curand_log_normal(State* state, float mean, float deviation)
{
    return softcuda_random::one_of_two(state, softcuda_random::of_log_normal, [=](float x) { return expf(mean + deviation * x); });
}
template <class State> float2 curand_log_normal2(State* state, float mean, float deviation)
{
    const float2 x = curand_normal2(state);
    return make_float2(expf(mean + deviation * x.x), expf(mean + deviation * x.y));
}
static inline float4 curand_log_normal4(curandStatePhilox4_32_10* state, float mean, float deviation)
{
    const float2 a = curand_log_normal2(state, mean, deviation), b = curand_log_normal2(state, mean, deviation);
    return make_float4(a.x, a.y, b.x, b.y);
}
template <class State> double curand_log_normal_double(State* state, double mean, double deviation)
{
    return softcuda_random::one_of_two_doubles(state, softcuda_random::of_log_normal, [=](double x) { return exp(mean + deviation * x); });
}
template <class State> double2 curand_log_normal2_double(State* state, double mean, double deviation)
{
    const double2 x = curand_normal2_double(state);
    return make_double2(exp(mean + deviation * x.x), exp(mean + deviation * x.y));
}

// How many uniform numbers multiply to less than exp(-mean) (D. Knuth, The Art of Computer Programming, 3.4.1). From a
// mean of 64 on their logarithms are added up, and from 4000 on a normal number is near enough.
template <class State> unsigned curand_poisson(State* state, double mean)
{
    if (mean > 4000)
        return unsigned(sqrt(mean) * curand_normal_double(state) + mean + 0.5);
    unsigned count = 0;
    if (mean < 64) {
        for (float product = expf(float(mean)) * curand_uniform(state); product > 1.0f; product *= curand_uniform(state))
            ++count;
    } else {
        for (double sum = mean + log(double(curand_uniform(state))); sum > 0; sum += log(double(curand_uniform(state))))
            ++count;
    }
    return count;
}
static inline uint4 curand_poisson4(curandStatePhilox4_32_10* state, double mean)
{
    const unsigned x = curand_poisson(state, mean), y = curand_poisson(state, mean), z = curand_poisson(state, mean);
    return make_uint4(x, y, z, curand_poisson(state, mean));
}
