// What barriers and pipelines of shared memory order: each kernel is right, and with BROKEN (a number) it is not.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;
using barrier = cuda::barrier<cuda::thread_scope_block>;
#ifndef BROKEN
#define BROKEN 0
#endif

// 1: nobody waits. 2: a round is not waited for. 3: one thread does not come. 4: not initialised. 5: nobody waits for
// the initialisation. 6: an arrival too many.
extern "C" __global__ void sum_of_a_tree(int* out)
{
    __shared__ int sums[64];
    __shared__ barrier all;
    const int own = threadIdx.x;
    if (own == 0 && BROKEN != 4)
        init(&all, BROKEN == 6 ? 63 : 64);
    if (BROKEN != 5)
        __syncthreads();
    sums[own] = own;
    for (int apart = 32; apart; apart /= 2) {
        if (BROKEN == 1)
            (void)all.arrive();
        else if ((BROKEN != 3 || own != 40) && (BROKEN != 2 || apart != 4))
            all.arrive_and_wait();
        if (own < apart)
            sums[own] += sums[own + apart];
    }
    auto last = all.arrive();
    all.wait(std::move(last));
    out[own] = sums[0];
}

// Threads that leave, and are no longer expected. 1: they leave without a word.
extern "C" __global__ void fewer_and_fewer(int* out)
{
    __shared__ int place;
    __shared__ barrier all;
    const int own = threadIdx.x;
    if (own == 0)
        init(&all, 64);
    if (own == 0)
        place = 0;
    __syncthreads();
    for (int round = 0; round < own % 8; ++round) {
        if (own == 7 + 8 * round)
            place += own;
        all.arrive_and_wait();
    }
    if (BROKEN != 1)
        all.arrive_and_drop();
    if (own == 63)
        out[0] = place;
}

// One warp fills two stages, the other empties them. 1: the filling warp does not wait until a stage is empty. 2: the
// other does not wait until it is full. 3: it says too early that it is empty. 4: half of the filling warp does not
// say that it has filled. 5: the stage before is waited for.
extern "C" __global__ void producers_and_consumers(int* out)
{
    __shared__ int stages[2][32];
    __shared__ barrier full[2], empty[2];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i) {
            init(&full[i], 32 + 0);
            init(&empty[i], 32);
        }
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int i = 0; i < 6; ++i) {
            if (i >= 2 && BROKEN != 1)
                empty[i % 2].wait_parity(i / 2 + 1 & 1);
            stages[i % 2][lane] = out[32 * i + lane];
            if (BROKEN != 4 || lane < 16)
                (void)full[i % 2].arrive();
        }
    } else {
        int sum = 0;
        for (int i = 0; i < 6; ++i) {
            if (BROKEN == 5)
                full[i % 2].wait_parity(i / 2 + 1 & 1);
            else if (BROKEN != 2)
                full[i % 2].wait_parity(i / 2 & 1);
            if (BROKEN == 3)
                (void)empty[i % 2].arrive();
            sum += stages[i % 2][31 - lane];
            if (BROKEN != 3)
                (void)empty[i % 2].arrive();
        }
        out[192 + lane] = sum;
    }
}

// One lane speaks for its warp, of four. 1: without waiting for the others of its warp.
extern "C" __global__ void spokesmen(int* out)
{
    __shared__ int values[128];
    __shared__ barrier all;
    const int own = threadIdx.x;
    if (own == 0)
        init(&all, 4);
    __syncthreads();
    for (int round = 0; round < 4; ++round) {
        values[own] = own + round;
        if (BROKEN != 1)
            __syncwarp();
        if (own % 32 == 0)
            (void)all.arrive();
        all.wait_parity(round & 1);
        const int other = values[own ^ 37];
        __syncwarp();
        out[own] += other;
        __syncthreads();
    }
}

// Copies that a barrier waits for. 1: nobody waits. 2: it does not know of them. 3: the source is changed too early.
// 4: who copies reads before the wait.
extern "C" __global__ void copied(int* out)
{
    __shared__ __align__(16) int values[64];
    __shared__ barrier all;
    const auto block = cg::this_thread_block();
    const int own = threadIdx.x;
    if (own == 0)
        init(&all, 64);
    block.sync();
    if (BROKEN == 2)
        __pipeline_memcpy_async(values + own, out + own, 4);
    else
        cuda::memcpy_async(block, values, out, cuda::aligned_size_t<16>(256), all);
    auto token = all.arrive();
    if (BROKEN == 3 && own == 17)
        out[40] = 3;
    if (BROKEN == 4 && own < 16)
        out[64 + own] = values[4 * own];
    if (BROKEN != 1)
        all.wait(std::move(token));
    out[64 + own] = values[63 - own];
}

// A pipeline of each thread's own. 1: waits one stage too late. 2: does not wait.
extern "C" __global__ void staged_alone(int* out)
{
    __shared__ int stages[2][64];
    const int own = threadIdx.x;
    auto pipe = cuda::make_pipeline();
    int sum = 0;
    for (int i = 0, next = 0; i < 4; ++i) {
        for (; next < 4 && next < i + 2; ++next) {
            pipe.producer_acquire();
            cuda::memcpy_async(&stages[next % 2][own], &out[64 * next + own], sizeof(int), pipe);
            pipe.producer_commit();
        }
        if (BROKEN == 1)
            cuda::pipeline_consumer_wait_prior<2>(pipe);
        else if (BROKEN != 2)
            pipe.consumer_wait();
        sum += stages[i % 2][own];
        if (i % 2) // which a pipeline of one thread does not need
            pipe.consumer_release();
    }
    out[256 + own] = sum;
}

