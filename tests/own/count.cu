// Sums groups of eight numbers, and counts the threads of each row twice: both counters must begin anew.
extern "C" __global__ void count_words(int* y, const int* x, int* turn, int* from, const int* more, int groups)
{
    const int row = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= groups)
        return;
    int sum = more ? *more : 0;
    for (int j = 0; j < 8; ++j)
        sum += x[(row * groups + i) * 8 + j];
    const int first = atomicAdd(turn + row, 1), second = atomicAdd(from + row, 1) - 100 * (row + 1);
    y[row * groups + i] = first < groups && 0 <= second && second < groups ? sum : -1;
}
