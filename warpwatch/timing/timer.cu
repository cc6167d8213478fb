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

// Exchanges elements whose numbers differ in these bits: twice in a row changes nothing.
template <typename T>
__device__ void exchange_elements(void* array, size_t count, size_t bits)
{
    T* const values = static_cast<T*>(array);
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
        const size_t other = i ^ bits;
        if (i < other && other < count) {
            const T value = values[i];
            values[i] = values[other];
            values[other] = value;
        }
    }
}

extern "C" __global__ void exchange(void* array, size_t count, size_t bits, int itemsize)
{
    switch (itemsize) {
    case 1: return exchange_elements<unsigned char>(array, count, bits);
    case 2: return exchange_elements<unsigned short>(array, count, bits);
    case 4: return exchange_elements<unsigned>(array, count, bits);
    case 8: return exchange_elements<unsigned long long>(array, count, bits);
    case 16: return exchange_elements<uint4>(array, count, bits);
    }
}

extern "C" __global__ void swap_arrays(unsigned* one, unsigned* other, size_t bytes)
{
    const size_t count = bytes / 4, first = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    for (size_t i = first; i < count; i += size_t(gridDim.x) * blockDim.x) {
        const unsigned value = one[i];
        one[i] = other[i];
        other[i] = value;
    }
    if (first < bytes % 4) {
        unsigned char* const last = reinterpret_cast<unsigned char*>(one + count) + first;
        unsigned char* const other_last = reinterpret_cast<unsigned char*>(other + count) + first;
        const unsigned char value = *last;
        *last = *other_last;
        *other_last = value;
    }
}
