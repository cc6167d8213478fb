// The CUDA driver API: memory in the order of a stream, its pools, and what an address is. Memory is taken when it is asked
// for, and given back where its stream has come so far: a pool keeps none, it only counts.
#include <map>
#include <mutex>
#include <shared_mutex>

#include "races/stream_races.h"

namespace softcuda {

struct PoolState {
    std::map<int, uint64_t> settings {{1, 1}, {2, 1}, {3, 1}, {4, 0}}; // what may be reused, and the release threshold
    uint64_t used = 0, high = 0;
};

namespace {

PoolState& default_pool = *new PoolState;
PoolState* present_pool = &default_pool;
std::map<uintptr_t, PoolState*>& pool_of = *new std::map<uintptr_t, PoolState*>;
std::mutex& pools_mutex = *new std::mutex;

int allocate_from(PoolState& pool, uintptr_t* address, size_t size, void* stream)
{
    if (is_capturing(stream))
        return not_here("allocation in a graph: allocate before the capture");
    const Result failed = allocate(address, size);
    if (failed)
        return failed;
    {
        std::lock_guard<std::mutex> lock(pools_mutex);
        pool_of[*address] = &pool;
        pool.used += size;
        pool.high = std::max(pool.high, pool.used);
    }
    return enqueue(stream, [first = *address, size] {
        judge("cuMemAllocAsync", {{first, first + size, Deed::allocates}});
    }, NodeKind::fill);
}

void release_to_pool(uintptr_t address, size_t size)
{
    judge("cuMemFreeAsync", {{address, address + size, Deed::frees}});
    std::unique_lock<std::shared_mutex> in_use(memory_in_use);
    if (release_at(address))
        return;
    std::lock_guard<std::mutex> lock(pools_mutex);
    const auto found = pool_of.find(address);
    if (found == pool_of.end())
        return;
    found->second->used -= size;
    pool_of.erase(found);
}

// CUpointer_attribute of what is at an address; false where this device does not know.
bool attribute_of(void* data, int number, uintptr_t address)
{
    const Allocation* allocation = allocation_at(address);
    const bool on_device = is_device_range(address, 1) && !is_host_range(address, 1);
    switch (number) {
    case 1: return *static_cast<const void**>(data) = allocation ? allocation->context : current_context(), true;
    case 2: return *static_cast<unsigned*>(data) = on_device ? 2 : 1, true; // CU_MEMORYTYPE_DEVICE or _HOST
    case 3: return *static_cast<uintptr_t*>(data) = address, true;
    case 4: return *static_cast<uintptr_t*>(data) = on_device ? 0 : address, !on_device;
    case 6: return *static_cast<int*>(data) = 0, true;
    case 7: return *static_cast<uint64_t*>(data) = allocation ? allocation->base : address, true;
    case 8: return *static_cast<int*>(data) = 0, true; // managed
    case 9: return *static_cast<int*>(data) = 0, true; // the one device
    case 10: return *static_cast<int*>(data) = 0, true;
    case 11: return *static_cast<uintptr_t*>(data) = allocation ? allocation->base : address, allocation != nullptr;
    case 12: return *static_cast<size_t*>(data) = allocation ? allocation->size : 0, allocation != nullptr;
    case 13: return *static_cast<int*>(data) = 1, true;
    case 14: return *static_cast<uint64_t*>(data) = 0, true;
    case 15: return *static_cast<int*>(data) = 0, true;
    case 16: return *static_cast<unsigned*>(data) = 3, true; // read and write
    case 17: {
        std::lock_guard<std::mutex> lock(pools_mutex);
        const auto found = pool_of.find(allocation ? allocation->base : 0);
        return *static_cast<void**>(data) = found == pool_of.end() ? nullptr : found->second, true;
    }
    default: return false;
    }
}

} // namespace

bool is_of_pool(uintptr_t address)
{
    std::lock_guard<std::mutex> lock(pools_mutex);
    return pool_of.count(address) != 0;
}

} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuMemAllocAsync(uintptr_t* address, size_t size, void* stream)
{
    ENTER(cuMemAllocAsync);
    return allocate_from(*present_pool, address, size, stream);
}

API cuMemAllocFromPoolAsync(uintptr_t* address, size_t size, PoolState* pool, void* stream)
{
    ENTER(cuMemAllocFromPoolAsync);
    return pool ? allocate_from(*pool, address, size, stream) : invalid_value;
}

API cuMemFreeAsync(uintptr_t address, void* stream)
{
    ENTER(cuMemFreeAsync);
    if (!address)
        return success;
    const Allocation* allocation = allocation_at(address);
    if (!allocation || !allocation->live || allocation->base != address)
        return invalid_value;
    if (is_capturing(stream))
        return not_here("memory that a graph gives back: free it after the capture");
    const size_t size = allocation->size;
    // With checks it waits for kernels that were queued before: who still uses the memory is told, and not what comes of that.
    const NodeKind kind = streams_are_checked() ? NodeKind::kernel : NodeKind::host;
    return enqueue(stream, [address, size] { release_to_pool(address, size); }, kind);
}

