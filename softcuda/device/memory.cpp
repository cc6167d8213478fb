// Device memory: one large reserve of addresses, of which each allocation takes whole 64 KiB pages, never again
// used for another. So an address that was freed is known to have been, and one between arrays belongs to none.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "races/stream_races.h"

namespace softcuda {

Arena arena;
Allocation* allocations = nullptr;
std::shared_mutex& memory_in_use = *new std::shared_mutex;

namespace {

std::atomic<size_t> allocations_made {0};
size_t next_page = 1;
std::atomic<size_t> bytes_in_use {0};
std::mutex allocating; // memory is given back by the threads of streams too
struct HostMemory {
    size_t size;
    unsigned flags;
    bool registered;
};
std::map<uintptr_t, HostMemory> host_memory;
std::mutex host_memory_mutex;

void* reserve(size_t size, int protection)
{
    void* memory = mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

size_t pages_of(size_t size) { return (size + (size_t(1) << page_bits)) >> page_bits; } // at least a byte to spare

uint32_t fresh_pattern()
{
    const char* text = getenv("SOFTCUDA_FILL");
    return text && *text ? uint32_t(strtoul(text, nullptr, 0)) : 0xa5a5a5a5u;
}

// Arrays may be larger than the machine: their memory is the host's only where it is touched, and fresh memory is zeros and
// counts as written.
bool is_sparse()
{
    const char* text = getenv("SOFTCUDA_SPARSE");
    return text && *text && *text != '0';
}

} // namespace

size_t total_memory() { return size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE)) / 2; }

bool open_arena()
{
    if (arena.first)
        return true;
    for (size_t size = size_t(1) << 40; size >= size_t(1) << 34; size >>= 2) {
        void* memory = reserve(size, PROT_NONE);
        void* shadow = reserve(size, PROT_READ | PROT_WRITE);
        void* pages = reserve((size >> page_bits) * sizeof(uint32_t), PROT_READ | PROT_WRITE);
        void* list = reserve((size >> page_bits) * sizeof(Allocation), PROT_READ | PROT_WRITE);
        if (memory && shadow && pages && list) {
            allocations = static_cast<Allocation*>(list);
            arena = {uintptr_t(memory), size, static_cast<uint32_t*>(pages), static_cast<uint32_t*>(shadow)};
            return true;
        }
        for (void* part : {memory, shadow})
            if (part)
                munmap(part, size);
    }
    return false;
}

Allocation* allocation_at(uintptr_t address)
{
    if (address - arena.first >= arena.size)
        return nullptr;
    const uint32_t number = arena.pages[(address - arena.first) >> page_bits];
    return number ? &allocations[number - 1] : nullptr;
}

Allocation* allocation_near(uintptr_t address)
{
    constexpr uintptr_t page = uintptr_t(1) << page_bits;
    Allocation* best = nullptr;
    uintptr_t least = ~uintptr_t(0);
    for (const uintptr_t at : {address, address - page, address + page})
        if (Allocation* allocation = allocation_at(at)) {
            const uintptr_t end = allocation->base + allocation->size;
            const uintptr_t away = address >= end ? address - end : address < allocation->base ? allocation->base - address : 0;
            if (away < least)
                least = away, best = allocation;
        }
    return best;
}

size_t allocation_count() { return allocations_made; }
Allocation& allocation_number(size_t index) { return allocations[index]; }

void trust_all()
{
    for (size_t i = 0; i < allocations_made; ++i)
        allocations[i].trusted = true;
}

bool is_device_range(uintptr_t address, size_t size)
{
    const Allocation* allocation = allocation_at(address);
    return (allocation && allocation->live && address >= allocation->base
               && address - allocation->base + size <= allocation->size)
        || is_module_variable(address, size) || is_host_range(address, size);
}

Region host_memory_at(uintptr_t address)
{
    std::lock_guard<std::mutex> lock(host_memory_mutex);
    auto after = host_memory.upper_bound(address);
    if (after == host_memory.begin())
        return {0, 0};
    --after;
    return {after->first, address - after->first < after->second.size ? after->second.size : 0};
}

