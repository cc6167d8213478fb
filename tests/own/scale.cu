// Divides by the sum of magnitudes in two launches: partial sums of blocks, then their sum in every block.
extern "C" __global__ void scale_sum(float* parts, const float* x, int n)
{
    extern __shared__ float own[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    own[threadIdx.x] = i < n ? fabsf(x[i]) : 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0;
        for (int j = 0; j < blockDim.x; ++j)
            sum += own[j];
        parts[blockIdx.x] = sum;
    }
}

extern "C" __global__ void scale_by(
    float* y, float* total, const float* parts, int count, const float* x, long long n, float eps)
{
    float sum = 0;
    for (int j = 0; j < count; ++j)
        sum += parts[j];
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] / (sum + eps);
    if (i == 0)
        *total = sum;
}
