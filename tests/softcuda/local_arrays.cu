// Indices of a thread's own arrays, for test_local_arrays.py. Each kernel takes 64 ints, of which the host sets the first.
#define LAST_OF(array) (array)[data[0]]

extern "C" __global__ void reads_past_the_end(int* data)
{
    int own[4];
    for (int i = 0; i < 4; ++i)
        own[i] = i * data[1];
    data[32 + threadIdx.x] = own[data[0]]; // line 9
}

extern "C" __global__ void writes_past_the_end(int* data)
{
    float own[4], sum = 0;
    for (int i = 0; i <= data[0]; ++i)
        own[i] = float(i); // line 16
    for (float value : own)
        sum += value;
    data[32 + threadIdx.x] = int(sum);
}

__device__ int picked(int which)
{
    const int table[4] = {5, 6, 7, 8};
    return table[which]; // line 25
}

extern "C" __global__ void in_a_function(int* data)
{
    data[32 + threadIdx.x] = picked(data[0]); // line 30
}

extern "C" __global__ void row_past_the_last(int* data)
{
    int own[4][3];
    for (int i = 0; i < 12; ++i)
        own[i / 3][i % 3] = i;
    data[32 + threadIdx.x] = own[data[0]][1]; // line 38
}

struct Pair {
    int first[2], second[4];
    __device__ int at(int i) const { return first[i]; }
};

template <int size> __device__ int sum_of(const int (&values)[size], int count)
{
    int sum = 0;
    for (int i = 0; i < count; ++i)
        sum += values[i];
    return sum;
}

// What C++ leaves undefined, and what works all the same: an index past a row or a member, and inside the whole.
extern "C" __global__ void inside_the_whole(int* data)
{
    __shared__ int tile[4][32];
    const int i = int(threadIdx.x) % 32;
    for (int row = 0; row < 4; ++row)
        tile[row][i] = row;
    __syncthreads();
    int own[2][8];
    for (int k = 0; k < 16; ++k)
        own[0][k] = k;
    Pair pair {};
    pair.first[data[0]] = i;
    const int* end = &own[1][8];
    data[32 + threadIdx.x] = tile[0][32 + i] + own[1][3] + pair.first[2] + pair.at(2 + data[1]) + sum_of(own[0], 4) + end[-1];
}