// A pipeline of the block. 1: does not wait for a stage. 2: gives it back too early. 3: some threads do not commit.
// 4: never gives back. 5: fills without asking whether it may.
extern "C" __global__ void staged_together(int* out)
{
    __shared__ int stages[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    const auto block = cg::this_thread_block();
    const int own = threadIdx.x;
    auto pipe = cuda::make_pipeline(block, &state);
    int sum = 0;
    for (int i = 0, next = 0; i < 4; ++i) {
        for (; next < 4 && next < i + 2; ++next) {
            if (BROKEN != 5)
                pipe.producer_acquire();
            cuda::memcpy_async(block, stages[next % 2], out + 64 * next, sizeof(int) * 64, pipe);
            if (BROKEN != 3 || own < 60)
                pipe.producer_commit();
        }
        if (BROKEN != 1)
            pipe.consumer_wait();
        if (BROKEN == 2)
            pipe.consumer_release();
        sum += stages[i % 2][63 - own];
        if (BROKEN != 2 && BROKEN != 4)
            pipe.consumer_release();
    }
    out[256 + own] = sum;
}

// A warp that fills and one that empties. 1: does not wait for a stage. 2: gives it back too early.
extern "C" __global__ void staged_by_roles(int* out)
{
    __shared__ int stages[3][32];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 3> state;
    const auto block = cg::this_thread_block();
    const int lane = threadIdx.x % 32;
    const bool fills = threadIdx.x >= 32;
    auto pipe = cuda::make_pipeline(block, &state, fills ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    int sum = 0;
    for (int i = 0; i < 6; ++i) {
        if (fills) {
            pipe.producer_acquire();
            cuda::memcpy_async(&stages[i % 3][lane], out + 32 * i + lane, sizeof(int), pipe);
            pipe.producer_commit();
        } else {
            if (BROKEN != 1)
                pipe.consumer_wait();
            if (BROKEN == 2)
                pipe.consumer_release();
            sum += stages[i % 3][31 - lane];
            if (BROKEN != 2)
                pipe.consumer_release();
        }
    }
    if (!fills)
        out[192 + lane] = sum;
}

// Of a cooperative launch: the barrier outlives that of the grid. 1: a round is not waited for.
extern "C" __global__ void over_the_grid(int* out)
{
    __shared__ int values[64];
    __shared__ barrier all;
    const int own = threadIdx.x;
    if (own == 0)
        init(&all, 64);
    __syncthreads();
    values[own] = own;
    all.arrive_and_wait();
    int sum = values[63 - own];
    cg::this_grid().sync();
    values[own] = 2 * own;
    if (BROKEN != 1)
        all.arrive_and_wait();
    sum += values[own ^ 37];
    cg::this_grid().sync();
    out[64 * blockIdx.x + own] += sum;
}

// The same in PTX. 1: waits for the wrong phase. 2: the copies are not waited for. 3: expects bytes that never come.
extern "C" __global__ void in_ptx(int* out)
{
    __shared__ int values[64];
    __shared__ uint64_t all;
    const unsigned bar = (unsigned)__cvta_generic_to_shared(&all), to = (unsigned)__cvta_generic_to_shared(values + threadIdx.x);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(64));
    __syncthreads();
    for (int round = 0; round < 2; ++round) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(out + 64 * round + threadIdx.x) : "memory");
        if (BROKEN == 2)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
        else
            asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
        if (BROKEN == 3 && threadIdx.x == 5)
            asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 16;" ::"r"(bar) : "memory");
        asm volatile(
            "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra done; bra again; done: }" ::"r"(bar),
            "r"(BROKEN == 1 ? !round : round)
            : "memory");
        out[128 + 64 * round + threadIdx.x] = values[63 - threadIdx.x];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(bar));
}

// Numbered barriers: warp 0 fills two halves in turn, warps 1 and 2 read them. 1: nobody waits until a half is empty.
// 2: the fullness of a half is not announced but waited for. 3: warp 2 reads without waiting. 4: counts that differ.
extern "C" __global__ void by_number(int* out)
{
    __shared__ int halves[2][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int sum = 0;
    for (int i = 0; i < 4; ++i) {
        const int full = 1 + i % 2, empty = 3 + i % 2;
        if (warp == 0) {
            if (i >= 2 && BROKEN != 1)
                asm volatile("barrier.sync %0, %1;" ::"r"(empty), "r"(BROKEN == 4 ? 64 : 96) : "memory");
            halves[i % 2][lane] = out[32 * i + lane];
            if (BROKEN != 2)
                asm volatile("barrier.cta.arrive %0, 96;" ::"r"(full) : "memory");
        } else {
            if (BROKEN != 3 || warp != 2)
                asm volatile("bar.sync %0, 96;" ::"r"(full) : "memory");
            sum += halves[i % 2][31 - lane];
            if (i < 2)
                asm volatile("bar.arrive %0, 96;" ::"r"(empty) : "memory");
        }
    }
    __barrier_sync(5);
    if (warp)
        out[128 + 32 * (warp - 1) + lane] = sum;
}
