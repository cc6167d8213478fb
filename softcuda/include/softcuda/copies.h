// Asynchronous copies of any size, whose work the threads of a group share: words that both sides have aligned go by
// cp.async, each a different thread's turn; single bytes are copied at once.
#pragma once

namespace softcuda {

// Returns how many bytes it has copied: as many as such steps make.
template <unsigned step> __forceinline__ size_t copy_steps(char* to, const char* from, size_t bytes, size_t rank, size_t count)
{
    for (size_t at = rank * step; at + step <= bytes; at += count * step)
        softcuda_copy_async(to + at, from + at, step, 0);
    return bytes / step * step;
}

__forceinline__ void copy_part(char* to, const char* from, size_t bytes, size_t rank, size_t count)
{
    const size_t apart = size_t(to) | size_t(from) | 16, step = apart & -apart;
    size_t done = 0;
    if (step == 16)
        done = copy_steps<16>(to, from, bytes, rank, count);
    else if (step == 8)
        done = copy_steps<8>(to, from, bytes, rank, count);
    if (step >= 4)
        done += copy_steps<4>(to + done, from + done, bytes - done, rank, count);
    for (size_t at = done + rank; at < bytes; at += count)
        to[at] = from[at];
}

} // namespace softcuda
