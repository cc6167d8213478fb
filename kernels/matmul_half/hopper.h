// What sm_90a has for matrix products: copies of tiles by the tensor memory accelerator (TMA), barriers in shared
// memory that count bytes, and products of a warp group (wgmma). By PTX, because CUDA C++ has no functions for most.
#pragma once

#include "halves.h"
#include "tile_order.h"

struct alignas(64) TensorMap { // what cuTensorMapEncodeTiled makes
    unsigned long long words[16];
};

__device__ __forceinline__ unsigned shared_address(const void* pointer) { return __cvta_generic_to_shared(pointer); }

// One lane of a full warp.
__device__ __forceinline__ bool elected()
{
    unsigned chosen;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
    return chosen;
}

__device__ __forceinline__ unsigned rank_in_cluster()
{
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ void synchronise_cluster()
{
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ void synchronise(int barrier, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void init(unsigned barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void expect(unsigned barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// At the barrier at the same place in the shared memory of another block of the cluster.
__device__ __forceinline__ void arrive(unsigned barrier, unsigned rank)
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(barrier),
        "r"(rank)
        : "memory");
}

__device__ __forceinline__ void wait(unsigned barrier, int parity)
{
    asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;"
                 " @!done bra again; }" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// The box of a matrix at (column, row), to shared memory; of elements beyond the matrix zeros.
__device__ __forceinline__ void load_box(unsigned to, const TensorMap& map, int column, int row, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"(&map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}

// The same to all blocks of the cluster that have a bit in `mask`, each at the same place, as is its barrier.
__device__ __forceinline__ void load_box(
    unsigned to, const TensorMap& map, int column, int row, unsigned barrier, unsigned short mask)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(&map), "r"(column), "r"(row), "r"(barrier), "h"(mask)
        : "memory");
}

// A box of shared memory to a matrix, without the elements that are beyond it. The store is a group of its own.
__device__ __forceinline__ void store_box(const TensorMap& map, int column, int row, unsigned from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 " cp.async.bulk.commit_group;" ::"l"(&map),
        "r"(column), "r"(row), "r"(from)
        : "memory");
}

// Until all stores but the `later` last ones have read shared memory.
template <int later> __device__ __forceinline__ void wait_for_stores()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(later) : "memory");
}

// What this thread wrote (shared) or what it knows of (global) is there for the accelerator too.
__device__ __forceinline__ void publish_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void publish_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// A matrix in shared memory with the swizzle of 128 bytes, for wgmma. `leading`: bytes between pieces of 64 elements
// along the rows of a matrix whose rows are summed over; `stride`: bytes between groups of 8 rows.
__device__ __forceinline__ unsigned long long descriptor(unsigned address, int leading, int stride)
{
    return (address & 0x3ffff) >> 4 | (unsigned long long)(leading >> 4) << 16
        | (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int later> __device__ __forceinline__ void wait_for_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(later) : "memory");
}

#define SUMS(i) "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])
#define SUMS_4(i) SUMS(i), SUMS(i + 1), SUMS(i + 2), SUMS(i + 3)

// Adds the product of 64 x 16 elements of A and 16 x 256 elements of B, whose rows are the depth; `old`: 0 to begin.
__device__ __forceinline__ void multiply(float (&sums)[32][4], unsigned long long a, unsigned long long b, int old)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE " {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, p, 1, 1, 0, 1; }"
                 : SUMS_4(0), SUMS_4(4), SUMS_4(8), SUMS_4(12), SUMS_4(16), SUMS_4(20), SUMS_4(24), SUMS_4(28)
                 : "l"(a), "l"(b), "r"(old));
}
