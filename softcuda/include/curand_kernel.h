// Random numbers in kernels, with the bits that cuRAND's device functions have: XORWOW (G. Marsaglia, Xorshift RNGs,
// Journal of Statistical Software 8/14, 2003), Philox4x32-10 (J. Salmon et al., Parallel Random Numbers: As Easy as
// 1, 2, 3, SC11), MRG32k3a (P. L'Ecuyer, Operations Research 47/1, 1999) and Sobol's sequences.
//
// Skips ahead multiply by powers of the generator's matrix, which are computed when one is first asked for. What the
// numbers become, uniform or normal ones, is in softcuda/distributions.h.
#pragma once

#define SOFTCUDA_STATE_OF_NORMALS \
    int boxmuller_flag, boxmuller_flag_double; \
    float boxmuller_extra; \
    double boxmuller_extra_double;

struct curandStateXORWOW {
    unsigned d, v[5];
    SOFTCUDA_STATE_OF_NORMALS
};
struct curandStatePhilox4_32_10 {
    uint4 ctr, output;
    uint2 key;
    unsigned STATE;
    SOFTCUDA_STATE_OF_NORMALS
};
struct curandStateMRG32k3a {
    unsigned s1[3], s2[3];
    SOFTCUDA_STATE_OF_NORMALS
};
#undef SOFTCUDA_STATE_OF_NORMALS
struct curandStateSobol32 {
    unsigned i, x, c, direction_vectors[32];
};
struct curandStateScrambledSobol32 : curandStateSobol32 { };
struct curandStateSobol64 {
    unsigned long long i, x, c, direction_vectors[64];
};
struct curandStateScrambledSobol64 : curandStateSobol64 { };
typedef curandStateXORWOW curandStateXORWOW_t, curandState_t, curandState;
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;
typedef curandStateMRG32k3a curandStateMRG32k3a_t;
typedef curandStateSobol32 curandStateSobol32_t;
typedef curandStateScrambledSobol32 curandStateScrambledSobol32_t;
typedef curandStateSobol64 curandStateSobol64_t;
typedef curandStateScrambledSobol64 curandStateScrambledSobol64_t;
typedef unsigned curandDirectionVectors32_t[32];
typedef unsigned long long curandDirectionVectors64_t[64];

