// One thread reads a logit for the loss while another one writes the gradient over it.
// As in karpathy/llm.c before 0f144e3
// Must be found: race
// Launch: 1 block of 64 threads, 65 ints

extern "C" __global__ void loss_beside_gradients(int* data)
{
    const int t = int(threadIdx.x), label = 40;
    if (t == 0)
        data[64] = 3 * data[label]; // here
#ifdef FIXED
    __syncthreads();
#endif
    data[t] = data[t] - 1; // here
}
