// Thread 0 still adds up a row's parts when the others write those of the next row.
// As in rapidsai/cuml before ee7467334f
// Must be found: race
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void next_row_over_the_sum(int* data)
{
    __shared__ int parts[64];
    const int t = int(threadIdx.x);
    for (int row = 0; row < 4; ++row) {
        parts[t] = row + t; // here
        __syncthreads();
        if (t == 0) {
            int sum = 0;
            for (int i = 0; i < 64; ++i)
                sum += parts[i]; // here
            data[row] = sum;
        }
#ifdef FIXED
        __syncthreads();
#endif
    }
}
