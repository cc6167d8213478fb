// Row softmax: y[row][i] = exp(x[row][i] - largest of the row) / sum of these over the row.
//
// A block computes one row. Each thread takes every blockDim.x-th element, and the block joins what its threads found
// by halves, in one element of shared memory a thread. Any n works; blockDim.x must be a power of two. The row is read
// three times, of which the cache serves two where a row is short.
//
// scalar_t is the element type of the case: this file is compiled once for each.

// Joins the values of a block's threads, to their largest or their sum. Every thread gets the result.
static __device__ scalar_t over_block(scalar_t value, scalar_t* partial, bool largest)
{
    partial[threadIdx.x] = value;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();  // the values of the step before are there
        if (threadIdx.x < half) {
            const scalar_t other = partial[threadIdx.x + half];
            value = largest ? (other > value ? other : value) : value + other;
            partial[threadIdx.x] = value;
        }
    }
    __syncthreads();
    const scalar_t joined = partial[0];
    __syncthreads();  // every thread has read it before the next call writes there
    return joined;
}

extern "C" __global__ void softmax_block_per_row(const scalar_t* x, scalar_t* y, int n)
{
    extern __shared__ scalar_t partial[];
    const size_t row = (size_t)blockIdx.x * n;

    scalar_t largest = x[row];
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        largest = x[row + i] > largest ? x[row + i] : largest;
    largest = over_block(largest, partial, true);

    scalar_t sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += exp(x[row + i] - largest);
    sum = over_block(sum, partial, false);

    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[row + i] = exp(x[row + i] - largest) / sum;
}
