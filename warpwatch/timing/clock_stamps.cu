// Notes the time and the SM clock's count, so that the mean clock between two notes is known.
// There is a block for each multiprocessor; the one on multiprocessor 0 writes, because each has its own count.

extern "C" __global__ void stamp(ulonglong2* slot)
{
    unsigned int multiprocessor;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    if (multiprocessor != 0)
        return;
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    *slot = make_ulonglong2(nanoseconds, clock64());
}
