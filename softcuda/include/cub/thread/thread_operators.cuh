// Operators that cub's collectives take, and pairs of a key and a value.
#pragma once

#define SOFTCUDA_CUB __forceinline__

namespace cub {

template <class Key_, class Value_> struct KeyValuePair {
    using Key = Key_;
    using Value = Value_;
    Key key;
    Value value;
    KeyValuePair() = default;
    SOFTCUDA_CUB KeyValuePair(const Key& a, const Value& b) : key(a), value(b) { }
    SOFTCUDA_CUB bool operator!=(const KeyValuePair& other) const { return value != other.value || key != other.key; }
};

struct Equality {
    template <class One, class Other> SOFTCUDA_CUB bool operator()(const One& a, const Other& b) const { return a == b; }
};
struct Inequality {
    template <class One, class Other> SOFTCUDA_CUB bool operator()(const One& a, const Other& b) const { return a != b; }
};
struct Sum {
    template <class One, class Other> SOFTCUDA_CUB auto operator()(const One& a, const Other& b) const { return a + b; }
};
struct Difference {
    template <class One, class Other> SOFTCUDA_CUB auto operator()(const One& a, const Other& b) const { return a - b; }
};
struct Max {
    template <class Value> SOFTCUDA_CUB Value operator()(const Value& a, const Value& b) const { return a < b ? b : a; }
};
struct Min {
    template <class Value> SOFTCUDA_CUB Value operator()(const Value& a, const Value& b) const { return b < a ? b : a; }
};
// Of equal values the one with the smaller key.
struct ArgMax {
    template <class Key, class Value> SOFTCUDA_CUB auto operator()(const KeyValuePair<Key, Value>& a, const KeyValuePair<Key, Value>& b) const
    {
        return a.value < b.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class Key, class Value> SOFTCUDA_CUB auto operator()(const KeyValuePair<Key, Value>& a, const KeyValuePair<Key, Value>& b) const
    {
        return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
struct NullType { };

namespace softcuda_cub {

// The bytes of the storage in which CUB exchanges items within a block, or within one warp after another.
constexpr unsigned exchange_bytes(unsigned size, unsigned threads, unsigned count, bool exchanges, bool by_warps)
{
    const unsigned items = count * (by_warps && threads > 32 ? 32 : threads);
    const bool is_padded = count > 4 && (count & (count - 1)) == 0;
    return exchanges ? ((items + (is_padded ? items / 32 : 0)) * size + 15) / 16 * 16 : 0;
}

template <unsigned bytes> struct Storage {
    alignas(16) char softcuda_bytes[bytes];
};
template <> struct Storage<0> { };

static SOFTCUDA_CUB unsigned own_number() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

// What lane number `rank` of a logical warp of so many lanes has; `mask` names those lanes.
template <class Value> SOFTCUDA_CUB Value from_lane(unsigned mask, const Value& value, unsigned rank, unsigned width)
{
    unsigned long words[(sizeof(Value) + 7) / 8] = {};
    __builtin_memcpy(words, &value, sizeof(Value));
    for (unsigned long& word : words)
        word = softcuda_warp(::softcuda::shuffle, mask, word, int(rank), int(width));
    alignas(Value) char bytes[sizeof(Value)];
    __builtin_memcpy(bytes, words, sizeof(Value));
    return *reinterpret_cast<Value*>(bytes);
}

template <class Value, unsigned count, class Operator> SOFTCUDA_CUB Value together(const Value (&items)[count], Operator join)
{
    Value all = items[0];
    for (unsigned i = 1; i < count; ++i)
        all = join(all, items[i]);
    return all;
}

} // namespace softcuda_cub

} // namespace cub