namespace softcuda_random {

constexpr unsigned weyl = 362437; // what XORWOW's counter grows by
constexpr int sequence_xorwow = 67, sequence_mrg = 127, subsequence_mrg = 76; // elements of each, as powers of two

SOFTCUDA_RAW void step_xorwow(unsigned (&v)[5])
{
    const unsigned t = v[0] ^ v[0] >> 2;
    const unsigned last = v[4] ^ v[4] << 4 ^ t ^ t << 1;
    for (int i = 0; i < 4; ++i)
        v[i] = v[i + 1];
    v[4] = last;
}

// A linear map of 160 bits: what becomes of each.
struct Map {
    unsigned of_bit[160][5];
};

SOFTCUDA_RAW void apply(const Map& map, unsigned (&v)[5])
{
    unsigned made[5] = {};
    for (int bit = 0; bit < 160; ++bit)
        if (v[bit / 32] >> bit % 32 & 1u)
            for (int i = 0; i < 5; ++i)
                made[i] ^= map.of_bit[bit][i];
    for (int i = 0; i < 5; ++i)
        v[i] = made[i];
}

// What the image keeps for all threads: no device variables, by these names.
#define SOFTCUDA_KEPT extern "C" SOFTCUDA_HIDDEN __attribute__((section(".bss.softcuda_random")))
SOFTCUDA_KEPT Map softcuda_maps_of_xorwow[sequence_xorwow + 64];
Map softcuda_maps_of_xorwow[sequence_xorwow + 64];
SOFTCUDA_KEPT int softcuda_known_of_xorwow;
int softcuda_known_of_xorwow;

// XORWOW's 2^power steps, computed up to there.
SOFTCUDA_RAW const Map& steps_xorwow(int power)
{
    Map(&maps)[sequence_xorwow + 64] = softcuda_maps_of_xorwow;
    int& known = softcuda_known_of_xorwow;
    for (; known <= power; ++known)
        for (int bit = 0; bit < 160; ++bit) {
            unsigned v[5] = {};
            v[bit / 32] = 1u << bit % 32;
            if (known == 0)
                step_xorwow(v);
            else
                apply(maps[known - 1], v), apply(maps[known - 1], v);
            __builtin_memcpy(maps[known].of_bit[bit], v, sizeof v);
        }
    return maps[power];
}

SOFTCUDA_RAW void skip_xorwow(unsigned long long count, int power, curandStateXORWOW* state)
{
    for (; count; count >>= 1, ++power)
        if (count & 1)
            apply(steps_xorwow(power), state->v);
}

// One of MRG32k3a's two recurrences: three numbers modulo m.
struct Recurrence {
    unsigned long long m, step[3][3];
};
constexpr Recurrence recurrences[2] = {
    {4294967087, {{0, 1, 0}, {0, 0, 1}, {4294967087 - 810728, 1403580, 0}}},
    {4294944443, {{0, 1, 0}, {0, 0, 1}, {4294944443 - 1370589, 0, 527612}}},
};

SOFTCUDA_RAW unsigned long long sum_of_products(const unsigned long long* a, const unsigned long long* b, int stride, unsigned long long m)
{
    unsigned long long sum = 0;
    for (int i = 0; i < 3; ++i)
        sum = (sum + a[i] * b[i * stride] % m) % m;
    return sum;
}

struct Matrix {
    unsigned long long at[3][3];
};

SOFTCUDA_KEPT Matrix softcuda_matrices_of_mrg[2][sequence_mrg + 64];
Matrix softcuda_matrices_of_mrg[2][sequence_mrg + 64];
SOFTCUDA_KEPT int softcuda_known_of_mrg[2];
int softcuda_known_of_mrg[2];
#undef SOFTCUDA_KEPT

// 2^power steps of a recurrence, computed up to there.
SOFTCUDA_RAW const Matrix& steps_mrg(int which, int power)
{
    Matrix(&matrices)[2][sequence_mrg + 64] = softcuda_matrices_of_mrg;
    int(&known)[2] = softcuda_known_of_mrg;
    const Recurrence& of = recurrences[which];
    for (int& next = known[which]; next <= power; ++next)
        for (int row = 0; row < 3; ++row)
            for (int column = 0; column < 3; ++column) {
                const Matrix& half = matrices[which][next - (next > 0)];
                matrices[which][next].at[row][column]
                    = next ? sum_of_products(half.at[row], &half.at[0][column], 3, of.m) : of.step[row][column];
            }
    return matrices[which][power];
}

SOFTCUDA_RAW void skip_mrg(unsigned long long count, int power, curandStateMRG32k3a* state)
{
    for (; count; count >>= 1, ++power)
        for (int which = 0; which < 2 && count & 1; ++which) {
            unsigned* s = which ? state->s2 : state->s1;
            const unsigned long long before[3] = {s[0], s[1], s[2]};
            for (int row = 0; row < 3; ++row)
                s[row] = unsigned(sum_of_products(steps_mrg(which, power).at[row], before, 1, recurrences[which].m));
        }
}

// From 1 to the first modulus.
static inline unsigned next_mrg(curandStateMRG32k3a* state)
{
    unsigned long long made[2];
    for (int which = 0; which < 2; ++which) {
        unsigned* s = which ? state->s2 : state->s1;
        const unsigned long long before[3] = {s[0], s[1], s[2]};
        made[which] = sum_of_products(recurrences[which].step[2], before, 1, recurrences[which].m);
        s[0] = s[1], s[1] = s[2], s[2] = unsigned(made[which]);
    }
    return unsigned(made[0] - made[1] + (made[0] <= made[1] ? recurrences[0].m : 0));
}

// Ten rounds, of which each multiplies two of the counter's words and mixes in the key.
static inline uint4 philox(uint4 c, uint2 key)
{
    for (int round = 0; round < 10; ++round) {
        const unsigned long long first = 0xD2511F53ull * c.x, second = 0xCD9E8D57ull * c.z;
        c = make_uint4(unsigned(second >> 32) ^ c.y ^ key.x, unsigned(second), unsigned(first >> 32) ^ c.w ^ key.y, unsigned(first));
        key.x += 0x9E3779B9, key.y += 0xBB67AE85;
    }
    return c;
}

// Adds to the counter of 128 bits, from its word 0 or 2 on.
static inline void add_to(uint4& counter, unsigned long long count, bool to_upper_half)
{
    const unsigned __int128 words[2] = {counter.x | (unsigned long long)counter.y << 32, counter.z | (unsigned long long)counter.w << 32};
    const unsigned __int128 sum = (words[0] | words[1] << 64) + ((unsigned __int128)count << (to_upper_half ? 64 : 0));
    counter = make_uint4(unsigned(sum), unsigned(sum >> 32), unsigned(sum >> 64), unsigned(sum >> 96));
}

template <class State> void no_normals(State* state)
{
    state->boxmuller_flag = state->boxmuller_flag_double = 0;
    state->boxmuller_extra = 0, state->boxmuller_extra_double = 0;
}

template <class State, class Word> void skip_sobol(Word count, State* state)
{
    state->i += count;
    state->x = state->c;
    Word gray = state->i ^ state->i >> 1;
    for (int bit = 0; gray; ++bit, gray >>= 1)
        if (gray & 1)
            state->x ^= state->direction_vectors[bit];
}

template <class State, class Word> void init_sobol(const Word* vectors, Word scramble, Word offset, State* state)
{
    for (unsigned i = 0; i < 8 * sizeof(Word); ++i)
        state->direction_vectors[i] = vectors[i];
    state->i = 0, state->c = scramble;
    skip_sobol(offset, state);
}

template <class State> auto next_sobol(State* state)
{
    const auto made = state->x;
    const auto zeros = (unsigned long long)~state->i;
    state->x ^= state->direction_vectors[zeros ? __builtin_ctzll(zeros) : 0];
    ++state->i;
    return made;
}

} // namespace softcuda_random

