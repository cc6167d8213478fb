// Times a call of cuLaunchKernelEx between two readings of the clock with nothing of Python's or ctypes' between them.
#include <time.h>

extern "C" double launch_seconds(int (*launch)(const void*, void*, void**, void**), const void* config, void* kernel,
    void** parameters, void** extra, int* status)
{
    timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    *status = launch(config, kernel, parameters, extra);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return double(end.tv_sec - begin.tv_sec) + 1e-9 * double(end.tv_nsec - begin.tv_nsec);
}
