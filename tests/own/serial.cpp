// Adds to an array in place, counts the additions, and finds the largest number.
extern "C" void add_serial(const int* x, unsigned* state, int* count, int* largest, int n)
{
    for (int i = 0; i < n; ++i) {
        state[i] += x[i];
        ++*count;
        if (x[i] > *largest)
            *largest = x[i];
    }
}
