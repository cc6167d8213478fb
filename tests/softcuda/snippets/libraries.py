"""Headers of cuda/std, cuda/atomic and cuda/barrier, a construct each."""

from __future__ import annotations

import math
from collections.abc import Callable

from tests.softcuda.snippets.snippet import Snippet, always, of


def std(kind: str, headers: str, code: str, wanted: Callable[[int], float]) -> Snippet:
    """A snippet that includes headers of cuda/std, with their names behind cs."""
    lines = "".join(f"#include <cuda/std/{header}>\n" for header in headers.split())
    return of(kind, code, wanted, preamble=f"{lines}namespace cs = cuda::std;")


def atomic(kind: str, code: str, wanted: Callable[[int], float]) -> Snippet:
    """Statements with ``a``, an atomic number in shared memory, and ``ref``, one of scratch[0]."""
    word = {"i": "int", "u": "unsigned", "f": "float", "L": "unsigned long long"}[kind]
    begin = f"__shared__ cuda::atomic<{word}, cuda::thread_scope_block> a; if (t == 0) a = 0;"
    begin += f" cuda::atomic_ref<{word}, cuda::thread_scope_device> ref(scratch[0]); __syncthreads(); "
    return of(kind, begin + code, wanted, preamble="#include <cuda/atomic>")


def e2m1(value: float) -> int:
    """The E2M1 number that is nearest, of two the even one."""
    sizes = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    return min(range(8), key=lambda code: (abs(sizes[code] - abs(value)), code % 2)) | 8 * (value < 0)