// XORWOW: subsequences of 2^67 elements.
static inline void skipahead(unsigned long long count, curandStateXORWOW* state)
{
    softcuda_random::skip_xorwow(count, 0, state);
    state->d += softcuda_random::weyl * unsigned(count);
}
static inline void skipahead_sequence(unsigned long long count, curandStateXORWOW* state)
{
    softcuda_random::skip_xorwow(count, softcuda_random::sequence_xorwow, state);
}
static inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset, curandStateXORWOW* state)
{
    const unsigned low = 1099087573u * (unsigned(seed) ^ 0xaad26b49u), high = 2591861531u * (unsigned(seed >> 32) ^ 0xf7dcefddu);
    const unsigned words[] = {123456789u + low, 362436069u ^ low, 521288629u + high, 88675123u ^ high, 5783321u + low};
    __builtin_memcpy(state->v, words, sizeof words);
    state->d = 6615241u + high + low;
    skipahead_sequence(subsequence, state);
    skipahead(offset, state);
    softcuda_random::no_normals(state);
}
static inline unsigned curand(curandStateXORWOW* state)
{
    softcuda_random::step_xorwow(state->v);
    state->d += softcuda_random::weyl;
    return state->v[4] + state->d;
}

// Philox: subsequences of 2^66 elements.
static inline void skipahead(unsigned long long count, curandStatePhilox4_32_10* state)
{
    const unsigned place = state->STATE + unsigned(count & 3);
    state->STATE = place & 3;
    softcuda_random::add_to(state->ctr, count / 4 + place / 4, false);
    state->output = softcuda_random::philox(state->ctr, state->key);
}
static inline void skipahead_sequence(unsigned long long count, curandStatePhilox4_32_10* state)
{
    softcuda_random::add_to(state->ctr, count, true);
    state->output = softcuda_random::philox(state->ctr, state->key);
}
static inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset, curandStatePhilox4_32_10* state)
{
    state->ctr = make_uint4(0, 0, 0, 0);
    state->key = make_uint2(unsigned(seed), unsigned(seed >> 32));
    state->STATE = 0;
    softcuda_random::no_normals(state);
    skipahead_sequence(subsequence, state);
    skipahead(offset, state);
}
static inline unsigned curand(curandStatePhilox4_32_10* state)
{
    const unsigned words[4] = {state->output.x, state->output.y, state->output.z, state->output.w};
    const unsigned made = words[state->STATE & 3];
    if (++state->STATE == 4) {
        state->STATE = 0;
        softcuda_random::add_to(state->ctr, 1, false);
        state->output = softcuda_random::philox(state->ctr, state->key);
    }
    return made;
}
static inline uint4 curand4(curandStatePhilox4_32_10* state)
{
    const unsigned x = curand(state), y = curand(state), z = curand(state);
    return make_uint4(x, y, z, curand(state));
}

