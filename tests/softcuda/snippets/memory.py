"""Loads and stores with hints, atomic operations, address spaces, time; and what is said to the compiler."""

from __future__ import annotations

from tests.softcuda.snippets.snippet import Snippet, always, float_a, of, word_a, word_b

MEMORY: list[Snippet] = []
# Read-only loads take what was there before the kernel: zeros.
MEMORY.append(of("i", "__ldg(scratch + t) + t", lambda t: t))
MEMORY.append(of("i", "__ldg(reinterpret_cast<const int2*>(scratch) + t / 2).y + t", lambda t: t))
for name in ("__ldca", "__ldcg", "__ldcs", "__ldlu", "__ldcv"):
    MEMORY.append(of("i", f"scratch[t] = 5 * t; r = {name}(scratch + t) + 1;", lambda t: 5 * t + 1))
for name in ("__stwb", "__stcg", "__stcs", "__stwt"):
    MEMORY.append(of("f", f"{name}(scratch + t, 2.5f * t); r = scratch[t];", lambda t: 2.5 * t))
    narrow = f"const unsigned wide = 65536 + t; {name}((unsigned short*)(scratch + t), wide); r = *(unsigned short*)(scratch + t);"
    MEMORY.append(of("u", narrow, lambda t: t))
MEMORY += [
    of("f", "float4* p = reinterpret_cast<float4*>(scratch) + t / 4; if (t % 4 == 0) __stcs(p, make_float4(1, 2, 3, 4)); __syncwarp();"
            " const float4 v = __ldcs(p); r = v.x + v.w;", lambda t: 5),
    of("u", "__shared__ unsigned words[32][5]; const unsigned own[5] = {1u, 2u, 3u, 4u, unsigned(t)}; memcpy(words[t], own, sizeof own);"
       " __syncthreads(); r = words[31 - t][4] + words[31 - t][0];", lambda t: 32 - t),
    of("i", "__shared__ char bytes[32][7]; memset(bytes[t], 32 + t, 7); memmove(bytes[t], bytes[t] + 1, 6); __syncthreads(); r = bytes[31 - t][6];",
       lambda t: 63 - t),
]  # fmt: skip
# What is in `a` first, the call, and what it then holds; on one word of shared memory, with all threads.
ATOMICS: list[tuple[str, str, str, str, int]] = [
    ("i", "int", "3", "atomicAdd{}(&a, 2)", 67), ("i", "int", "3", "atomicSub{}(&a, 2)", -61),
    ("u", "unsigned", "3", "atomicAdd{}(&a, 5u)", 163), ("L", "unsigned long long", "3", "atomicAdd{}(&a, 1ull << 33)", 3 + (32 << 33)),
    ("f", "float", "0.5f", "atomicAdd{}(&a, 1.0f)", 0), ("d", "double", "0.5", "atomicAdd{}(&a, 1.0)", 0),
    ("i", "int", "9", "atomicMin{}(&a, 31 - t)", 0), ("i", "int", "9", "atomicMax{}(&a, t)", 31),
    ("u", "unsigned", "9", "atomicMin{}(&a, 31u - t)", 0), ("l", "long long", "-9", "atomicMax{}(&a, (long long)t)", 31),
    ("l", "long long", "9", "atomicMin{}(&a, -(long long)t)", -31), ("L", "unsigned long long", "9", "atomicMax{}(&a, 1ull << t)", 2**31),
    ("u", "unsigned", "3", "atomicInc{}(&a, 9u)", 5), ("u", "unsigned", "3", "atomicDec{}(&a, 9u)", 1),
    ("u", "unsigned", "~0u", "atomicAnd{}(&a, ~(1u << t))", 0), ("u", "unsigned", "0", "atomicOr{}(&a, 1u << t)", 2**32 - 1),
    ("u", "unsigned", "0", "atomicXor{}(&a, 3u << t)", 1), ("L", "unsigned long long", "0", "atomicOr{}(&a, 1ull << 2 * t)", 0x5555555555555555),
    ("i", "int", "3", "atomicExch{}(&a, 8)", 8), ("f", "float", "3", "atomicExch{}(&a, 8.0f)", 8),
    ("L", "unsigned long long", "3", "atomicExch{}(&a, 1ull << 40)", 2**40),
    ("i", "int", "3", "atomicCAS{}(&a, 3, 11)", 11), ("L", "unsigned long long", "3", "atomicCAS{}(&a, 3ull, 1ull << 50)", 2**50),
    ("u", "unsigned short", "3", "atomicCAS{}(&a, (unsigned short)3, (unsigned short)77)", 77),
]  # fmt: skip
for kind, word, first, call, last in ATOMICS:
    for scope in ("", "_block", "_system") if word != "unsigned short" else ("",):
        wanted = 32.5 if kind in "fd" and "Add" in call else last
        code = f"__shared__ {word} a; if (t == 0) a = {first}; __syncthreads(); {call.format(scope)}; __syncthreads(); r = a;"
        MEMORY.append(of(kind, code, always(wanted)))
