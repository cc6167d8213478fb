// Hello world: every thread prints its block and its place in the block.
// Costs: device printf writes to a 1 MB ring buffer that the host prints when it synchronises; lines
// beyond that are lost, about 10,000 of these.
#include <cstdio>

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y) hello_hello()
{
    printf("Hello from block %d, thread (%d, %d)\n", blockIdx.x, threadIdx.x, threadIdx.y);
}
