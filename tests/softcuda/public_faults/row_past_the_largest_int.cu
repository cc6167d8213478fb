// A loop with a stride steps over the largest int when there are nearly as many rows.
// As in rapidsai/cuml before bd047bb8ea
// Must be found: signed overflow
// Launch: 1 block of 32 threads, 32 ints

extern "C" __global__ void row_past_the_largest_int(int* data)
{
    const int rows = 2147483600;
#ifdef FIXED
    using Row = size_t;
#else
    using Row = int;
#endif
    const Row first = Row(2147480000) + threadIdx.x, step = 1000;
    int count = 0;
    for (Row row = first; row < Row(rows) && count < 100; row += step) // here
        ++count;
    data[threadIdx.x] = count;
}
