// Cooperative groups, as CUDA's header of this name has them: classes for the grid, the block and lanes of a warp, and
// their collective functions. Reductions, scans and copies are in the headers of the folder beside.
//
// Every function is inlined, so that findings have the kernel's own line. A group of lanes is a mask; lanes that the
// block does not have are not in it.
#pragma once

#define SOFTCUDA_IN static __forceinline__

namespace cooperative_groups {

namespace softcuda_groups {

enum class Kind : unsigned { none, lanes, block, grid };

SOFTCUDA_IN unsigned number_in_block() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
SOFTCUDA_IN unsigned threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }
SOFTCUDA_IN unsigned own_lane() { return number_in_block() % 32; }
SOFTCUDA_IN unsigned first_lanes(unsigned count) { return count < 32 ? (1u << count) - 1 : 0xffffffffu; }
SOFTCUDA_IN unsigned existing_lanes() { return first_lanes(threads_of_block() - number_in_block() / 32 * 32); }
SOFTCUDA_IN unsigned rank_in(unsigned mask) { return unsigned(__builtin_popcount(mask & first_lanes(own_lane()))); }

// The lane of a rank of a mask; the thread's own where there is none.
SOFTCUDA_IN unsigned lane_of(unsigned mask, unsigned rank)
{
    for (; rank && mask; --rank)
        mask &= mask - 1;
    return mask ? unsigned(__builtin_ctz(mask)) : own_lane();
}

// The bits of `lanes` that are in a mask, by rank.
SOFTCUDA_IN unsigned by_rank(unsigned mask, unsigned lanes)
{
    unsigned ranks = 0;
    for (unsigned rank = 0; mask; ++rank, mask &= mask - 1)
        ranks |= (lanes >> __builtin_ctz(mask) & 1u) << rank;
    return ranks;
}

// The lanes of `count` ranks from `first` on.
SOFTCUDA_IN unsigned part_of(unsigned mask, unsigned first, unsigned count)
{
    unsigned part = 0;
    for (unsigned rank = 0; mask; ++rank, mask &= mask - 1)
        part |= rank - first < count ? mask & -mask : 0;
    return part;
}

// What another lane has, of any size.
template <class Value> __forceinline__ Value from_lane(unsigned mask, Value value, unsigned lane)
{
    unsigned long words[(sizeof(Value) + 7) / 8] = {};
    __builtin_memcpy(words, &value, sizeof(Value));
    for (unsigned long& word : words)
        word = softcuda_warp(softcuda::shuffle, mask, word, int(lane), 32);
    __builtin_memcpy(&value, words, sizeof(Value));
    return value;
}

struct Token { }; // of a barrier at which a thread has arrived

} // namespace softcuda_groups

#define SOFTCUDA_M __forceinline__

// Any group. The others are groups of this class too, so that a function can take whichever it is given.
class thread_group {
protected:
    softcuda_groups::Kind softcuda_kind = softcuda_groups::Kind::none;
    unsigned softcuda_mask = 0, softcuda_part = 0, softcuda_parts = 1;