FP4 = "#include <cuda_fp4.h>"
NARROWEST = [
    of("i", "__nv_cvt_float_to_fp4(t * 0.25f - 3.0f, __NV_E2M1, cudaRoundNearest)", lambda t: e2m1(t * 0.25 - 3), preamble=FP4),
    of("i", "__nv_fp4x2_e2m1(float2{t * 0.25f, -9.0f}).__x", lambda t: e2m1(t * 0.25) | 0xF0, preamble=FP4),
    of("f", "const float4 x(__nv_fp4x4_e2m1(float4{1, 2, -3, t * 0.5f})); r = x.x + 10 * x.y + 100 * x.z + 1000 * x.w;",
        lambda t: -279 + 1000 * [0, 0.5, 1, 1.5, 2, 3, 4, 6][e2m1(t / 2)], preamble=FP4),
    of("f", "__half(__nv_cvt_fp4_to_halfraw(t % 16, __NV_E2M1))", lambda t: [0.0, 0.5, 1, 1.5, 2, 3, 4, 6][t % 8] * (1 - t % 16 // 8 * 2), preamble=FP4),
    of("f", "float(__nv_bfloat16(__nv_cvt_e8m0_to_bf16raw(t ? 100 + t : 0)))", lambda t: 2.0 ** (t - 27 if t else -127), preamble=FP4),
    of("i", "__nv_cvt_float_to_e8m0(t * -0.75f, __NV_SATFINITE, cudaRoundPosInf)",
        lambda t: 127 + math.ceil(math.log2(t * 0.75)) if t else 0, preamble=FP4),
    of("i", "__nv_cvt_float_to_e8m0(1.0f / t, t % 2 ? __NV_SATFINITE : __NV_NOSAT, cudaRoundZero)",
        lambda t: 127 + math.floor(math.log2(1 / t)) if t else 255, preamble=FP4),
]  # fmt: skip
THRUST = "#include <thrust/functional.h>\n#include <thrust/pair.h>\n#include <thrust/tuple.h>\n"
OF_THRUST = [
    of("i", "int x, y; thrust::tie(x, y) = thrust::pair<int, int>(t, 3); thrust::swap(x, y); r = x + 10 * y;", lambda t: 3 + 10 * t, preamble=THRUST),
    of("i", "const auto x = thrust::make_tuple(t, 2.5f); r = thrust::get<0>(x) + int(2 * thrust::get<1>(x)) + thrust::make_pair(1, 2).second;",
        lambda t: t + 7, preamble=THRUST),
    of("i", "thrust::maximum<int>()(t, 9) + thrust::minimum<>()(t, 4) + thrust::multiplies<int>()(t, 2) - thrust::identity<int>()(t)",
        lambda t: max(t, 9) + min(t, 4) + t, preamble=THRUST),
]  # fmt: skip
LIBRARIES: list[Snippet] = [
    *NARROWEST, *OF_THRUST,
    std("i", "type_traits", "cs::is_same<cs::decay_t<const int&>, int>::value + 2 * cs::is_integral_v<float>", always(1)),
    std("i", "type_traits", "cs::conditional_t<(sizeof(int) > 2), int, char> x = 300 + t; r = x;", lambda t: 300 + t),
    std("i", "limits", "cs::numeric_limits<int>::max() - t", lambda t: 2**31 - 1 - t),
    std("f", "limits", "-cs::numeric_limits<float>::infinity()", always(-float("inf"))),
    std("i", "array", "cs::array<int, 4> x{1, 2, 3, 4}; r = x[t % 4] + x.size() + x.back();", lambda t: t % 4 + 9),
    std("i", "tuple", "const auto x = cs::make_tuple(t, 2.5f, 'a'); r = cs::get<0>(x) + int(2 * cs::get<1>(x)) + cs::tuple_size<cs::tuple<int>>::value;",
        lambda t: t + 6),
    std("i", "utility", "int x = t, y = 5; cs::swap(x, y); r = x + 10 * y + cs::pair<int, int>(1, 2).second;", lambda t: 7 + 10 * t),
    std("i", "utility", "int x = t; r = cs::exchange(x, 3) + x; r += cs::move(x) + cs::integer_sequence<int, 1, 2>::size();", lambda t: t + 8),
    std("i", "optional", "cs::optional<int> x; r = x.value_or(7) + !x; x = t; r += *x + x.has_value();", lambda t: t + 9),
    std("f", "complex", "cs::complex<float> x(t, 1); x *= cs::complex<float>(0, 1); r = x.real() + 10 * x.imag();", lambda t: 10 * t - 1),
    std("d", "complex", "cs::norm(cs::complex<double>(3, t)) + cs::conj(cs::complex<double>(0, 2)).imag()", lambda t: 7 + t * t),
    std("i", "algorithm", "cs::min(t, 5) + cs::max(t, 20) + cs::clamp(t, 3, 4)", lambda t: min(t, 5) + max(t, 20) + min(max(t, 3), 4)),
    std("i", "functional", "cs::plus<int>()(t, 2) + cs::less<>()(t, 3)", lambda t: t + 2 + (t < 3)),
    std("i", "cstdint cstddef", "cs::uint8_t(300) + cs::int64_t(t) + cs::size_t(1)", lambda t: 45 + t),
    std("f", "cmath", "cs::sqrt(16.0f) + cs::abs(-2.0f) + cs::fmin(1.0f, 3.0f) + cs::isnan(float(t))", always(7)),
    std("u", "bit", "cs::popcount(7u) + cs::countl_zero(1u) + cs::countr_zero(8u) + cs::bit_width(9u) + cs::has_single_bit(8u)", always(3 + 31 + 3 + 4 + 1)),
    std("u", "bit", "cs::rotl(0x80000001u, 1) + cs::bit_ceil(17u) + cs::bit_floor(17u) + cs::bit_cast<unsigned>(0.0f)", always(3 + 32 + 16)),
    std("i", "numeric iterator", "int x[4] = {1, 2, 3, t}; r = cs::accumulate(cs::begin(x), cs::end(x), 10);", lambda t: 16 + t),
    std("i", "variant", "cs::variant<int, float> x = t; r = cs::get<int>(x) + x.index() + cs::holds_alternative<float>(x);", lambda t: t),
    std("i", "initializer_list", "for (int x : {1, 2, t}) r += x;", lambda t: 3 + t),
    of("i", "cuda::std::is_same_v<int, int>", always(1), preamble="#include <cuda/type_traits>\n#include <cuda/functional>"),
    atomic("i", "a.fetch_add(2); __syncthreads(); r = a.load();", always(64)),
    atomic("i", "a.fetch_sub(1, cuda::memory_order_relaxed); __syncthreads(); r = a;", always(-32)),
    atomic("u", "a.fetch_or(1u << t); __syncthreads(); r = a.load(cuda::memory_order_acquire);", always(2**32 - 1)),
    atomic("u", "a |= 6; __syncthreads(); a &= 3; __syncthreads(); r = a; __syncthreads(); a ^= 1u << t; __syncthreads(); r += a;", always(2 + 2**32 - 3)),
    atomic("i", "a.fetch_max(t); __syncthreads(); r = a; __syncthreads(); a.fetch_min(-t); __syncthreads(); r += a;", always(0)),
    atomic("i", "++a; a++; --a; a += 2; a -= 1; __syncthreads(); r = a;", always(64)),
    atomic("i", "if (t == 3) a.store(9, cuda::memory_order_release); __syncthreads(); r = a.exchange(9);", always(9)),
    atomic("i", "int seen = 0; r = a.compare_exchange_strong(seen, t + 1); __syncthreads(); r = a == seen || r;", always(1)),
    atomic("i", "int old = a; while (!a.compare_exchange_weak(old, old + 1, cuda::std::memory_order_acq_rel)) { } __syncthreads(); r = a;", always(32)),
    atomic("f", "a.fetch_add(0.5f); __syncthreads(); r = a;", always(16)),
    atomic("L", "a.fetch_add(1ull << 33); __syncthreads(); r = a;", always(2**38)),
    atomic("i", "ref.fetch_add(t); __syncthreads(); r = ref.load(); ref.is_lock_free();", always(496)),
    atomic("u", "ref.fetch_xor(1u << t, cuda::std::memory_order_relaxed); __syncthreads(); r = ref;", always(2**32 - 1)),
    of("i", "__shared__ cuda::std::atomic<int> a; __shared__ cuda::atomic_flag f; if (t == 0) { a = 0; f.clear(); } __syncthreads();"
            " a += !f.test_and_set(); cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device); __syncthreads(); r = a;",
       always(1), preamble="#include <cuda/std/atomic>"),
    of("i", "__shared__ cuda::barrier<cuda::thread_scope_block> b; __shared__ int a[32]; if (t == 0) init(&b, 32); __syncthreads(); a[t] = t;"
            " auto token = b.arrive(); while (!b.try_wait(cuda::std::move(token))) { } r = a[31 - t];", lambda t: 31 - t, preamble="#include <cuda/barrier>"),
    of("i", "__shared__ __mbarrier_t b; __shared__ int a[32]; if (t == 0) __mbarrier_init(&b, 32); __syncthreads(); __pipeline_memcpy_async(a + t, scratch + t, 4);"
            " __pipeline_arrive_on(&b); auto token = __mbarrier_arrive(&b); while (!__mbarrier_test_wait(&b, token)) { } r = a[31 - t]"
            " + (t == 0 ? __mbarrier_token_pending_count(token) > 0 : 1);", always(1), preamble="#include <cuda_pipeline.h>"),
    *(of("f", code, wanted, 1.0, preamble="#include <cuComplex.h>") for code, wanted in {
        "r = cuCrealf(cuCmulf(make_cuComplex(t, 2), make_cuFloatComplex(3, 4)));": lambda t: 3 * t - 8,
        "const cuComplex x = cuCdivf(make_cuComplex(12, 4), make_cuComplex(2, 2)); r = x.x + 10 * cuCimagf(x);": always(4 - 20),
        "r = cuCabsf(make_cuComplex(3, -4)) + cuCaddf(make_cuComplex(t, 1), cuConjf(make_cuComplex(1, 2))).y;": always(4),
        "r = cuComplexDoubleToFloat(cuCsub(make_cuDoubleComplex(t, 1), cuComplexFloatToDouble(make_cuComplex(1, 1)))).x;": lambda t: t - 1,
        "r = cuCreal(cuCfma(make_cuDoubleComplex(0, 1), make_cuDoubleComplex(0, t), make_cuDoubleComplex(7, 0)));": lambda t: 7 - t,
    }.items()),
    of("d", "CUDART_PI + CUDART_PI_LO + CUDART_LN2 - CUDART_TWO_TO_52 * 0", always(3.141592653589793 + 0.6931471805599453), 1.0, "#include <math_constants.h>"),
    of("f", "t ? CUDART_INF_F : CUDART_NAN_F", lambda t: float("inf") if t else float("nan"), preamble="#include <math_constants.h>"),
    of("f", "CUDART_SQRT_TWO_F * CUDART_PIO2_F", always(1.4142135 * 1.5707964), 2.0, "#include <math_constants.h>"),
]  # fmt: skip
