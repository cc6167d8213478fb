// cooperative_groups::memcpy_async: the threads of a group share the work of a copy, and it comes when they wait for it.
#pragma once

#include "../cooperative_groups.h"
#include "../softcuda/copies.h"

namespace cooperative_groups {

namespace softcuda_groups {

template <class Group> __forceinline__ void copy(const Group& group, char* to, const char* from, size_t bytes)
{
    softcuda::copy_part(to, from, bytes, group.thread_rank(), group.size());
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
