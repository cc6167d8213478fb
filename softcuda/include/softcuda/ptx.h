// What ptx_table.py makes of PTX instructions: `ptx.py` turns
//     asm("add.rz.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
// into C++ with calls of these, by a line of the table.
#pragma once

#include "intrinsics/bits.h"
#include "intrinsics/mbarriers.h"
#include "ptx_values.h"
#include "ptx_memory.h"

namespace softcuda_ptx {

// Calls that are left in the program are compile errors: ptxas refuses these sizes.
__attribute__((error("cp.async.ca copies 4, 8 or 16 bytes, and no other number"))) void no_such_ca();
__attribute__((error("cp.async.cg copies 16 bytes, and no other number; cp.async.ca copies 4, 8 or 16"))) void no_such_cg();

// How many bytes there are to copy: so many, or none where a predicate says to ignore them.
template <class Bytes> __forceinline__ size_t there(size_t, Bytes bytes) { return size_t(bytes); }
static __forceinline__ size_t there(size_t size, bool ignore) { return ignore ? 0 : size; }

// Of `size` bytes, of which those after the first `bytes` are zeros.
template <class Bytes> __forceinline__ void cp_async_ca_shared_global(unsigned to, const void* from, size_t size, Bytes bytes)
{
    if (size != 4 && size != 8 && size != 16)
        no_such_ca();
    softcuda_copy_async(at(to), from, size, size - there(size, bytes));
}
template <class Bytes> __forceinline__ void cp_async_cg_shared_global(unsigned to, const void* from, size_t size, Bytes bytes)
{
    if (size != 16)
        no_such_cg();
    softcuda_copy_async(at(to), from, size, size - there(size, bytes));
}
static __forceinline__ void cp_async_ca_shared_global(unsigned to, const void* from, size_t size)
{
    cp_async_ca_shared_global(to, from, size, size);
}
static __forceinline__ void cp_async_cg_shared_global(unsigned to, const void* from, size_t size)
{
    cp_async_cg_shared_global(to, from, size, size);
}
static __forceinline__ void cp_async_commit_group() { softcuda_commit_copies(); }
static __forceinline__ void cp_async_wait_group(size_t later) { softcuda_wait_copies(later); }
static __forceinline__ void cp_async_wait_all() { softcuda_commit_copies(), softcuda_wait_copies(0); }
} // namespace softcuda_ptx
