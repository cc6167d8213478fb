// Fetches of every kind, a thread each: `c` has n values of the first coordinate, then n of the second, and so on.
#define FETCH(name, T, call) \
    extern "C" __global__ void name(cudaTextureObject_t t, const float* c, int n, T* out) \
    { \
        const int i = blockIdx.x * blockDim.x + threadIdx.x; \
        if (i >= n) \
            return; \
        [[maybe_unused]] const float x = c[i], y = c[n + i], z = c[2 * n + i]; \
        [[maybe_unused]] const float2 f2 = make_float2(0, 0); \
        [[maybe_unused]] const float4 f4 = make_float4(0, 0, 0, 0); \
        call; \
    }
#define VALUE(name, T, call) FETCH(name, T, out[i] = call)
#define POINTER(name, T, function, ...) FETCH(name, T, function(out + i, t, __VA_ARGS__))

VALUE(fetch_linear, float4, tex1Dfetch<float4>(t, int(x)))
VALUE(fetch_1d, float4, tex1D<float4>(t, x))
VALUE(fetch_2d, float4, (tex2D<float4>(t, x, y)))
VALUE(fetch_3d, float4, (tex3D<float4>(t, x, y, z)))
VALUE(fetch_1d_layered, float4, (tex1DLayered<float4>(t, x, int(y))))
VALUE(fetch_2d_layered, float4, (tex2DLayered<float4>(t, x, y, int(z))))
VALUE(fetch_cube, float4, (texCubemap<float4>(t, x, y, z)))
VALUE(words_linear, uint4, tex1Dfetch<uint4>(t, int(x)))
VALUE(words_2d, uint4, (tex2D<uint4>(t, x, y)))
VALUE(lod_2d, float4, (tex2DLod<float4>(t, x, y, 3.0f)))
VALUE(grad_2d, float4, (tex2DGrad<float4>(t, x, y, f2, f2)))
VALUE(gather_0, float4, (tex2Dgather<float4>(t, x, y)))
VALUE(gather_1, float4, (tex2Dgather<float4>(t, x, y, 1)))
VALUE(gather_2, float4, (tex2Dgather<float4>(t, x, y, 2)))
VALUE(gather_3, float4, (tex2Dgather<float4>(t, x, y, 3)))
POINTER(pointer_linear, float4, tex1Dfetch, int(x))
POINTER(pointer_1d, float4, tex1D, x)
POINTER(pointer_2d, float4, tex2D, x, y)
POINTER(pointer_3d, float4, tex3D, x, y, z)
POINTER(pointer_1d_layered, float4, tex1DLayered, x, int(y))
POINTER(pointer_2d_layered, float4, tex2DLayered, x, y, int(z))
POINTER(pointer_lod_1d, float4, tex1DLod, x, 2.0f)
POINTER(pointer_lod_3d, float4, tex3DLod, x, y, z, 0.0f)
POINTER(pointer_grad_3d, float4, tex3DGrad, x, y, z, f4, f4)
POINTER(pointer_gather, float4, tex2Dgather, x, y, 0)
