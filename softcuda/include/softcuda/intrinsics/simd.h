// Words of two 16-bit or four 8-bit integers, and minima and maxima of three. CUDA math API, "SIMD Intrinsics".
#pragma once

namespace softcuda {
template <class Part> constexpr int highest() { return Part(-1) < Part(0) ? (1 << (8 * sizeof(Part) - 1)) - 1 : (1 << 8 * sizeof(Part)) - 1; }
template <class Part> constexpr int lowest() { return Part(-1) < Part(0) ? -highest<Part>() - 1 : 0; }
template <class Part> int saturated(int x) { return x > highest<Part>() ? highest<Part>() : x < lowest<Part>() ? lowest<Part>() : x; }

// A word whose parts are the low bits of a function of the parts of others.
template <class Part, class Function, class... Words> unsigned by_parts(Function function, Words... words)
{
    constexpr unsigned bits = 8 * sizeof(Part);
    unsigned made = 0;
    for (unsigned at = 0; at < 32; at += bits)
        made |= (unsigned(function(int(Part(words >> at))...)) & ((1u << bits) - 1)) << at;
    return made;
}
template <class Part, class Function> unsigned sum_of_parts(Function function, unsigned a, unsigned b)
{
    unsigned sum = 0;
    for (unsigned at = 0; at < 32; at += 8 * sizeof(Part))
        sum += unsigned(function(int(Part(a >> at)), int(Part(b >> at))));
    return sum;
}
static inline int absolute(int x) { return x < 0 ? -x : x; }
// Half of a sum, where a half is rounded away from zero (PTX ISA, "vavrg2").
static inline int average(int sum) { return (sum + (sum >= 0)) >> 1; }
} // namespace softcuda

// name for halves, name for bytes, whether parts are signed (s) or unsigned (u), the function of the parts x and y
#define SOFTCUDA_PART_s2 short
#define SOFTCUDA_PART_s4 signed char
#define SOFTCUDA_PART_u2 unsigned short
#define SOFTCUDA_PART_u4 unsigned char
#define SOFTCUDA_ONE_OF(name, Part, result) \
    static inline unsigned name(unsigned a) { return softcuda::by_parts<Part>([](int x) { using P = Part; (void)P(); return int(result); }, a); }
#define SOFTCUDA_TWO_OF(name, Part, result) \
    static inline unsigned name(unsigned a, unsigned b) \
    { return softcuda::by_parts<Part>([](int x, int y) { using P = Part; (void)P(); return int(result); }, a, b); }
#define SOFTCUDA_SUM_OF(name, Part, result) \
    static inline unsigned name(unsigned a, unsigned b) { return softcuda::sum_of_parts<Part>([](int x, int y) { return int(result); }, a, b); }
