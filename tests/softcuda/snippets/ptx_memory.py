"""Inline PTX that loads and stores, waits, fences, asks other lanes or copies asynchronously."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

from tests.softcuda.snippets.snippet import Snippet, of

TILE = "__shared__ __align__(16) int tile[128]; const unsigned s = (unsigned)__cvta_generic_to_shared(tile);"
LOADS = ("ld.global.s32", "ld.global.nc.s32", "ld.global.ca.s32", "ld.global.cg.s32", "ld.global.cs.s32", "ld.volatile.global.s32",
         "ld.s32", "ld.global.L1::no_allocate.s32", "ld.global.nc.L1::no_allocate.L2::128B.s32", "ld.relaxed.gpu.global.s32",
         "ld.acquire.gpu.global.s32", "ld.global.lu.s32", "ld.global.cv.b32")  # fmt: skip
STORES = ("st.global.s32", "st.global.cg.s32", "st.global.cs.s32", "st.global.wt.b32", "st.volatile.global.s32", "st.s32",
          "st.relaxed.gpu.global.s32", "st.release.gpu.global.s32", "st.global.L1::no_allocate.s32")  # fmt: skip


def times(factor: int) -> Callable[[int], int]:
    return lambda t: factor * t


PTX_MEMORY: list[Snippet] = []
for name in LOADS:
    # Read-only loads take what was there before the kernel: zeros.
    was, wanted = ("", 0) if ".nc" in name else ("scratch[t] = 3 * t;", 3)
    PTX_MEMORY.append(of("i", f'{was} asm volatile("{name} %0, [%1];" : "=r"(r) : "l"(scratch + t) : "memory");',
                         times(wanted)))  # fmt: skip
for name in STORES:
    PTX_MEMORY.append(
        of(
            "i",
            f'asm volatile("{name} [%0], %1;" ::"l"(scratch + t), "r"(5 * t) : "memory"); r = scratch[t];',
            lambda t: 5 * t,
        )
    )
PTX_MEMORY += [
    of("i", 'if (t % 2 == 0) asm volatile("st.global.v2.s32 [%0], {%1, %2};" ::"l"(scratch + t) "r"(t / 2) "r"(7) : "memory"); __syncwarp();'
            " r = scratch[t];", lambda t: 7 if t % 2 else t // 2),
    of("i", 'int2 v = make_int2(t, 1); scratch[t] = t; __syncwarp(); asm volatile("ld.global.v2.s32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y)'
            ' : "l"(scratch + t / 2 * 2) : "memory"); r = v.x + 100 * v.y;', lambda t: t // 2 * 2 + 100 * (t // 2 * 2 + 1)),
    of("f", 'float4 v; asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(scratch));'
            " r = v.x + v.w + t;", lambda t: t),
    of("f", 'if (t % 4 == 0) asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %1, %2};" ::"l"(scratch + t), "f"(1.0f), "f"(2.0f) : "memory");'
            " __syncwarp(); r = scratch[t];", lambda t: 1 + t % 2),
    of("i", f'{TILE} asm volatile("st.shared.u32 [%0], %1;" ::"r"(s + 4 * t), "r"(7 * t) : "memory"); __syncthreads();'
            " r = tile[31 - t];", lambda t: 7 * (31 - t)),
    of("i", f'{TILE} tile[t] = 2 * t; tile[t + 32] = 9; __syncthreads(); asm volatile("ld.shared.b32 %0, [%1+-4];" : "=r"(r)'
            ' : "r"(s + 4 * (t + 1)) : "memory");', lambda t: 2 * t),
    of("i", f'{TILE} tile[t] = t; __syncthreads(); int a, b, c, d; asm volatile("ld.shared.v4.b32 {{%0, %1, %2, %3}}, [%4 + 16];" : "=r"(a), "=r"(b),'
            ' "=r"(c), "=r"(d) : "r"(s) : "memory"); r = a + b + c + d;', lambda t: 4 + 5 + 6 + 7),
    of("u", 'scratch[t] = 0x8090a0b0; asm volatile("ld.global.u8 %0, [%1+1];" : "=r"(r) : "l"(scratch + t) : "memory");', lambda t: 0xA0),
    of("i", 'scratch[t] = 0x8090a0b0; asm volatile("ld.global.s16 %0, [%1+2];" : "=r"(r) : "l"(scratch + t) : "memory");', lambda t: 0x8090 - 2**16),
    of("u", 'scratch[t] = 0; asm volatile("st.global.u8 [%0+2], %1;" ::"l"(scratch + t), "r"(0x123) : "memory"); r = scratch[t];', lambda t: 0x230000),
    of("L", f'{TILE} asm("{{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u64.u64 %0, a; }}" : "=l"(r) : "l"(tile + t));'
            " r -= s;", lambda t: 4 * t),
    of("i", f'{TILE} asm("{{ .reg .pred p; isspacep.shared p, %1; selp.s32 %0, 1, 0, p; }}" : "=r"(r) : "l"(tile));', lambda t: 1),
    of("i", 'asm volatile("prefetch.global.L1 [%0];" ::"l"(scratch)); asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(scratch)); r = 1;', lambda t: 1),
    of("i", "scratch[t] = 1; __syncthreads(); unsigned long long p;"
            ' asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p));'
            ' asm volatile("ld.global.L2::cache_hint.s32 %0, [%1], %2;" : "=r"(r) : "l"(scratch + t), "l"(p) : "memory");', lambda t: 1),
    of("i", f'{TILE} if (t == 0) tile[0] = 0; asm volatile("bar.sync 0;" ::: "memory"); atomicAdd(tile, 1);'
            ' asm volatile("barrier.sync.aligned 0;" ::: "memory"); r = tile[0];', lambda t: 32),
    of("i", 'asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(t - 16));', lambda t: -16),
    of("u", 'asm volatile("redux.sync.xor.b32 %0, %1, %2;" : "=r"(r) : "r"(t * t), "r"(t < 16 ? 0xffffu : 0xffff0000u));',
       lambda t: functools.reduce(operator.xor, (k * k for k in range(t // 16 * 16, t // 16 * 16 + 16)))),
    of("i", 'scratch[t] = t; __syncthreads(); asm volatile("st.global.release.gpu.b32 [%0], %1;" :: "l"(scratch + t),'
            ' "r"(t + 1) : "memory"); asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(r) : "l"(scratch + t));',
       lambda t: t + 1),
    of("i", f'{TILE} tile[t] = t; asm volatile("bar.sync 0, 32;" ::: "memory"); r = tile[t ^ 5];', lambda t: t ^ 5),
    of("i", 'asm volatile("{ .reg .pred p; setp.lt.s32 p, %1, 7; bar.red.popc.u32 %0, 0, p; }" : "=r"(r) : "r"(t));', lambda t: 7),
    of("i", f'{TILE} tile[t] = t; asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); r = tile[t ^ 1];', lambda t: t ^ 1),
    of("i", 'asm volatile("membar.gl;" ::: "memory"); asm volatile("fence.acq_rel.gpu;"); asm volatile("fence.sc.cta;");'
            ' asm volatile("membar.cta; membar.sys;"); asm volatile("fence.proxy.async;"); r = t;', lambda t: t),
    of("i", f'{TILE} if (t == 0) tile[0] = 5; __syncthreads(); unsigned was; asm volatile("atom.shared.add.u32 %0, [%1], 1;" : "=r"(was)'
            ' : "r"(s) : "memory"); __syncthreads(); r = tile[0] + (was > 40);', lambda t: 37),
    of("i", 'scratch[t] = 4; asm volatile("red.global.add.s32 [%0], %1;" ::"l"(scratch + t), "r"(t) : "memory"); r = atomicAdd(scratch + t, 0);', lambda t: 4 + t),
    of("i", 'scratch[t] = 4; asm volatile("red.release.gpu.global.max.s32 [%0], %1;" ::"l"(scratch + t), "r"(t) : "memory"); r = atomicAdd(scratch + t, 0);', lambda t: max(4, t)),
    of("f", 'scratch[t] = 4; asm volatile("red.global.add.f32 [%0], %1;" ::"l"(scratch + t), "f"(0.5f) : "memory"); r = atomicAdd(scratch + t, 0.0f);', lambda t: 4.5),
    of("i", 'scratch[t] = 4; asm volatile("atom.global.cas.b32 %0, [%1], 4, %2;" : "=r"(r) : "l"(scratch + t), "r"(t) : "memory"); r += atomicAdd(scratch + t, 0);', lambda t: 4 + t),
    of("i", 'scratch[t] = 4; asm volatile("atom.acq_rel.gpu.global.exch.b32 %0, [%1], 9;" : "=r"(r) : "l"(scratch + t) : "memory"); r += atomicAdd(scratch + t, 0);', lambda t: 13),
    of("L", 'scratch[t] = 4; asm volatile("atom.global.add.u64 %0, [%1], %2;" : "=l"(r) : "l"(scratch + t), "l"(1ull << 40) : "memory"); r += atomicAdd(scratch + t, 0ull);', lambda t: 8 + 2**40),
    of("u", 'asm volatile("activemask.b32 %0;" : "=r"(r));', lambda t: 2**32 - 1),
    of("u", 'asm volatile("{ .reg .pred p; setp.lt.s32 p, %1, 7; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(r) : "r"(t));', lambda t: 127),
    of("i", 'asm volatile("{ .reg .pred p; setp.lt.s32 p, %1, 7; vote.sync.any.pred p, p, 0xffffffff; selp.s32 %0, 3, 4, p; }" : "=r"(r) : "r"(t));', lambda t: 3),
    of("i", 'asm volatile("shfl.sync.bfly.b32 %0, %1, 3, 0x1f, 0xffffffff;" : "=r"(r) : "r"(10 * t));', lambda t: 10 * (t ^ 3)),
    of("i", 'asm volatile("shfl.sync.idx.b32 %0, %1, 5, 0x1f, 0xffffffff;" : "=r"(r) : "r"(10 * t));', lambda t: 50),
    of("i", 'asm volatile("{ .reg .pred p; .reg .b32 x; shfl.sync.up.b32 x|p, %1, 2, 0, 0xffffffff; selp.b32 %0, x, -1, p; }" : "=r"(r) : "r"(10 * t));', lambda t: 10 * (t - 2) if t >= 2 else -1),
    of("i", 'asm volatile("{ .reg .pred p; .reg .b32 x; shfl.sync.down.b32 x|p, %1, 3, 0x181f, 0xffffffff; selp.b32 %0, x, -1, p; }" : "=r"(r) : "r"(10 * t));', lambda t: 10 * (t + 3) if t % 8 < 5 else -1),
    of("i", 'asm volatile("nanosleep.u32 20;"); if (t > 50) asm volatile("trap;"); if (t > 51) asm volatile("brkpt;"); r = t;', lambda t: t),
    of("i", f'{TILE} scratch[t] = t; __syncthreads(); asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(s + 4 * t), "l"(scratch + t));'
            ' asm volatile("cp.async.commit_group;"); asm volatile("cp.async.wait_group 0;" ::: "memory"); __syncthreads(); r = tile[31 - t];', lambda t: 31 - t),
    of("i", f'{TILE} scratch[t] = t; __syncthreads(); if (t < 8) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(s + 16 * t), "l"(scratch + 4 * t), "r"(8));'
            ' asm volatile("cp.async.wait_all;" ::: "memory"); __syncthreads(); r = tile[t];', lambda t: t if t % 4 < 2 else 0),
    of("i", f'{TILE} scratch[t] = t; __syncthreads(); asm volatile("{{ .reg .pred p; setp.ne.b32 p, %2, 0;'
            ' @p cp.async.ca.shared::cta.global.L2::64B [%0], [%1], 4; @!p st.shared.u32 [%0], %2; }" ::"r"(s + 4 * t), "l"(scratch + t), "r"(t % 2));'
            ' asm volatile("cp.async.wait_all;" ::: "memory"); __syncthreads(); r = tile[t];', lambda t: t if t % 2 else 0),
]  # fmt: skip