API cuMemPoolCreate(PoolState** pool, const void* properties)
{
    ENTER_WITHOUT_CONTEXT(cuMemPoolCreate);
    if (!pool || !properties)
        return invalid_value;
    if (static_cast<const unsigned*>(properties)[1]) // handleTypes
        return not_here("memory pools that other processes share");
    *pool = new PoolState;
    return success;
}

API cuMemPoolDestroy(PoolState* pool)
{
    ENTER_WITHOUT_CONTEXT(cuMemPoolDestroy);
    if (!pool || pool == &default_pool)
        return invalid_value;
    if (present_pool == pool)
        present_pool = &default_pool;
    return success; // what it still counts may be given back later: the counters stay
}

API cuMemPoolTrimTo(PoolState* pool, size_t)
{
    ENTER_WITHOUT_CONTEXT(cuMemPoolTrimTo);
    return pool ? success : invalid_value;
}

API cuMemPoolSetAttribute(PoolState* pool, int number, const void* value)
{
    ENTER_WITHOUT_CONTEXT(cuMemPoolSetAttribute);
    if (!pool || !value || number < 1 || number > 8 || number == 5 || number == 7)
        return invalid_value;
    std::lock_guard<std::mutex> lock(pools_mutex);
    if (number >= 6)
        pool->high = pool->used; // may be reset only
    else
        pool->settings[number] = number < 4 ? *static_cast<const unsigned*>(value) : *static_cast<const uint64_t*>(value);
    return success;
}

API cuMemPoolGetAttribute(PoolState* pool, int number, void* value)
{
    ENTER_WITHOUT_CONTEXT(cuMemPoolGetAttribute);
    if (!pool || !value || number < 1 || number > 13)
        return invalid_value;
    std::lock_guard<std::mutex> lock(pools_mutex);
    if (number < 4)
        *static_cast<int*>(value) = int(pool->settings[number]);
    else if (number == 4)
        *static_cast<uint64_t*>(value) = pool->settings[number];
    else if (number <= 8) // reserved, in use: now and at most
        *static_cast<uint64_t*>(value) = number % 2 ? pool->used : pool->high;
    else
        return invalid_value;
    return success;
}

API cuMemPoolSetAccess(PoolState* pool, const void*, size_t)
{
    ENTER_WITHOUT_CONTEXT(cuMemPoolSetAccess);
    return pool ? success : invalid_value;
}

API cuMemPoolGetAccess(int* flags, PoolState* pool, const void*)
{
    ENTER_WITHOUT_CONTEXT(cuMemPoolGetAccess);
    if (!flags || !pool)
        return invalid_value;
    *flags = 3; // read and write
    return success;
}

API cuDeviceGetDefaultMemPool(PoolState** pool, int device)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGetDefaultMemPool);
    *pool = &default_pool;
    return device == 0 ? success : invalid_device;
}

API cuDeviceGetMemPool(PoolState** pool, int device)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGetMemPool);
    *pool = present_pool;
    return device == 0 ? success : invalid_device;
}

API cuDeviceSetMemPool(int device, PoolState* pool)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceSetMemPool);
    if (!pool || device != 0)
        return pool ? invalid_device : invalid_value;
    present_pool = pool;
    return success;
}

API cuPointerGetAttribute(void* data, int number, uintptr_t address)
{
    ENTER(cuPointerGetAttribute);
    if (!data || (!is_device_range(address, 1) && !is_host_range(address, 1)))
        return invalid_value;
    return attribute_of(data, number, address) ? success : invalid_value;
}

// As the driver does, unknown addresses are no error: each answer is then a zero.
API cuPointerGetAttributes(unsigned count, const int* numbers, void** data, uintptr_t address)
{
    ENTER(cuPointerGetAttributes);
    if (!numbers || !data)
        return invalid_value;
    const bool is_known = is_device_range(address, 1) || is_host_range(address, 1);
    for (unsigned i = 0; i < count; ++i) {
        const bool is_wide = numbers[i] == 1 || numbers[i] == 3 || numbers[i] == 4 || numbers[i] == 7 || numbers[i] == 11
            || numbers[i] == 12 || numbers[i] == 14 || numbers[i] == 17;
        if (is_known && attribute_of(data[i], numbers[i], address))
            continue;
        if (is_wide)
            *static_cast<uint64_t*>(data[i]) = 0;
        else
            *static_cast<int*>(data[i]) = numbers[i] == 9 ? -2 : 0;
    }
    return success;
}

API cuPointerSetAttribute(const void*, int, uintptr_t)
{
    ENTER(cuPointerSetAttribute);
    return success; // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is the only one there is: all such copies wait here
}

} // extern "C"
