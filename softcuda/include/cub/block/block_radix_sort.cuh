// Sorts of a block, stable, by the bits that cub sorts by. Each thread counts what comes before its keys, which takes
// longer than cub's passes but needs no more storage than the keys.
#pragma once

#include "../thread/thread_operators.cuh"
#include "block_scan.cuh"

namespace cub::softcuda_cub {

// A key as a number of the same order. Both zeros are equal.
template <class Key> SOFTCUDA_CUB unsigned long ordered_bits(const Key& key)
{
    constexpr unsigned width = 8 * sizeof(Key);
    constexpr unsigned long sign = 1ul << (width - 1), all = sign | (sign - 1);
    unsigned long bits = 0;
    __builtin_memcpy(&bits, &key, sizeof(Key));
    if constexpr (__is_class(Key) || Key(0.5f) != Key(0))
        return bits & sign ? (bits == sign ? sign : ~bits & all) : bits | sign;
    else
        return Key(-1) < Key(1) && width > 1 ? bits ^ sign : bits;
}

} // namespace cub::softcuda_cub

namespace cub {

template <class Key, int x, int items, class Value = NullType, int = 4, bool = true, BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS,
    int = 0, int y = 1, int z = 1>
class BlockRadixSort {
    static constexpr unsigned threads = x * y * z, count = threads * items;
    static constexpr unsigned longest = sizeof(Key) > sizeof(Value) ? sizeof(Key) : sizeof(Value);

public:
    struct TempStorage {
        alignas(16) char softcuda_bytes[count * longest];
    };

private:
    char* softcuda_bytes;

    static SOFTCUDA_CUB TempStorage& own_storage()
    {
        __shared__ TempStorage storage;
        return storage;
    }
    // Puts what each thread has where its ranks say, and takes back its own.
    template <bool striped, class Item> SOFTCUDA_CUB void exchange(Item (&own)[items], const unsigned (&ranks)[items])
    {
        Item* const all = reinterpret_cast<Item*>(softcuda_bytes);
        const unsigned number = softcuda_cub::own_number();
        softcuda_syncthreads();
        for (int i = 0; i < items; ++i)
            all[ranks[i]] = own[i];
        softcuda_syncthreads();
        for (int i = 0; i < items; ++i)
            own[i] = all[striped ? number + i * threads : number * items + i];
    }
    template <bool descending, bool striped> SOFTCUDA_CUB void sort(Key (&keys)[items], Value* values, int begin, int end)
    {
        Key* const all = reinterpret_cast<Key*>(softcuda_bytes);
        const unsigned first = softcuda_cub::own_number() * items;
        const unsigned long mask = end - begin >= 64 ? ~0ul : (1ul << (end - begin)) - 1;
        unsigned ranks[items];
        for (int i = 0; i < items; ++i)
            all[first + i] = keys[i];
        softcuda_syncthreads();
        for (int i = 0; i < items; ++i) {
            const unsigned long own = softcuda_cub::ordered_bits(keys[i]) >> begin & mask;
            ranks[i] = 0;
            for (unsigned other = 0; other < count; ++other) {
                const unsigned long its = softcuda_cub::ordered_bits(all[other]) >> begin & mask;
                ranks[i] += its == own ? other < first + i : (its < own) != descending;
            }
        }
        exchange<striped>(keys, ranks);
        if constexpr (!__is_same(Value, NullType))
            exchange<striped>(*reinterpret_cast<Value(*)[items]>(values), ranks);
    }

public:
    SOFTCUDA_CUB BlockRadixSort() : BlockRadixSort(own_storage()) { }
    SOFTCUDA_CUB explicit BlockRadixSort(TempStorage& storage) : softcuda_bytes(storage.softcuda_bytes) { }

#define SOFTCUDA_SORT(name, descending, striped) \
    SOFTCUDA_CUB void name(Key (&keys)[items], int begin = 0, int end = 8 * sizeof(Key)) \
    { \
        static_assert(__is_same(Value, NullType), "a BlockRadixSort of keys and values is called with both"); \
        sort<descending, striped>(keys, nullptr, begin, end); \
    } \
    SOFTCUDA_CUB void name(Key (&keys)[items], Value (&values)[items], int begin = 0, int end = 8 * sizeof(Key)) \
    { \
        sort<descending, striped>(keys, values, begin, end); \
    }
    SOFTCUDA_SORT(Sort, false, false)
    SOFTCUDA_SORT(SortDescending, true, false)
    SOFTCUDA_SORT(SortBlockedToStriped, false, true)
    SOFTCUDA_SORT(SortDescendingBlockedToStriped, true, true)
#undef SOFTCUDA_SORT
};

} // namespace cub