bool is_host_range(uintptr_t address, size_t size)
{
    const Region memory = host_memory_at(address);
    return address - memory.first + size <= memory.size;
}

namespace {

void release(Allocation& allocation)
{
    // The addresses stay taken, their memory does not.
    const size_t size = pages_of(allocation.size) << page_bits;
    void* const memory = reinterpret_cast<void*>(allocation.base);
    if (allocation.shared) {
        stop_sharing(allocation.base);
        mmap(memory, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    } else {
        madvise(memory, size, MADV_DONTNEED);
        mprotect(memory, size, PROT_NONE);
    }
    madvise(arena.shadow + ((allocation.base - arena.first) >> 2), size, MADV_DONTNEED);
    allocation.live = false;
    forget_touches(allocation.base, allocation.size);
    bytes_in_use -= allocation.size;
    const size_t first = (allocation.base - arena.first) >> page_bits, pages = pages_of(allocation.size);
    forget_pages(first, pages);
    if (is_sparse() && first + pages == next_page) { // addresses would run out: the last ones are used again
        std::fill_n(arena.pages + first, pages, 0u);
        next_page = first;
    }
}

} // namespace

Result release_at(uintptr_t address)
{
    std::lock_guard<std::mutex> lock(allocating);
    Allocation* allocation = allocation_at(address);
    if (!allocation || !allocation->live || allocation->base != address)
        return invalid_value;
    release(*allocation);
    return success;
}

namespace {

bool map_file(uintptr_t base, size_t size, int file)
{
    return mmap(reinterpret_cast<void*>(base), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
}

} // namespace

Result move_to_file(Allocation& allocation, int file)
{
    std::lock_guard<std::mutex> lock(allocating);
    const size_t mapped = pages_of(allocation.size) << page_bits;
    for (size_t done = 0; done < allocation.size;) { // written whole: a file that does not fit would end the process later
        const ssize_t written = pwrite(file, reinterpret_cast<char*>(allocation.base) + done, allocation.size - done, off_t(done));
        if (written <= 0)
            return out_of_memory;
        done += size_t(written);
    }
    if (ftruncate(file, off_t(mapped)) || !map_file(allocation.base, mapped, file))
        return map_failed;
    allocation.shared = allocation.trusted = true;
    return success;
}

Result allocate(uintptr_t* address, size_t size, int file)
{
    if (!address || !size)
        return invalid_value;
    std::lock_guard<std::mutex> lock(allocating);
    const size_t pages = pages_of(size);
    const bool sparse = is_sparse();
    const bool too_large = !sparse && file < 0 && size > total_memory() - std::min(total_memory(), bytes_in_use.load());
    if (too_large || next_page + pages > arena.size >> page_bits)
        return out_of_memory;
    const uintptr_t base = arena.first + (next_page << page_bits);
    if (file >= 0 ? !map_file(base, pages << page_bits, file)
                  : mprotect(reinterpret_cast<void*>(base), pages << page_bits, PROT_READ | PROT_WRITE) != 0)
        return file >= 0 ? map_failed : out_of_memory;
    allocations[allocations_made] = {base, size, true, sparse || file >= 0, current_context(), file >= 0};
    if (!sparse && file < 0)
        std::fill_n(reinterpret_cast<uint32_t*>(base), (size + 3) / 4, fresh_pattern());
    std::fill_n(arena.pages + next_page, pages, uint32_t(++allocations_made));
    next_page += pages;
    bytes_in_use += size;
    *address = base;
    return success;
}

void free_all_of(const void* context)
{
    std::lock_guard<std::mutex> lock(allocating);
    for (size_t i = 0; i < allocations_made; ++i)
        if (allocations[i].live && allocations[i].context == context)
            release(allocations[i]);
}

} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuMemAlloc_v2(uintptr_t* address, size_t size)
{
    ENTER(cuMemAlloc);
    return allocate(address, size);
}

API cuMemAllocPitch_v2(uintptr_t* address, size_t* pitch, size_t width, size_t height, unsigned element)
{
    ENTER(cuMemAllocPitch);
    if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return invalid_value;
    *pitch = (width + 511) / 512 * 512;
    return allocate(address, *pitch * height);
}

API cuMemFree_v2(uintptr_t address)
{
    ENTER(cuMemFree);
    if (!address)
        return success;
    Allocation* allocation = allocation_at(address);
    if (!allocation || !allocation->live || allocation->base != address || is_of_another_process(address))
        return invalid_value;
    for (;;) {
        wait_for_everything(Waits::for_the_host);
        std::unique_lock<std::shared_mutex> alone(memory_in_use); // another thread may have queued a copy meanwhile
        if (is_everything_done())
            return release_at(address);
    }
}

API cuMemGetInfo_v2(size_t* free, size_t* total)
{
    ENTER(cuMemGetInfo);
    *total = is_sparse() ? arena.size - (next_page << page_bits) : total_memory();
    if (is_sparse()) {
        *free = *total;
        return success;
    }
    const size_t available = size_t(sysconf(_SC_AVPHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
    *free = std::min(*total - std::min(*total, bytes_in_use.load()), available);
    return success;
}

API cuMemGetAddressRange_v2(uintptr_t* base, size_t* size, uintptr_t address)
{
    ENTER(cuMemGetAddressRange);
    const Allocation* allocation = allocation_at(address);
    if (!allocation || !allocation->live)
        return invalid_value;
    if (base)
        *base = allocation->base;
    if (size)
        *size = allocation->size;
    return success;
}

API cuMemHostAlloc(void** memory, size_t size, unsigned flags)
{
    ENTER(cuMemHostAlloc);
    if (!memory || !size)
        return invalid_value;
    void* made = nullptr;
    if (posix_memalign(&made, 4096, (size + 4095) / 4096 * 4096))
        return out_of_memory;
    std::lock_guard<std::mutex> lock(host_memory_mutex);
    host_memory[uintptr_t(made)] = {size, flags, false};
    *memory = made;
    return success;
}

API cuMemAllocHost_v2(void** memory, size_t size) { return cuMemHostAlloc(memory, size, 0); }

API cuMemFreeHost(void* memory)
{
    ENTER(cuMemFreeHost);
    wait_for_everything(Waits::for_the_host);
    std::lock_guard<std::mutex> lock(host_memory_mutex);
    const auto found = host_memory.find(uintptr_t(memory));
    if (found == host_memory.end() || found->second.registered)
        return invalid_value;
    forget_touches(found->first, found->second.size);
    free(memory);
    host_memory.erase(found);
    return success;
}

API cuMemHostRegister_v2(void* memory, size_t size, unsigned flags)
{
    ENTER(cuMemHostRegister);
    if (!memory || !size)
        return invalid_value;
    std::lock_guard<std::mutex> lock(host_memory_mutex);
    host_memory[uintptr_t(memory)] = {size, flags, true};
    return success;
}

API cuMemHostUnregister(void* memory)
{
    ENTER(cuMemHostUnregister);
    std::lock_guard<std::mutex> lock(host_memory_mutex);
    const auto found = host_memory.find(uintptr_t(memory));
    if (found == host_memory.end() || !found->second.registered)
        return host_memory_not_registered;
    forget_touches(found->first, found->second.size);
    host_memory.erase(found);
    return success;
}

API cuMemHostGetDevicePointer_v2(uintptr_t* address, void* memory, unsigned)
{
    ENTER(cuMemHostGetDevicePointer);
    if (!address || !is_host_range(uintptr_t(memory), 1))
        return invalid_value;
    *address = uintptr_t(memory);
    return success;
}

API cuMemHostGetFlags(unsigned* flags, void* memory)
{
    ENTER(cuMemHostGetFlags);
    const auto found = host_memory.find(uintptr_t(memory));
    if (!flags || found == host_memory.end())
        return invalid_value;
    *flags = found->second.flags;
    return success;
}

} // extern "C"
