"""Shared memory declared in all the ways that CUDA takes, and the macros that nvcc defines."""

from __future__ import annotations

from tests.softcuda.snippets.snippet import Snippet, of

NAMES: list[Snippet] = [
    of("i", "at_file[t] = t; __syncthreads(); r = at_file[31 - t];", lambda t: 31 - t, preamble="extern __shared__ int at_file[];"),
    of("f", "rows[t / 8][t % 8] = t; __syncthreads(); r = rows[0][31 - t];", lambda t: 31 - t, preamble="extern __shared__ float rows[][8];"),
    of("i", "seen[t] = t; __syncthreads(); r = seen[31 - t];", lambda t: 31 - t, preamble="extern volatile __shared__ int seen[];"),
    of("i", "seen2[t] = t; __syncthreads(); r = seen2[31 - t];", lambda t: 31 - t, preamble="extern __shared__ volatile int seen2[];"),
    of("d", "wide[t] = t; __syncthreads(); r = wide[31 - t];", lambda t: 31 - t, preamble="extern __shared__ __align__(16) double wide[];"),
    of("i", "space::inner[t] = t; __syncthreads(); r = space::inner[31 - t];", lambda t: 31 - t,
       preamble="namespace space { extern __shared__ int inner[]; }"),
    of("f", "of_class[t].v = t; __syncthreads(); r = of_class[31 - t].v;", lambda t: 31 - t,
       preamble="struct Filled { float v; __device__ Filled() {} __device__ ~Filled() {} };\nextern __shared__ Filled of_class[];"),
    of("i", "extern __shared__ int inside[]; inside[t] = t; __syncthreads(); r = inside[31 - t];", lambda t: 31 - t),
    of("f", "extern __shared__ float tile2[][4]; tile2[t / 4][t % 4] = t; __syncthreads(); r = tile2[7][3 - t % 4];", lambda t: 31 - t % 4),
    of("i", "extern __shared__ int whole[]; int (*p)[] = &whole; (*p)[t] = t; __syncthreads(); r = whole[31 - t];", lambda t: 31 - t),
    of("i", "extern __shared__ __align__(8) unsigned char raw[]; int* p = reinterpret_cast<int*>(raw) + 8; p[t] = t; __syncthreads(); r = p[31 - t];",
       lambda t: 31 - t),
    of("i", "static __shared__ int kept[32]; kept[t] = t; __syncthreads(); r = kept[31 - t];", lambda t: 31 - t),
    of("i", "__shared__ static int kept2[32]; kept2[t] = t; __syncthreads(); r = kept2[31 - t];", lambda t: 31 - t),
    of("i", "volatile __shared__ int kept3[32]; kept3[t] = t; __syncthreads(); r = kept3[31 - t];", lambda t: 31 - t),
    of("f", "__shared__ Empty cells[32]; cells[t] = Empty(t); __syncthreads(); r = cells[31 - t].v;", lambda t: 31 - t,
       preamble="class Empty { public: float v; __device__ Empty() { } explicit __device__ Empty(float x) : v(x) { } };"),
    of("f", "__shared__ Full cells2[32]; cells2[t].v = t; __syncthreads(); r = cells2[31 - t].v;", lambda t: 31 - t,
       preamble="struct __align__(8) Full { float v, w; __host__ __device__ Full() noexcept {} __host__ __device__ ~Full() {} };"),
    of("i", "__shared__ Stack<int, 32> stack; stack.v[t] = t; __syncthreads(); r = stack.v[31 - t];", lambda t: 31 - t,
       preamble="template <class T, int n> struct Stack { T v[n]; __device__ Stack() {} };"),
    of("f", "__shared__ float2 pairs[32]; pairs[t] = make_float2(t, 2); __syncthreads(); r = pairs[31 - t].x;", lambda t: 31 - t),
    of("i", "r = exchanged<int>(t);", lambda t: 31 - t,
       preamble="template <class T> __device__ T exchanged(T x) { extern __shared__ T of_type[]; of_type[threadIdx.x] = x; __syncthreads(); return of_type[31 - threadIdx.x]; }"),
    of("i", "in_block[t] = t; __syncthreads(); r = in_block[31 - t];", lambda t: 31 - t, preamble="__shared__ int in_block[32];"),
    of("f", "r = made(t).v;", lambda t: t + 4,
       preamble="const int more = 4; struct Made { float v; }; __device__ Made made(int t) { Made m; m.v = t + more; return m; }"),
    of("i", "#ifdef __NVCC__\n r = 1;\n#endif\n;", lambda t: 1),
    of("i", "#if CUDART_VERSION >= 12000\n r = 1;\n#endif\n;", lambda t: 1),
    of("i", "#if __CUDACC_VER_MAJOR__ >= 12 && defined(__CUDACC_VER_MINOR__)\n r = 1;\n#endif\n;", lambda t: 1),
    of("i", "#if __CUDA_ARCH__ == 900 && defined(__CUDACC__) && !defined(__CUDACC_RTC__)\n r = 1;\n#endif\n;", lambda t: 1),
    of("i", "#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n r = 1;\n#endif\n;", lambda t: 0),
    of("i", "#ifdef __CUDA_ARCH_LIST__\n r = 1;\n#endif\n;", lambda t: 1),
]  # fmt: skip
