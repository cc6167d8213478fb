// cooperative_groups::memcpy_async: the threads of a group share the work of a copy, and it comes when they wait for it.
//
// Words that both sides have aligned go by cp.async, each a different thread's turn; single bytes are copied
// at once.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

namespace softcuda_groups {

template <unsigned step> __forceinline__ void copy_steps(char* to, const char* from, size_t bytes, size_t rank, size_t count)
{
    for (size_t at = rank * step; at + step <= bytes; at += count * step)
        softcuda_copy_async(to + at, from + at, step, 0);
}

template <class Group> __forceinline__ void copy(const Group& group, char* to, const char* from, size_t bytes)
{
    const size_t rank = group.thread_rank(), count = group.size(), apart = size_t(to) | size_t(from) | 16;
    const size_t step = apart & -apart, whole = step >= 4 ? bytes / step * step : 0;
    if (step == 16)
        copy_steps<16>(to, from, bytes, rank, count);
    else if (step == 8)
        copy_steps<8>(to, from, bytes, rank, count);
    else if (step == 4)
        copy_steps<4>(to, from, bytes, rank, count);
    for (size_t at = whole + rank; at < bytes; at += count)
        to[at] = from[at];
    softcuda_commit_copies();
}

} // namespace softcuda_groups

// Of so many bytes.
template <class Group, class Element>
__forceinline__ void memcpy_async(const Group& group, Element* to, const Element* from, size_t bytes)
{
    softcuda_groups::copy(group, reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from), bytes);
}
template <class Group>
__forceinline__ void memcpy_async(const Group& group, void* to, const void* from, size_t bytes)
{
    softcuda_groups::copy(group, static_cast<char*>(to), static_cast<const char*>(from), bytes);
}
// Of as many elements as both sides have.
template <class Group, class Element, class ToCount, class FromCount>
__forceinline__ void memcpy_async(const Group& group, Element* to, const ToCount& room, const Element* from, const FromCount& given)
{
    const size_t count = size_t(room) < size_t(given) ? size_t(room) : size_t(given);
    softcuda_groups::copy(group, reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from), count * sizeof(Element));
}

template <class Group> __forceinline__ void wait(const Group& group)
{
    softcuda_wait_copies(0);
    group.sync();
}
template <unsigned later, class Group> __forceinline__ void wait_prior(const Group& group)
{
    softcuda_wait_copies(later);
    group.sync();
}

} // namespace cooperative_groups
