// Asynchronous copies to shared memory (cp.async), as late as a kernel may count on: the destination is undefined from
// the call on, and has what was copied once the thread has waited for it. So a wait that is missing leaves a NaN, and
// a copy into what others still read is a race.
#include <cstring>
#include <deque>

#include "executor.h"

namespace softcuda {

namespace {

struct Copy {
    char* to;
    const char* from;
    unsigned size, bytes; // `bytes` are copied, and the rest of `size` is zero
    uintptr_t site;
};

struct Copies {
    std::vector<Copy> open;               // since the last commit
    std::deque<std::vector<Copy>> groups; // that nobody has waited for
};
Copies copies[max_threads];
bool any = false;

void arrive(const Copy& copy)
{
    for (unsigned i = 0; i < copy.bytes; i += 4)
        check_access(uintptr_t(copy.from) + i, 4, false, copy.site);
    check_access(uintptr_t(copy.to), copy.size, true, copy.site);
    std::memcpy(copy.to, copy.from, copy.bytes);
    std::memset(copy.to + copy.bytes, 0, copy.size - copy.bytes);
}

} // namespace

void forget_copies() // of the block before
{
    if (any)
        for (Copies& own : copies) { // all of them: the launch before may have had larger blocks
            own.open.clear();
            own.groups.clear();
        }
    any = false;
}

} // namespace softcuda

using namespace softcuda;
#define HERE reinterpret_cast<uintptr_t>(__builtin_return_address(0))

extern "C" {
EXPORT void softcuda_copy_async(void* to, const void* from, size_t size, size_t zeros)
{
    if ((size != 4 && size != 8 && size != 16) || zeros > size || zeros % 4)
        fault(illegal_instruction, "asynchronous copy " + in_kernel() + "\n  " + where(HERE) + ": of "
                + std::to_string(size) + " bytes, " + std::to_string(zeros) + " of them zero; it takes 4, 8 or 16");
    const bool aligned = (uintptr_t(to) | uintptr_t(from)) % size == 0 || (uintptr_t(to) % size == 0 && zeros == size);
    if (!aligned)
        fault(misaligned_address, "misaligned access " + in_kernel() + "\n  " + where(HERE) + ": "
                + who(running.thread) + " copies " + std::to_string(size) + " bytes from or to an address that is no "
                + "multiple of that");
    check_access(uintptr_t(to), unsigned(size), true, HERE);
    std::memset(to, 0xff, size);
    copies[running.thread].open.push_back(
        {static_cast<char*>(to), static_cast<const char*>(from), unsigned(size), unsigned(size - zeros), HERE});
    any = true;
}

EXPORT void softcuda_commit_copies()
{
    Copies& own = copies[running.thread];
    own.groups.push_back(std::move(own.open));
    own.open.clear();
    any = true;
}

EXPORT void softcuda_wait_copies(size_t later)
{
    Copies& own = copies[running.thread];
    for (; own.groups.size() > later; own.groups.pop_front())
        for (const Copy& copy : own.groups.front())
            arrive(copy);
}
}
