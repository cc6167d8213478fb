// The scopes of <cuda/atomic>, <cuda/barrier> and <cuda/pipeline>, and how many bytes cuda::memcpy_async copies.
#pragma once

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

template <size_t alignment> struct aligned_size_t {
    static constexpr size_t align = alignment;
    size_t value;
    __forceinline__ explicit constexpr aligned_size_t(size_t bytes) : value(bytes) { }
    __forceinline__ constexpr operator size_t() const { return value; }
};

} // namespace cuda
