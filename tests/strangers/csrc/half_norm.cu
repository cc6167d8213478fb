#include "half_norm.cuh"

const int THREADS_X = 32;

typedef void (*fp_rms_norm_kernel)(half*, const half*, const half*, const float, const int);

// RMS norm, a block a row, for an even number of columns
__global__ void rms_norm_row(half* out, const half* x, const half* w, const float epsilon, const int columns)
{
    __shared__ float sums[THREADS_X];
    const half2* row = (const half2*)(x + blockIdx.x * columns);
    float acc = 0.0f;
    for (int i = threadIdx.x; i < columns / 2; i += THREADS_X)
    {
        half2 x2 = row[i];
        acc = fma(__half2float(x2.x), __half2float(x2.x), acc);
        acc = fma(__half2float(x2.y), __half2float(x2.y), acc);
    }
    sums[threadIdx.x] = acc;
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < THREADS_X; i++) total += sums[i];
    float scale = rsqrtf(total / columns + epsilon);
    for (int i = threadIdx.x; i < columns / 2; i += THREADS_X)
    {
        half2 w2 = ((const half2*)w)[i];
        half2 scaled = __floats2half2_rn(__half2float(row[i].x) * scale, __half2float(row[i].y) * scale);
        ((half2*)(out + blockIdx.x * columns))[i] = __hmul2(scaled, w2);
    }
}

void rms_norm_cuda(ExLlamaTuning* tuningParams, half* x, const half* w, half* out, const float epsilon, const int rows,
                   const int dim, const int device_index)
{
    fp_rms_norm_kernel kernel = tuningParams->rmsnorm_no_half2 ? nullptr : rms_norm_row;
    kernel<<<rows, THREADS_X>>>(out, x, w, epsilon, dim);
}
