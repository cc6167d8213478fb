// What a texture gives at a coordinate: "Texture Fetching" of CUDA's programming guide, with what it leaves open as an
// H100 has it (measured: a sweep of each mode, format and dimension).
//
// - A coordinate that is normalised counts to 21 bits of fraction, the rest cut off, and is then multiplied by the extent;
//   to 22 bits where that is more than 8,192 (measured: 21 up to an extent of 5,000, 22 at 16,384 and 30,000).
// - For linear filtering a coordinate is rounded to 8 bits of fraction, halves upwards, then less a half: so a weight is
//   0 to 255 of 256. A coordinate that is clamped has weights 0 and 1.
// - In two dimensions the weight of the last corner is the product of its two, rounded to 8 bits, halves upwards; the
//   others follow, so that all are 256. A line is a plane whose second coordinate is 0, in its second address mode too.
//   In three dimensions the weights of x and z are made so, then divided by that of y; in 0.5 % of fetches, where a
//   product is halfway, a GPU's are by 1 of 256 others.
// - Floats: the sum is exact and rounded once, halves away from zero, to float, and of a texture of halves to half.
//   A GPU differs by a unit in the last place in up to 0.7 % of fetches, those whose terms cancel.
// - Normalised integers: the sum is rounded to a whole number of 65,535ths, halves upwards; of signed ones to 32,767ths.
//   Of signed bytes a GPU differs by one such in 5 % of fetches.
// - A channel that is not there is 0. Of layers that are not there the last is meant.
#include "arrays.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace softcuda {
namespace {

struct Values {
    double of[4]; // raw integers, or floats
};
struct Fetch { // one call
    const Object& texture;
    uintptr_t pc;
};

// How the components of a texture are read.
enum class Reading { integers, floats, halves, unsigned_parts, signed_parts, signed_bytes };
Reading reading_of(const Object& t)
{
    if (is_float(t.format))
        return t.format == f16 ? Reading::halves : Reading::floats;
    if (t.sampling.flags & as_integer || component_bytes(t.format) == 4)
        return Reading::integers;
    return t.format == s8 ? Reading::signed_bytes : t.format == s16 ? Reading::signed_parts : Reading::unsigned_parts;
}

float from_half(unsigned bits)
{
    const int exponent = int(bits >> 10 & 31), rest = int(bits & 1023);
    const float size = exponent == 31 ? (rest ? NAN : INFINITY) : exponent ? ldexpf(float(rest + 1024), exponent - 25) : ldexpf(float(rest), -24);
    return bits >> 15 ? -size : size;
}

template <class T> T at(const char* place)
{
    T value;
    memcpy(&value, place, sizeof value);
    return value;
}

double component(unsigned format, const char* place)
{
    switch (format) {
    case u8: return at<uint8_t>(place);
    case u16: return at<uint16_t>(place);
    case u32: return at<uint32_t>(place);
    case s8: return at<int8_t>(place);
    case s16: return at<int16_t>(place);
    case s32: return at<int32_t>(place);
    case f16: return from_half(at<uint16_t>(place));
    default: return at<float>(place);
    }
}

// The border's colour: its bits are cut to the component's.
double border_component(const Object& t, float colour)
{
    char bytes[4];
    memcpy(bytes, &colour, 4);
    switch (reading_of(t)) {
    case Reading::integers: return component(t.format, bytes);
    case Reading::unsigned_parts: return std::min(std::max(colour, 0.0f), 1.0f) * (t.format == u8 ? 255 : 65535);
    case Reading::signed_parts: return std::min(std::max(colour, -1.0f), 1.0f) * 32767;
    case Reading::signed_bytes: return std::min(std::max(colour, -1.0f), 1.0f) * 127;
    case Reading::halves: {
        const unsigned bits = at<unsigned>(bytes) & 0xffffe000;
        return at<float>(reinterpret_cast<const char*>(&bits));
    }
    default: return colour;
    }
}

struct Texel {
    long x, y, z;
    bool inside;
};

Values read(const Fetch& fetch, const Texel& texel)
{
    const Object& t = fetch.texture;
    Values values {};
    if (!texel.inside) {
        for (unsigned i = 0; i < t.channels; ++i)
            values.of[i] = border_component(t, t.sampling.border[i]);
        return values;
    }
    const uintptr_t address = t.base + size_t(texel.z) * t.slice + size_t(texel.y) * t.row + size_t(texel.x) * t.element_bytes;
    check_cached_read(address, t.element_bytes, fetch.pc);
    const unsigned step = component_bytes(t.format);
    for (unsigned i = 0; i < t.channels; ++i)
        values.of[i] = component(t.format, reinterpret_cast<const char*>(address) + i * step);
    return values;
}

// Where a coordinate lies along one axis: two texels, and the weight of the second in 256ths.
struct Axis {
    long first, second;
    bool first_inside, second_inside;
    int weight;
};

enum class Taps { one, two, gathered };
Taps taps_of(const Object& t) { return t.sampling.filter == 1 ? Taps::two : Taps::one; }

long placed(long i, long n, int mode, bool& inside)
{
    inside = mode != border || (i >= 0 && i < n);
    if (mode == wrap)
        return ((i % n) + n) % n;
    if (mode == mirror) {
        const long j = ((i % (2 * n)) + 2 * n) % (2 * n);
        return j < n ? j : 2 * n - 1 - j;
    }
    return std::min(std::max(i, 0l), n - 1);
}

Axis along(const Object& t, int axis, float coordinate, long n, Taps taps)
{
    const bool is_normalized = t.sampling.flags & normalized;
    int mode = t.sampling.modes[axis];
    if (!is_normalized && (mode == wrap || mode == mirror))
        mode = clamp;
    double u = coordinate == coordinate ? std::min(std::max(double(coordinate), -1e12), 1e12) : 0;
    if (is_normalized)
        u = n > 8192 ? floor(u * 0x1p22) * 0x1p-22 * double(n) : floor(u * 0x1p21) * 0x1p-21 * double(n);
    long fixed = taps == Taps::one ? long(floor(u)) * 256 : long(floor(u * 256 + 0.5)) - 128;
    if (mode == clamp && taps == Taps::two) // each texel of a gather is clamped by itself
        fixed = std::min(std::max(fixed, 0l), (n - 1) * 256);
    Axis made {};
    made.weight = int(fixed & 255);
    made.first = placed(fixed >> 8, n, mode, made.first_inside);
    made.second = placed((fixed >> 8) + 1, n, mode, made.second_inside);
    return made;
}

Texel texel_of(const Axis& x, const Axis& y, const Axis& z, int corner)
{
    const auto pick = [](const Axis& a, bool second) { return second ? a.second : a.first; };
    const auto inside = [](const Axis& a, bool second) { return second ? a.second_inside : a.first_inside; };
    const bool right = corner & 1, down = corner & 2, back = corner & 4;
    return {pick(x, right), pick(y, down), pick(z, back), inside(x, right) && inside(y, down) && inside(z, back)};
}

int part(int whole, int of_256) { return (whole * of_256 + 128) >> 8; }

// The weights of four corners: bit 0 of an index is the first axis, bit 1 the second.
void weights_of_plane(int* w, int a, int b)
{
    w[3] = part(a, b);
    w[0] = 256 - a - b + w[3], w[1] = a - w[3], w[2] = b - w[3];
}

void weights_of_volume(int* w, int x, int y, int z)
{
    int plane[4];
    weights_of_plane(plane, x, z);
    for (int i = 0; i < 4; ++i) {
        const int corner = (i & 1) | (i & 2) << 1; // with y = 0
        w[corner | 2] = i & 1 ? part(plane[i], y) : plane[i] - part(plane[i], 256 - y);
        w[corner] = plane[i] - w[corner | 2];
    }
}

// To so many bits of fraction, halves away from zero.
double rounded(double value, int bits, int smallest_exponent)
{
    if (value == 0 || !std::isfinite(value))
        return value;
    const double unit = ldexp(1, std::max(ilogb(value), smallest_exponent) - bits);
    const double units = fabs(value) / unit, whole = floor(units);
    return copysign((units - whole >= 0.5 ? whole + 1 : whole) * unit, value);
}

// A component from the sum of weights times components, in 256ths; `filtered`: from more than one texel, or as if.
unsigned word_of(const Object& t, double sum, bool filtered)
{
    double value = sum / 256;
    switch (reading_of(t)) {
    case Reading::integers: return unsigned(long(value));
    case Reading::unsigned_parts: value = floor(value * (t.format == u8 ? 257 : 1) + 0.5) / 65535; break;
    case Reading::signed_parts: value = std::max(floor(value + 0.5), -32767.0) / 32767; break;
    case Reading::signed_bytes:
        value = filtered ? copysign(floor(fabs(sum) * 32767 / 32512 + 0.5), sum) / 32767 : std::max(value, -127.0) / 127;
        break;
    case Reading::halves: value = rounded(value, 10, -14); break;
    case Reading::floats: value = rounded(value, 23, -126); break;
    }
    const float single = float(value);
    return at<unsigned>(reinterpret_cast<const char*>(&single));
}

TexelWords sample(const Fetch& fetch, const Axis& x, const Axis& y, const Axis& z, bool two, bool is_volume)
{
    const Object& t = fetch.texture;
    int weights[8] = {256};
    if (two && is_volume)
        weights_of_volume(weights, x.weight, y.weight, z.weight);
    else if (two)
        weights_of_plane(weights, x.weight, y.weight);
    const bool is_signed_byte = reading_of(t) == Reading::signed_bytes;
    double sums[4] = {};
    for (int corner = 0; corner < 8; ++corner) {
        if (!weights[corner])
            continue; // an infinity with no weight counts for nothing
        const Values values = read(fetch, texel_of(x, y, z, corner));
        for (unsigned i = 0; i < t.channels; ++i)
            sums[i] += weights[corner] * (is_signed_byte ? std::max(values.of[i], -127.0) : values.of[i]);
    }
    TexelWords out {};
    unsigned* words[] = {&out.x, &out.y, &out.z, &out.w};
    for (unsigned i = 0; i < t.channels; ++i)
        *words[i] = word_of(t, sums[i], two);
    return out;
}

// A slice that is chosen, not filtered.
Axis layer_at(long number) { return {number, number, true, true, 0}; }
long layer_of(int asked, long layers) { return std::min(long(unsigned(asked)), layers - 1); }

// The face of a cube that a direction meets, and where: the guide's table for cubemap textures.
long face_of(float x, float y, float z, float& s, float& t)
{
    const float ax = fabsf(x), ay = fabsf(y), az = fabsf(z);
    const int axis = az >= ax && az >= ay ? 2 : ay >= ax ? 1 : 0; // of several that are alike, as an H100 chooses
    const float major = axis == 0 ? x : axis == 1 ? y : z, m = fabsf(major);
    const bool negative = major < 0;
    const float across = axis == 0 ? (negative ? z : -z) : axis == 1 ? x : negative ? -x : x;
    const float along_ = axis == 1 ? (negative ? -z : z) : -y;
    s = m > 0 ? (across / m + 1) / 2 : 0.5f;
    t = m > 0 ? (along_ / m + 1) / 2 : 0.5f;
    return 2 * axis + negative;
}

TexelWords sample_cube(const Fetch& fetch, float x, float y, float z, long first_layer)
{
    Object flat = fetch.texture; // within a face the coordinates are normalised and clamped, whatever the texture says
    flat.sampling.flags |= normalized;
    flat.sampling.modes[0] = flat.sampling.modes[1] = clamp;
    float s, t;
    const Axis face = layer_at(first_layer + face_of(x, y, z, s, t));
    const Taps taps = taps_of(flat);
    const Fetch within {flat, fetch.pc};
    return sample(within, along(flat, 0, s, flat.width, taps), along(flat, 1, t, flat.height, taps), face, taps == Taps::two, false);
}

} // namespace
} // namespace softcuda

