// What the timer needs of the GPU, and what it is tested with.

// Fills L2 with clean lines of another buffer. It reads, because a scrub that writes leaves dirty lines, and
// the kernel that is timed next would pay for writing them back.
extern "C" __global__ void scrub(const float4* buffer, size_t count, float* sink)
{
    float sum = 0;
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
        const float4 value = __ldcg(buffer + i); // through L2, not L1
        sum += value.x + value.y + value.z + value.w;
    }
    if (sum == 1.0f) // never: the buffer holds zeros. Without it the compiler would drop the loads.
        *sink = sum;
}

extern "C" __global__ void copy(float* to, const float* from, size_t count)
{
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < count)
        to[i] = from[i];
}

extern "C" __global__ void empty() { }
