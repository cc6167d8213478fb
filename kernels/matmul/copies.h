// Copies from global to shared memory that come by themselves (cp.async, compute capability 8.0), and how to wait for
// them. By PTX, because CUDA's own functions for it take no number of bytes that is known at run time alone.
#pragma once

// Of 4, 8 or 16 bytes, or of as many zeros; `from` is not read then, and need not exist.
template <int bytes, class T> __device__ __forceinline__ void copy(T* to, const T* from, bool there)
{
    const unsigned target = __cvta_generic_to_shared(to);
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(there ? 16 : 0)
            : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(target), "l"(from), "r"(there ? bytes : 0),
            "n"(bytes)
            : "memory");
}

// Of 16 bytes that exist: this needs no register for how many there are.
template <class T> __device__ __forceinline__ void copy(T* to, const T* from)
{
    static_assert(sizeof(T) == 16, "fewer bytes need cp.async.ca");
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(unsigned(__cvta_generic_to_shared(to))), "l"(from)
        : "memory");
}

// What was copied since the last call is a group.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all groups have come but the `later` last ones.
template <int later> __device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
}