#define SOFTCUDA_ONE(name, sign, result) \
    SOFTCUDA_ONE_OF(name##2, SOFTCUDA_PART_##sign##2, result) SOFTCUDA_ONE_OF(name##4, SOFTCUDA_PART_##sign##4, result)
#define SOFTCUDA_TWO(name, sign, result) \
    SOFTCUDA_TWO_OF(name##2, SOFTCUDA_PART_##sign##2, result) SOFTCUDA_TWO_OF(name##4, SOFTCUDA_PART_##sign##4, result)
#define SOFTCUDA_SUM(name, sign, result) \
    SOFTCUDA_SUM_OF(name##2, SOFTCUDA_PART_##sign##2, result) SOFTCUDA_SUM_OF(name##4, SOFTCUDA_PART_##sign##4, result)
// All bits of a part where it holds (vcmp), or its lowest one (vset).
#define SOFTCUDA_COMPARE(name, sign, result) SOFTCUDA_TWO(__vcmp##name, sign, (result) ? -1 : 0) SOFTCUDA_TWO(__vset##name, sign, result)

SOFTCUDA_ONE(__vabs, s, softcuda::absolute(x))
SOFTCUDA_ONE(__vabsss, s, softcuda::saturated<P>(softcuda::absolute(x)))
SOFTCUDA_ONE(__vneg, s, -x)
SOFTCUDA_ONE(__vnegss, s, softcuda::saturated<P>(-x))
SOFTCUDA_TWO(__vadd, u, x + y)
SOFTCUDA_TWO(__vaddss, s, softcuda::saturated<P>(x + y))
SOFTCUDA_TWO(__vaddus, u, softcuda::saturated<P>(x + y))
SOFTCUDA_TWO(__vsub, u, x - y)
SOFTCUDA_TWO(__vsubss, s, softcuda::saturated<P>(x - y))
SOFTCUDA_TWO(__vsubus, u, softcuda::saturated<P>(x - y))
SOFTCUDA_TWO(__vavgs, s, softcuda::average(x + y))
SOFTCUDA_TWO(__vavgu, u, softcuda::average(x + y))
SOFTCUDA_TWO(__vhaddu, u, (x + y) >> 1)
SOFTCUDA_TWO(__vabsdiffs, s, softcuda::absolute(x - y))
SOFTCUDA_TWO(__vabsdiffu, u, softcuda::absolute(x - y))
SOFTCUDA_TWO(__vmaxs, s, x > y ? x : y)
SOFTCUDA_TWO(__vmaxu, u, x > y ? x : y)
SOFTCUDA_TWO(__vmins, s, x < y ? x : y)
SOFTCUDA_TWO(__vminu, u, x < y ? x : y)
SOFTCUDA_SUM(__vsads, s, softcuda::absolute(x - y))
SOFTCUDA_SUM(__vsadu, u, softcuda::absolute(x - y))
SOFTCUDA_COMPARE(eq, u, x == y)
SOFTCUDA_COMPARE(ne, u, x != y)
SOFTCUDA_COMPARE(ges, s, x >= y)
SOFTCUDA_COMPARE(geu, u, x >= y)
SOFTCUDA_COMPARE(gts, s, x > y)
SOFTCUDA_COMPARE(gtu, u, x > y)
SOFTCUDA_COMPARE(les, s, x <= y)
SOFTCUDA_COMPARE(leu, u, x <= y)
SOFTCUDA_COMPARE(lts, s, x < y)
SOFTCUDA_COMPARE(ltu, u, x < y)
#undef SOFTCUDA_ONE
#undef SOFTCUDA_TWO
#undef SOFTCUDA_SUM
#undef SOFTCUDA_COMPARE

namespace softcuda {
template <class T> T least(T a, T b) { return b < a ? b : a; }
template <class T> T most(T a, T b) { return a < b ? b : a; }
// Of a word that is one number, or of each half of one that is two; arguments come as unsigned words.
template <class Part, class Function, class... Words> unsigned by_numbers(Function function, Words... words)
{
    if constexpr (sizeof(Part) == 4) {
        return unsigned(function(Part(words)...));
    } else {
        unsigned made = 0;
        for (unsigned at = 0; at < 32; at += 16)
            made |= unsigned((unsigned short)function(Part(words >> at)...)) << at;
        return made;
    }
}
} // namespace softcuda

// Numbers: what the name says of them, the type of a word, the type of a number. Sums wrap.
#define SOFTCUDA_EACH(of, Word, Part) \
    SOFTCUDA_THREE(__vimax3_##of, Word, Part, most(most(a, b), c)) \
    SOFTCUDA_THREE(__vimin3_##of, Word, Part, least(least(a, b), c)) \
    SOFTCUDA_THREE(__viaddmax_##of, Word, Part, most(Part(Wide(a) + Wide(b)), c)) \
    SOFTCUDA_THREE(__viaddmin_##of, Word, Part, least(Part(Wide(a) + Wide(b)), c))
#define SOFTCUDA_RELU(of, Word, Part) \
    SOFTCUDA_THREE(__vimax3_##of##_relu, Word, Part, most(most(most(a, b), c), Part(0))) \
    SOFTCUDA_THREE(__vimin3_##of##_relu, Word, Part, most(least(least(a, b), c), Part(0))) \
    SOFTCUDA_THREE(__viaddmax_##of##_relu, Word, Part, most(most(Part(Wide(a) + Wide(b)), c), Part(0))) \
    SOFTCUDA_THREE(__viaddmin_##of##_relu, Word, Part, most(least(Part(Wide(a) + Wide(b)), c), Part(0))) \
    static inline Word __vimax_##of##_relu(Word x, Word y) { return __vimax3_##of##_relu(x, y, y); } \
    static inline Word __vimin_##of##_relu(Word x, Word y) { return __vimin3_##of##_relu(x, y, y); }
#define SOFTCUDA_THREE(name, Word, Part, result) \
    static inline Word name(Word x, Word y, Word z) \
    { \
        using namespace softcuda; \
        using Wide = unsigned; \
        return Word(by_numbers<Part>([](Part a, Part b, Part c) { (void)Wide(); return Part(result); }, unsigned(x), unsigned(y), unsigned(z))); \
    }
// The larger or smaller of two, and whether it was the first: of equal ones it is.
#define SOFTCUDA_WHICH(name, Word, sign) \
    static inline Word name(Word x, Word y, bool* first) { *first = x sign y; return *first ? x : y; }
#define SOFTCUDA_WHICH2(name, Part, sign) \
    static inline unsigned name(unsigned x, unsigned y, bool* high, bool* low) \
    { \
        *high = Part(x >> 16) sign Part(y >> 16), *low = Part(x) sign Part(y); \
        return ((*high ? x : y) & 0xffff0000u) | ((*low ? x : y) & 0xffffu); \
    }
SOFTCUDA_EACH(s32, int, int)
SOFTCUDA_EACH(u32, unsigned, unsigned)
SOFTCUDA_EACH(s16x2, unsigned, short)
SOFTCUDA_EACH(u16x2, unsigned, uint16_t)
SOFTCUDA_RELU(s32, int, int)
SOFTCUDA_RELU(s16x2, unsigned, short)
SOFTCUDA_WHICH(__vibmax_s32, int, >=)
SOFTCUDA_WHICH(__vibmax_u32, unsigned, >=)
SOFTCUDA_WHICH(__vibmin_s32, int, <=)
SOFTCUDA_WHICH(__vibmin_u32, unsigned, <=)
SOFTCUDA_WHICH2(__vibmax_s16x2, short, >=)
SOFTCUDA_WHICH2(__vibmax_u16x2, uint16_t, >=)
SOFTCUDA_WHICH2(__vibmin_s16x2, short, <=)
SOFTCUDA_WHICH2(__vibmin_u16x2, uint16_t, <=)
#undef SOFTCUDA_EACH
#undef SOFTCUDA_RELU
#undef SOFTCUDA_THREE
#undef SOFTCUDA_WHICH
#undef SOFTCUDA_WHICH2
