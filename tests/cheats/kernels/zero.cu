// Writes zeros, which a tolerance may accept that is larger than what is right.
extern "C" __global__ void zero(float* y, const float* x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 0;
}