using namespace softcuda;
#define CALLER reinterpret_cast<uintptr_t>(__builtin_return_address(0))

extern "C" {

EXPORT TexelWords softcuda_fetch_linear(unsigned long long handle, int x)
{
    const Object& t = usable(handle, false, linear_memory, CALLER);
    if (x < 0 || x >= t.width)
        return {}; // CUDA says so; it is no finding
    const Axis here = layer_at(0);
    return sample({t, CALLER}, layer_at(x), here, here, false, false);
}

EXPORT TexelWords softcuda_fetch(unsigned long long handle, Shape shape, float x, float y, float z, int layer)
{
    const Object& t = usable(handle, false, int(shape), CALLER);
    const Taps taps = taps_of(t);
    const Fetch fetch {t, CALLER};
    if (shape == Shape::cube)
        return sample_cube(fetch, x, y, z, 0);
    if (shape == Shape::cube_layers)
        return sample_cube(fetch, x, y, z, 6 * layer_of(layer, t.layers / 6));
    const bool is_volume = shape == Shape::volume;
    const Axis third = is_volume ? along(t, 2, z, t.depth, taps) : layer_at(t.layers > 1 ? layer_of(layer, t.layers) : 0);
    return sample(fetch, along(t, 0, x, t.width, taps), along(t, 1, y, t.height, taps), third, taps == Taps::two, is_volume);
}

EXPORT TexelWords softcuda_texture_gather(unsigned long long handle, float x, float y, int component)
{
    const Object& t = usable(handle, false, int(Shape::plane), CALLER);
    const Axis across = along(t, 0, x, t.width, Taps::gathered), down = along(t, 1, y, t.height, Taps::gathered);
    const Axis here = layer_at(0);
    TexelWords out {};
    unsigned* words[] = {&out.x, &out.y, &out.z, &out.w};
    const int corners[] = {2, 3, 1, 0};
    for (int i = 0; i < 4 && component >= 0 && component < int(t.channels); ++i)
        *words[i] = word_of(t, 256 * read({t, CALLER}, texel_of(across, down, here, corners[i])).of[component], false);
    return out;
}

} // extern "C"