    SOFTCUDA_M thread_group(softcuda_groups::Kind kind, unsigned mask, unsigned part, unsigned parts)
        : softcuda_kind(kind), softcuda_mask(mask), softcuda_part(part), softcuda_parts(parts)
    {
    }

public:
    thread_group() = default;
    SOFTCUDA_M void sync() const
    {
        if (softcuda_kind == softcuda_groups::Kind::lanes)
            softcuda_warp(softcuda::sync, softcuda_mask, 0, 0, 32);
        else if (softcuda_kind == softcuda_groups::Kind::block)
            softcuda_syncthreads();
        else
            softcuda_sync_grid();
    }
    SOFTCUDA_M unsigned long long size() const
    {
        if (softcuda_kind == softcuda_groups::Kind::lanes)
            return (unsigned long long)__builtin_popcount(softcuda_mask);
        const unsigned long long blocks = (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
        return softcuda_groups::threads_of_block() * (softcuda_kind == softcuda_groups::Kind::grid ? blocks : 1);
    }
    SOFTCUDA_M unsigned long long num_threads() const { return size(); }
    SOFTCUDA_M unsigned long long thread_rank() const
    {
        if (softcuda_kind == softcuda_groups::Kind::lanes)
            return softcuda_groups::rank_in(softcuda_mask);
        const unsigned long long block = blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
        const unsigned long long before = softcuda_kind == softcuda_groups::Kind::grid ? block * softcuda_groups::threads_of_block() : 0;
        return before + softcuda_groups::number_in_block();
    }
    SOFTCUDA_M bool is_valid() const
    {
        return softcuda_kind != softcuda_groups::Kind::none && (softcuda_kind != softcuda_groups::Kind::grid || softcuda_is_cooperative());
    }
    friend thread_group tiled_partition(const thread_group& parent, unsigned count);
};

class thread_block : public thread_group {
    SOFTCUDA_M thread_block() : thread_group(softcuda_groups::Kind::block, 0, 0, 1) { }
    friend thread_block this_thread_block();

public:
    using arrival_token = softcuda_groups::Token;
    SOFTCUDA_M static void sync() { softcuda_syncthreads(); }
    SOFTCUDA_M static unsigned size() { return softcuda_groups::threads_of_block(); }
    SOFTCUDA_M static unsigned num_threads() { return softcuda_groups::threads_of_block(); }
    SOFTCUDA_M static unsigned thread_rank() { return softcuda_groups::number_in_block(); }
    SOFTCUDA_M static dim3 group_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
    SOFTCUDA_M static dim3 thread_index() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
    SOFTCUDA_M static dim3 group_dim() { return {blockDim.x, blockDim.y, blockDim.z}; }
    SOFTCUDA_M static dim3 dim_threads() { return {blockDim.x, blockDim.y, blockDim.z}; }
    SOFTCUDA_M static arrival_token barrier_arrive() { return {}; }
    SOFTCUDA_M static void barrier_wait(arrival_token&&) { softcuda_syncthreads(); }
};

class grid_group : public thread_group {
    SOFTCUDA_M grid_group() : thread_group(softcuda_groups::Kind::grid, 0, 0, 1) { }
    friend grid_group this_grid();

public:
    using arrival_token = softcuda_groups::Token;
    SOFTCUDA_M void sync() const { softcuda_sync_grid(); }
    SOFTCUDA_M static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    SOFTCUDA_M static unsigned long long block_rank()
    {
        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    }
    SOFTCUDA_M static dim3 group_dim() { return {gridDim.x, gridDim.y, gridDim.z}; }
    SOFTCUDA_M static dim3 dim_blocks() { return {gridDim.x, gridDim.y, gridDim.z}; }
    SOFTCUDA_M static dim3 block_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
    SOFTCUDA_M static dim3 dim_threads() { return {gridDim.x * blockDim.x, gridDim.y * blockDim.y, gridDim.z * blockDim.z}; }
    SOFTCUDA_M static dim3 thread_index()
    {
        return {blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y, blockIdx.z * blockDim.z + threadIdx.z};
    }
    SOFTCUDA_M arrival_token barrier_arrive() const { return {}; }
    SOFTCUDA_M void barrier_wait(arrival_token&&) const { softcuda_sync_grid(); }
};

// What groups of lanes have in common. Lanes outside of the mask are not needed and learn nothing.
class softcuda_lanes : public thread_group {
protected:
    SOFTCUDA_M softcuda_lanes(unsigned mask, unsigned part, unsigned parts)
        : thread_group(softcuda_groups::Kind::lanes, mask, part, parts)
    {
    }

