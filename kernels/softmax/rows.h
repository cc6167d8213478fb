// Rows by pieces of 16 bytes, and what threads of a block make of their parts of a row together.

#pragma once

constexpr int pack = 16 / sizeof(scalar_t);
struct alignas(16) Pack {
    scalar_t values[pack];
};

// A row, or a part of one: whole pieces of 16 bytes, and elements before and after them, at most pack - 1 each. Any row
// is read by whole pieces. A thread has every BLOCK_X-th piece, and at most one of the other elements.
struct Pieces {
    const scalar_t* start;
    int n, head, packs;

    __device__ Pieces(const scalar_t* start, int n)
        : start(start)
        , n(n)
        , head(min(n, int((16 - size_t(start) % 16) % 16 / sizeof(scalar_t))))
        , packs((n - head) / pack)
    {
    }

    __device__ const Pack* body() const { return reinterpret_cast<const Pack*>(start + head); }

    // Returns which of the other elements is the thread's; n or more if none is.
    __device__ int edge() const { return threadIdx.x < head ? threadIdx.x : threadIdx.x + packs * pack; }

    // Writes to where a row begins like this one. It need not begin at the same place between multiples of 16 bytes.
    __device__ void store(scalar_t* to, int piece, const Pack& values) const
    {
        scalar_t* const at = to + head + piece * pack;
        if (size_t(at) % 16 == 0)
            *reinterpret_cast<Pack*>(at) = values;
        else
            for (int j = 0; j < pack; ++j)
                at[j] = values.values[j];
    }
};

// What a thread keeps of a row in registers. Elements that it does not have are `missing`.
template <int kept> struct Held {
    Pack pieces[kept];
    scalar_t edge;

    __device__ Held(const Pieces& row, scalar_t missing)
    {
        Pack none;
        for (int j = 0; j < pack; ++j)
            none.values[j] = missing;
#pragma unroll
        for (int i = 0; i < kept; ++i) {
            const int piece = i * BLOCK_X + threadIdx.x;
            pieces[i] = piece < row.packs ? row.body()[piece] : none;
        }
        edge = row.edge() < row.n ? row.start[row.edge()] : missing;
    }

    template <class Function> __device__ void each(Function function)
    {
#pragma unroll
        for (int i = 0; i < kept; ++i)
#pragma unroll
            for (int j = 0; j < pack; ++j)
                function(pieces[i].values[j]);
        function(edge);
    }

    __device__ void store(const Pieces& row, scalar_t* to) const
    {
#pragma unroll
        for (int i = 0; i < kept; ++i) {
            const int piece = i * BLOCK_X + threadIdx.x;
            if (piece < row.packs)
                row.store(to, piece, pieces[i]);
        }
        if (row.edge() < row.n)
            to[row.edge()] = edge;
    }
};

__device__ __forceinline__ scalar_t shuffle(scalar_t value, int distance)
{
    return __shfl_xor_sync(0xffffffffu, value, distance);
}

// Merges the values of each `lanes` lanes side by side, for all of them.
template <int lanes, class T, class Merge> __device__ __forceinline__ T merge_lanes(T value, Merge merge)
{
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        value = merge(value, shuffle(value, distance));
    return value;
}

// Merges the values of a block's threads, for all of them, with one barrier. `call` tells calls of a kernel apart.
template <int call, int threads, class T, class Merge> __device__ __forceinline__ T merge_block(T value, Merge merge)
{
    constexpr int warps = threads / 32;
    static_assert(threads % 32 == 0 && (warps & (warps - 1)) == 0 && warps <= 32, "as many warps as lanes can halve");
    __shared__ T of_warps[warps];
    value = merge_lanes<32>(value, merge);
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    return merge_lanes<warps>(of_warps[threadIdx.x % warps], merge);
}