MEMORY += [
    of("i", "__shared__ int a; if (t == 0) a = 0; __syncthreads(); r = atomicAdd(&a, 1) < 32; __syncthreads(); r += a;", lambda t: 33),
    of("f", "__shared__ float2 a; if (t == 0) a = make_float2(1, 2); __syncthreads(); r = a.x * 0; __syncthreads();"
            " scratch[t] = r; if (t == 0) a.y = 4; __syncthreads(); r += a.y;", lambda t: 4),
    of("u", "__shared__ int a; r = __isShared(&a) + 2 * __isGlobal(&a) + 4 * __isGlobal(scratch) + 8 * __isShared(scratch);", lambda t: 5),
    of("u", "int own[4]; own[t & 3] = t; int* volatile p = own; r = __isLocal(p) + 2 * __isConstant(p) + 4 * __isLocal(scratch);", lambda t: 1),
    of("u", "r = __isConstant(&table[t & 3]) + 2 * __isGlobal(&table[0]);", lambda t: 1, preamble="__constant__ int table[4];"),
    of("i", "__shared__ int a[32]; a[t] = 3 * t; __syncthreads(); const size_t n = __cvta_generic_to_shared(&a[31 - t]);"
            " r = *static_cast<int*>(__cvta_shared_to_generic(n));", lambda t: 3 * (31 - t)),
    of("i", "__shared__ int a[32]; r = int(__cvta_generic_to_shared(&a[t]) - __cvta_generic_to_shared(a));", lambda t: 4 * t),
    of("i", "scratch[t] = t + 2; r = *static_cast<int*>(__cvta_global_to_generic(__cvta_generic_to_global(scratch + t)));", lambda t: t + 2),
    of("i", "const clock_t first = clock(); __nanosleep(100); r = clock() - first >= 0;", lambda t: 1),
    of("i", "const long long first = clock64(); r = clock64() >= first;", lambda t: 1),
    of("i", "__builtin_assume(t >= 0); r = t;", lambda t: t),
    of("i", "r = __builtin_expect(t > 3, 1) ? 8 : 9;", lambda t: 8 if t > 3 else 9),
    of("i", "scratch[t] = t; r = *static_cast<int*>(__builtin_assume_aligned(scratch + t, 4));", lambda t: t),
    of("i", "__prof_trigger(3); r = 4;", lambda t: 4),
    of("i", "if (t > 40) __brkpt(); if (t > 41) __trap(); r = t;", lambda t: t),
    of("i", "if (t > 40) __builtin_unreachable(); r = t;", lambda t: t),
    of("i", "__threadfence(); __threadfence_block(); __threadfence_system(); r = t;", lambda t: t),
    of("i", "r = __syncthreads_count(t % 3 == 0) + __syncthreads_and(t < 40) + __syncthreads_or(t == 5);", lambda t: 13),
    of("i", "__shared__ int a[32]; a[t] = t; __barrier_sync(0); r = a[31 - t]; __barrier_sync_count(0, 32); __threadfence_cluster();",
       lambda t: 31 - t),
    of("f", "r = float_a(t); assert(r < 100);", float_a, preamble="#include <cassert>"),
    of("i", "const longlong4_32a v = make_longlong4_32a(1, 2, 3, t); const double4_16a w{1, 2, 3, 4};"
            " r = alignof(longlong4_32a) + alignof(ulonglong4_16a) + sizeof(long4_16a) + v.w + int(w.z);", lambda t: 83 + t),
    of("u", "uint4 v = make_uint4(word_a(t), word_b(t), 1, 2); const uint2 w = *reinterpret_cast<uint2*>(&v); r = w.x ^ w.y;",
       lambda t: word_a(t) ^ word_b(t)),
]  # fmt: skip
