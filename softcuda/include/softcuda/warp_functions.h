// Warp functions: the lanes that a mask names meet in the executor, and each gets what it asked for.
#pragma once

namespace softcuda {
enum WarpKind { sync = 0, ballot, any, all, shuffle, shuffle_up, shuffle_down, shuffle_xor, match };

template <class T> unsigned long to_bits(T value)
{
    static_assert(sizeof(T) <= 8, "warp functions move values of at most 8 bytes");
    unsigned long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <class T> T from_bits(unsigned long bits)
{
    T value;
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

template <class T> T exchange(int kind, unsigned mask, T value, int source, int width)
{
    return from_bits<T>(softcuda_warp(kind, mask, to_bits(value), source, width));
}
} // namespace softcuda

static inline void __syncwarp(unsigned mask = 0xffffffffu) { softcuda_warp(softcuda::sync, mask, 0, 0, 32); }
static inline unsigned __activemask() { return softcuda_activemask(); }
static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    return unsigned(softcuda_warp(softcuda::ballot, mask, predicate != 0, 0, 32));
}
static inline int __any_sync(unsigned mask, int predicate)
{
    return int(softcuda_warp(softcuda::any, mask, predicate != 0, 0, 32));
}
static inline int __all_sync(unsigned mask, int predicate)
{
    return int(softcuda_warp(softcuda::all, mask, predicate != 0, 0, 32));
}
template <class T> unsigned __match_any_sync(unsigned mask, T value)
{
    return unsigned(softcuda_warp(softcuda::match, mask, softcuda::to_bits(value), 0, 32));
}
template <class T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32)
{
    return softcuda::exchange(softcuda::shuffle, mask, value, lane, width);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    return softcuda::exchange(softcuda::shuffle_up, mask, value, int(delta), width);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    return softcuda::exchange(softcuda::shuffle_down, mask, value, int(delta), width);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32)
{
    return softcuda::exchange(softcuda::shuffle_xor, mask, value, lane_mask, width);
}
template <class T> unsigned __match_all_sync(unsigned mask, T value, int* predicate)
{
    const softcuda::Lanes lanes = softcuda_gather(mask, softcuda::to_bits(value));
    *predicate = 1;
    for (unsigned others = lanes.mask; others; others &= others - 1)
        *predicate &= lanes.values[__builtin_ctz(others)] == softcuda::to_bits(value);
    return *predicate ? lanes.mask : 0;
}
// Sums and their like of the lanes that a mask names, which wrap.
#define SOFTCUDA_REDUCE(name, type, result) \
    static __forceinline__ type name(unsigned mask, type own) \
    { \
        const softcuda::Lanes lanes = softcuda_gather(mask, own); \
        type sum = type(lanes.values[__builtin_ctz(lanes.mask)]); \
        for (unsigned others = lanes.mask & (lanes.mask - 1); others; others &= others - 1) { \
            const type next = type(lanes.values[__builtin_ctz(others)]); \
            sum = result; \
        } \
        return sum; \
    }
SOFTCUDA_REDUCE(__reduce_add_sync, unsigned, sum + next)
SOFTCUDA_REDUCE(__reduce_add_sync, int, int(unsigned(sum) + unsigned(next)))
SOFTCUDA_REDUCE(__reduce_min_sync, unsigned, next < sum ? next : sum)
SOFTCUDA_REDUCE(__reduce_min_sync, int, next < sum ? next : sum)
SOFTCUDA_REDUCE(__reduce_max_sync, unsigned, sum < next ? next : sum)
SOFTCUDA_REDUCE(__reduce_max_sync, int, sum < next ? next : sum)
SOFTCUDA_REDUCE(__reduce_and_sync, unsigned, sum & next)
SOFTCUDA_REDUCE(__reduce_or_sync, unsigned, sum | next)
SOFTCUDA_REDUCE(__reduce_xor_sync, unsigned, sum ^ next)
#undef SOFTCUDA_REDUCE
