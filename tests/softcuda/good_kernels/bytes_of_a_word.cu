// Lanes write the bytes of a word, a byte each, and read their neighbour's after they met.
// Broken: they do not meet.

extern "C" __global__ void bytes_of_a_word(int* out)
{
    __shared__ unsigned char bytes[64];
    unsigned char* far = reinterpret_cast<unsigned char*>(out);
    bytes[threadIdx.x] = far[threadIdx.x] = static_cast<unsigned char>(threadIdx.x);
#ifndef BROKEN
    __syncwarp();
#endif
    const int value = bytes[threadIdx.x ^ 1] + far[threadIdx.x ^ 2];
    __syncthreads();
    out[16 + threadIdx.x] = value;
}
