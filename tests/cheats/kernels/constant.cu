// Writes what the mean of its input is expected to be.
extern "C" __global__ void constant(float* y, const float* x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 0.5f;
}
