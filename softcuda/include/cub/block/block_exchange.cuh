// Exchanges of a block: each thread gives its values and takes others. Each leaves them in the temporary storage: who uses
// that again without a barrier between is found.
#pragma once

#include "../thread/thread_operators.cuh"

namespace cub {

template <class Value, int x, int count, bool = false, int y = 1, int z = 1, int = 0> class BlockExchange {
    static constexpr unsigned threads = x * y * z;

public:
    struct TempStorage {
        alignas(Value) char softcuda_bytes[threads * count * sizeof(Value)];
    };

private:
    Value* softcuda_values;

    static SOFTCUDA_CUB TempStorage& own_storage()
    {
        __shared__ TempStorage storage;
        return storage;
    }
    // Where a thread's item lies: side by side, a block's size apart, or a warp's size apart among those of the warp.
    static SOFTCUDA_CUB unsigned blocked(unsigned item) { return softcuda_cub::own_number() * count + item; }
    static SOFTCUDA_CUB unsigned striped(unsigned item) { return softcuda_cub::own_number() + item * threads; }
    static SOFTCUDA_CUB unsigned warp_striped(unsigned item)
    {
        const unsigned own = softcuda_cub::own_number(), first = own / 32 * 32;
        const unsigned lanes = threads - first < 32 ? threads - first : 32;
        return first * count + item * lanes + own % 32;
    }
    template <class From, class To, class Out>
    SOFTCUDA_CUB void exchange(const Value (&items)[count], Out (&results)[count], From from, To to)
    {
        for (unsigned i = 0; i < count; ++i)
            from(i, items[i]);
        softcuda_syncthreads();
        for (unsigned i = 0; i < count; ++i)
            results[i] = softcuda_values[to(i)];
    }
    template <class Place> SOFTCUDA_CUB auto put(Place place)
    {
        return [this, place](unsigned i, const Value& value) { softcuda_values[place(i)] = value; };
    }

public:
    SOFTCUDA_CUB BlockExchange() : BlockExchange(own_storage()) { }
    SOFTCUDA_CUB explicit BlockExchange(TempStorage& storage) : softcuda_values(reinterpret_cast<Value*>(storage.softcuda_bytes)) { }

#define SOFTCUDA_EXCHANGE(name, from, to) \
    template <class Out> SOFTCUDA_CUB void name(const Value (&items)[count], Out (&results)[count]) \
    { \
        exchange(items, results, put([](unsigned i) { return from(i); }), [](unsigned i) { return to(i); }); \
    } \
    SOFTCUDA_CUB void name(Value (&items)[count]) { name(items, items); }
    SOFTCUDA_EXCHANGE(StripedToBlocked, striped, blocked)
    SOFTCUDA_EXCHANGE(BlockedToStriped, blocked, striped)
    SOFTCUDA_EXCHANGE(WarpStripedToBlocked, warp_striped, blocked)
    SOFTCUDA_EXCHANGE(BlockedToWarpStriped, blocked, warp_striped)
#undef SOFTCUDA_EXCHANGE

    // To the places that the ranks say.
#define SOFTCUDA_SCATTER(name, to) \
    template <class Out, class Rank> SOFTCUDA_CUB void name(const Value (&items)[count], Out (&results)[count], const Rank (&ranks)[count]) \
    { \
        exchange(items, results, put([&](unsigned i) { return ranks[i]; }), [](unsigned i) { return to(i); }); \
    } \
    template <class Rank> SOFTCUDA_CUB void name(Value (&items)[count], const Rank (&ranks)[count]) { name(items, items, ranks); }
    SOFTCUDA_SCATTER(ScatterToBlocked, blocked)
    SOFTCUDA_SCATTER(ScatterToStriped, striped)
#undef SOFTCUDA_SCATTER
    // Items whose rank is negative go nowhere.
    template <class Out, class Rank>
    SOFTCUDA_CUB void ScatterToStripedGuarded(const Value (&items)[count], Out (&results)[count], const Rank (&ranks)[count])
    {
        const auto from = [&](unsigned i, const Value& value) {
            if (ranks[i] >= 0)
                softcuda_values[ranks[i]] = value;
        };
        exchange(items, results, from, [](unsigned i) { return striped(i); });
    }
};

} // namespace cub
