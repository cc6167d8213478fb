// Nodes of a tree take themselves out of the frontier while their parents put them in.
// As in rapidsai/cuml before 041a7fc26c
// Must be found: race between blocks|race
// Launch: 2 blocks of 32 threads, 192 ints

extern "C" __global__ void frontier_changed_in_place(int* data)
{
    const int node = int(blockIdx.x * blockDim.x + threadIdx.x);
    int* frontier = data;
#ifdef FIXED
    int* next = data + 64;
#else
    int* next = data;
#endif
    if (node % 2 == 0)
        frontier[node] = 0; // here
    if (node < 31)
        next[2 * node + 2] = 1; // here
}
