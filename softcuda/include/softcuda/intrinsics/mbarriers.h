// Barriers in shared memory (mbarrier), of mbarriers.cpp: what PTX, cuda/barrier and cuda/pipeline are made of.
#pragma once

extern "C" {
void softcuda_mbarrier_init(void* barrier, unsigned count);
void softcuda_mbarrier_invalidate(void* barrier);
uint64_t softcuda_mbarrier_arrive(void* barrier, unsigned count, int drops, long bytes);
void softcuda_mbarrier_expect(void* barrier, long bytes);
unsigned softcuda_mbarrier_pending(uint64_t state);
unsigned softcuda_mbarrier_phase(uint64_t state);
int softcuda_mbarrier_wait(void* barrier, unsigned parity, int polls);
void softcuda_mbarrier_track_copies(void* barrier, int counted);
void softcuda_numbered_barrier(unsigned number, unsigned threads, int waits);
}

namespace softcuda_ptx {

static __forceinline__ void mbarrier_init(void* barrier, unsigned count) { softcuda_mbarrier_init(barrier, count); }
static __forceinline__ void mbarrier_inval(void* barrier) { softcuda_mbarrier_invalidate(barrier); }
static __forceinline__ uint64_t mbarrier_arrive(void* barrier, unsigned count = 1) { return softcuda_mbarrier_arrive(barrier, count, 0, 0); }
static __forceinline__ uint64_t mbarrier_arrive_drop(void* barrier, unsigned count = 1)
{
    return softcuda_mbarrier_arrive(barrier, count, 1, 0);
}
static __forceinline__ uint64_t mbarrier_arrive_expect_tx(void* barrier, unsigned bytes)
{
    return softcuda_mbarrier_arrive(barrier, 1, 0, bytes);
}
static __forceinline__ uint64_t mbarrier_arrive_drop_expect_tx(void* barrier, unsigned bytes)
{
    return softcuda_mbarrier_arrive(barrier, 1, 1, bytes);
}
static __forceinline__ void mbarrier_expect_tx(void* barrier, unsigned bytes) { softcuda_mbarrier_expect(barrier, bytes); }
static __forceinline__ void mbarrier_complete_tx(void* barrier, unsigned bytes) { softcuda_mbarrier_expect(barrier, -long(bytes)); }
static __forceinline__ unsigned mbarrier_pending_count(uint64_t state) { return softcuda_mbarrier_pending(state); }
// A hint how long to wait makes no difference.
static __forceinline__ bool mbarrier_parity(void* barrier, unsigned parity, unsigned = 0) { return softcuda_mbarrier_wait(barrier, parity, 1); }
static __forceinline__ bool mbarrier_state(void* barrier, uint64_t state, unsigned = 0)
{
    return softcuda_mbarrier_wait(barrier, softcuda_mbarrier_phase(state), 1);
}
static __forceinline__ void mbarrier_track(void* barrier) { softcuda_mbarrier_track_copies(barrier, 0); }
static __forceinline__ void mbarrier_track_noinc(void* barrier) { softcuda_mbarrier_track_copies(barrier, 1); }

} // namespace softcuda_ptx
