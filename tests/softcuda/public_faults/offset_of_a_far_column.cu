// A column's offset is a product of ints, which does not fit where the table is large.
// As in rapidsai/cuml before a6518974d9
// Must be found: signed overflow
// Launch: 1 block of 32 threads, 32 ints

extern "C" __global__ void offset_of_a_far_column(int* data)
{
    const int rows = 1000000 + data[threadIdx.x], column = 2400 + int(threadIdx.x);
#ifdef FIXED
    const size_t offset = size_t(column) * rows;
#else
    const size_t offset = column * rows; // here
#endif
    data[threadIdx.x] = int(offset >> 20);
}
