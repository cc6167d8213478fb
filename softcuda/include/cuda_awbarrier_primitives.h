// mbarriers as functions of C.
#pragma once

#include "softcuda/intrinsics/mbarriers.h"

typedef uint64_t __mbarrier_t, __mbarrier_token_t;

static __forceinline__ unsigned __mbarrier_maximum_count() { return (1u << 20) - 1; }
static __forceinline__ void __mbarrier_init(__mbarrier_t* barrier, unsigned count) { softcuda_mbarrier_init(barrier, count); }
static __forceinline__ void __mbarrier_inval(__mbarrier_t* barrier) { softcuda_mbarrier_invalidate(barrier); }
static __forceinline__ __mbarrier_token_t __mbarrier_arrive(__mbarrier_t* barrier) { return softcuda_mbarrier_arrive(barrier, 1, 0, 0); }
static __forceinline__ __mbarrier_token_t __mbarrier_arrive_and_drop(__mbarrier_t* barrier) { return softcuda_mbarrier_arrive(barrier, 1, 1, 0); }
static __forceinline__ unsigned __mbarrier_token_pending_count(__mbarrier_token_t token) { return softcuda_mbarrier_pending(token); }
static __forceinline__ bool __mbarrier_test_wait(__mbarrier_t* barrier, __mbarrier_token_t token)
{
    return softcuda_ptx::mbarrier_state(barrier, token);
}
static __forceinline__ bool __mbarrier_test_wait_parity(__mbarrier_t* barrier, bool parity)
{
    return softcuda_ptx::mbarrier_parity(barrier, parity);
}
static __forceinline__ bool __mbarrier_try_wait(__mbarrier_t* barrier, __mbarrier_token_t token, unsigned)
{
    return softcuda_ptx::mbarrier_state(barrier, token);
}
static __forceinline__ bool __mbarrier_try_wait_parity(__mbarrier_t* barrier, bool parity, unsigned)
{
    return softcuda_ptx::mbarrier_parity(barrier, parity);
}