// MRG32k3a: sequences of 2^127 elements, subsequences of 2^76.
static inline void skipahead(unsigned long long count, curandStateMRG32k3a* state) { softcuda_random::skip_mrg(count, 0, state); }
static inline void skipahead_subsequence(unsigned long long count, curandStateMRG32k3a* state)
{
    softcuda_random::skip_mrg(count, softcuda_random::subsequence_mrg, state);
}
static inline void skipahead_sequence(unsigned long long count, curandStateMRG32k3a* state)
{
    softcuda_random::skip_mrg(count, softcuda_random::sequence_mrg, state);
}
static inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset, curandStateMRG32k3a* state)
{
    const unsigned long long low = unsigned(seed) ^ 0x55555555u, high = unsigned(seed >> 32) ^ 0xAAAAAAAAu;
    for (unsigned i = 0; i < 3; ++i) {
        state->s1[i] = seed ? unsigned((i % 2 ? high : low) * 12345 % softcuda_random::recurrences[0].m) : 12345;
        state->s2[i] = seed ? unsigned((i % 2 ? low : high) * 12345 % softcuda_random::recurrences[1].m) : 12345;
    }
    skipahead_subsequence(subsequence, state);
    skipahead(offset, state);
    softcuda_random::no_normals(state);
}
// Stretched to all numbers of 32 bits.
static inline unsigned curand(curandStateMRG32k3a* state) { return unsigned(double(softcuda_random::next_mrg(state)) * 1.000000048662); }

#define SOFTCUDA_SOBOL(bits, word) \
    static inline void skipahead(word count, curandStateSobol##bits* state) { softcuda_random::skip_sobol(count, state); } \
    static inline void curand_init(const word* vectors, word offset, curandStateSobol##bits* state) \
    { \
        softcuda_random::init_sobol<curandStateSobol##bits, word>(vectors, 0, offset, state); \
    } \
    static inline void curand_init(const word* vectors, word scramble, word offset, curandStateScrambledSobol##bits* state) \
    { \
        softcuda_random::init_sobol<curandStateScrambledSobol##bits, word>(vectors, scramble, offset, state); \
    } \
    static inline word curand(curandStateSobol##bits* state) { return softcuda_random::next_sobol(state); }
SOFTCUDA_SOBOL(32, unsigned)
SOFTCUDA_SOBOL(64, unsigned long long)
#undef SOFTCUDA_SOBOL

#include "softcuda/distributions.h"
