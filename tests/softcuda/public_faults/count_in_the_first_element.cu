// Every thread that appends a record also writes the count into the first record.
// As in zjin-lcf/HeCBench before 69787e266 (p4)
// Must be found: race
// Launch: 1 block of 64 threads, 128 ints

extern "C" __global__ void count_in_the_first_element(int* data)
{
    int* counter = data + 127;
    if (threadIdx.x % 4 == 0) {
        const int count = atomicAdd(counter, 1);
#ifndef FIXED
        data[0] = count + 1; // here
#endif
        data[count] = int(threadIdx.x);
    }
}