    SOFTCUDA_M unsigned softcuda_asked(int kind, unsigned long value) const
    {
        return unsigned(softcuda_warp(kind, softcuda_mask, value, 0, 32));
    }

public:
    SOFTCUDA_M unsigned softcuda_members() const { return softcuda_mask; }
    SOFTCUDA_M void sync() const { softcuda_warp(softcuda::sync, softcuda_mask, 0, 0, 32); }
    SOFTCUDA_M unsigned size() const { return unsigned(__builtin_popcount(softcuda_mask)); }
    SOFTCUDA_M unsigned num_threads() const { return size(); }
    SOFTCUDA_M unsigned thread_rank() const { return softcuda_groups::rank_in(softcuda_mask); }
    SOFTCUDA_M unsigned meta_group_rank() const { return softcuda_part; }
    SOFTCUDA_M unsigned meta_group_size() const { return softcuda_parts; }
    SOFTCUDA_M int any(int predicate) const { return int(softcuda_asked(softcuda::any, predicate != 0)); }
    SOFTCUDA_M int all(int predicate) const { return int(softcuda_asked(softcuda::all, predicate != 0)); }
    SOFTCUDA_M unsigned ballot(int predicate) const
    {
        return softcuda_groups::by_rank(softcuda_mask, softcuda_asked(softcuda::ballot, predicate != 0));
    }
    template <class Value> SOFTCUDA_M unsigned match_any(Value value) const
    {
        return softcuda_groups::by_rank(softcuda_mask, softcuda_asked(softcuda::match, softcuda::to_bits(value)));
    }
    template <class Value> SOFTCUDA_M unsigned match_all(Value value, int& predicate) const
    {
        predicate = softcuda_asked(softcuda::match, softcuda::to_bits(value)) == softcuda_mask;
        return predicate ? softcuda_groups::first_lanes(size()) : 0;
    }
    template <class Value> SOFTCUDA_M Value shfl(Value value, unsigned rank) const
    {
        return softcuda_groups::from_lane(softcuda_mask, value, softcuda_groups::lane_of(softcuda_mask, rank));
    }
    template <class Value> SOFTCUDA_M Value shfl_up(Value value, unsigned delta) const
    {
        const unsigned rank = thread_rank();
        return shfl(value, delta <= rank ? rank - delta : rank);
    }
    template <class Value> SOFTCUDA_M Value shfl_down(Value value, unsigned delta) const
    {
        const unsigned rank = thread_rank();
        return shfl(value, delta < size() - rank ? rank + delta : rank);
    }
};

template <unsigned count, class Parent = void> class thread_block_tile;

class coalesced_group : public softcuda_lanes {
    SOFTCUDA_M coalesced_group(unsigned mask, unsigned part, unsigned parts) : softcuda_lanes(mask, part, parts) { }
    friend coalesced_group coalesced_threads();
    friend coalesced_group tiled_partition(const coalesced_group& parent, unsigned count);
    template <class Label> friend coalesced_group labeled_partition(const softcuda_lanes& group, Label label);
    friend coalesced_group binary_partition(const softcuda_lanes& group, bool predicate);

public:
    template <unsigned count, class Parent>
    SOFTCUDA_M coalesced_group(const thread_block_tile<count, Parent>& tile) : softcuda_lanes(tile) { }
};

// The lanes of a tile lie side by side from a multiple of their number on.
template <unsigned count> class thread_block_tile<count, void> : public softcuda_lanes {
    static_assert(count && !(count & (count - 1)), "the size of a tile is a power of two");
    static_assert(count <= 32, "softcuda does not support tiles of more than a warp: at most 32 threads");

protected:
    SOFTCUDA_M thread_block_tile(unsigned part, unsigned parts)
        : softcuda_lanes(softcuda_groups::first_lanes(count) << softcuda_groups::own_lane() / count * count
                  & softcuda_groups::existing_lanes(), part, parts)
    {
    }
    friend thread_block_tile<1, void> this_thread();

public:
    SOFTCUDA_M static constexpr unsigned size() { return count; }
    SOFTCUDA_M static constexpr unsigned num_threads() { return count; }
    SOFTCUDA_M static unsigned thread_rank() { return softcuda_groups::own_lane() % count; }
    template <class Value> SOFTCUDA_M Value shfl(Value value, int rank) const
    {
        const unsigned first = softcuda_groups::own_lane() / count * count;
        return softcuda_groups::from_lane(this->softcuda_mask, value, first + unsigned(rank) % count);
    }
    template <class Value> SOFTCUDA_M Value shfl_up(Value value, unsigned delta) const
    {
        return shfl(value, int(delta <= thread_rank() ? thread_rank() - delta : thread_rank()));
    }
    template <class Value> SOFTCUDA_M Value shfl_down(Value value, unsigned delta) const
    {
        return shfl(value, int(delta < count - thread_rank() ? thread_rank() + delta : thread_rank()));
    }
    template <class Value> SOFTCUDA_M Value shfl_xor(Value value, unsigned lanes) const
    {
        return shfl(value, int((thread_rank() ^ lanes) < count ? thread_rank() ^ lanes : thread_rank()));
    }
};

template <unsigned count, class Parent> class thread_block_tile : public thread_block_tile<count, void> {
    SOFTCUDA_M thread_block_tile(unsigned part, unsigned parts) : thread_block_tile<count, void>(part, parts) { }
    template <unsigned size, class Group> friend thread_block_tile<size, Group> tiled_partition(const Group& parent);
};

// Groups that a thread finds itself in.
__forceinline__ thread_block this_thread_block() { return thread_block(); }
__forceinline__ grid_group this_grid() { return grid_group(); }
__forceinline__ thread_block_tile<1, void> this_thread() { return thread_block_tile<1, void>(0, 1); }
__forceinline__ coalesced_group coalesced_threads() { return coalesced_group(softcuda_activemask(), 0, 1); }

// Parts of groups.
template <unsigned size, class Group> __forceinline__ thread_block_tile<size, Group> tiled_partition(const Group& parent)
{
    return {unsigned(parent.thread_rank()) / size, (unsigned(parent.size()) + size - 1) / size};
}
template <unsigned size> void tiled_partition(const coalesced_group& parent) = delete; // its lanes may lie apart
__forceinline__ coalesced_group tiled_partition(const coalesced_group& parent, unsigned count)
{
    const unsigned own = parent.thread_rank() / count, mask = parent.softcuda_members();
    return {softcuda_groups::part_of(mask, own * count, count), own, (parent.size() + count - 1) / count};
}
__forceinline__ thread_group tiled_partition(const thread_group& parent, unsigned count)
{
    if (!count || count > 32 || count & (count - 1) || parent.softcuda_kind == softcuda_groups::Kind::grid)
        softcuda_trap("tiled_partition of a grid, or into groups of other than 1, 2, 4, 8, 16 or 32 threads");
    const bool of_block = parent.softcuda_kind == softcuda_groups::Kind::block;
    const unsigned mask = of_block ? softcuda_groups::existing_lanes() : parent.softcuda_mask;
    const unsigned first = softcuda_groups::rank_in(mask) / count * count;
    const unsigned own = unsigned(parent.thread_rank()) / count, parts = (unsigned(parent.size()) + count - 1) / count;
    return {softcuda_groups::Kind::lanes, softcuda_groups::part_of(mask, first, count), own, parts};
}
// Lanes with the same label; groups are numbered by their first lanes.
template <class Label> __forceinline__ coalesced_group labeled_partition(const softcuda_lanes& group, Label label)
{
    const unsigned mask = group.softcuda_members();
    const unsigned own = unsigned(softcuda_warp(softcuda::match, mask, softcuda::to_bits(label), 0, 32));
    const unsigned firsts = unsigned(
        softcuda_warp(softcuda::ballot, mask, unsigned(__builtin_ctz(own)) == softcuda_groups::own_lane(), 0, 32));
    const unsigned before = firsts & softcuda_groups::first_lanes(unsigned(__builtin_ctz(own)));
    return {own, unsigned(__builtin_popcount(before)), unsigned(__builtin_popcount(firsts))};
}
__forceinline__ coalesced_group binary_partition(const softcuda_lanes& group, bool predicate)
{
    const unsigned mask = group.softcuda_members(), chosen = unsigned(softcuda_warp(softcuda::ballot, mask, predicate, 0, 32));
    if (!chosen || chosen == mask)
        return {mask, 0, 1};
    return {predicate ? chosen : mask & ~chosen, predicate, 2};
}

// The members as functions.
template <class Group> __forceinline__ void sync(const Group& group) { group.sync(); }
template <class Group> __forceinline__ auto thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group> __forceinline__ auto group_size(const Group& group) { return group.size(); }

// One thread of the group calls a function; nothing is ordered by that. Its result goes to all lanes of a group.
template <class Group, class Function, class... Arguments>
__forceinline__ void invoke_one(const Group& group, Function&& function, Arguments&&... arguments)
{
    if (group.thread_rank() == 0)
        function(static_cast<Arguments&&>(arguments)...);
}
template <class Function, class... Arguments>
__forceinline__ auto invoke_one_broadcast(const softcuda_lanes& group, Function&& function, Arguments&&... arguments)
{
    decltype(function(static_cast<Arguments&&>(arguments)...)) result {};
    if (group.thread_rank() == 0)
        result = function(static_cast<Arguments&&>(arguments)...);
    return group.shfl(result, 0);
}

} // namespace cooperative_groups
