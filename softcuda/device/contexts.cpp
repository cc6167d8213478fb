// The CUDA driver API: calls about a context that need nothing of its state.
#include <cstring>
#include <map>

#include "driver.h"

namespace {

std::map<int, size_t> limits = {{0, 1024}, {1, 1 << 20}, {2, 8 << 20}, {6, 0}}; // CU_LIMIT_STACK_SIZE and so on
int cache_config = 0, bank_config = 1; // no preference; four-byte banks

} // namespace

using namespace softcuda;

extern "C" {

API cuCtxCreate_v2(ContextState** context, unsigned flags, int device);
API cuCtxSynchronize();
API cuCtxGetDevice(int* device);

API cuCtxCreate_v3(ContextState** context, void*, int, unsigned flags, int device) { return cuCtxCreate_v2(context, flags, device); }

API cuCtxGetCurrent(ContextState** context)
{
    ENTER_WITHOUT_CONTEXT(cuCtxGetCurrent);
    if (!context)
        return invalid_value;
    *context = current_context();
    return success;
}

API cuCtxSetCurrent(ContextState* context)
{
    ENTER_WITHOUT_CONTEXT(cuCtxSetCurrent);
    auto& contexts = contexts_of_thread();
    if (!contexts.empty())
        contexts.pop_back();
    if (context)
        contexts.push_back(context);
    return success;
}

API cuCtxGetFlags(unsigned* flags)
{
    ENTER(cuCtxGetFlags);
    *flags = 0;
    return success;
}

API cuCtxSetFlags(unsigned)
{
    ENTER(cuCtxSetFlags);
    return success;
}

API cuCtxGetId(ContextState* context, unsigned long long* number)
{
    ENTER_WITHOUT_CONTEXT(cuCtxGetId);
    context = context ? context : current_context();
    if (!context || !number)
        return number ? invalid_context : invalid_value;
    *number = uintptr_t(context);
    return success;
}

API cuCtxGetStreamPriorityRange(int* least, int* greatest)
{
    ENTER(cuCtxGetStreamPriorityRange);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5; // an H100's
    return success;
}

API cuCtxResetPersistingL2Cache()
{
    ENTER(cuCtxResetPersistingL2Cache);
    return success;
}

API cuCtxGetLimit(size_t* value, int limit)
{
    ENTER(cuCtxGetLimit);
    if (!limits.count(limit))
        return invalid_value;
    *value = limits[limit];
    return success;
}

API cuCtxSetLimit(int limit, size_t value)
{
    ENTER(cuCtxSetLimit);
    if (!limits.count(limit))
        return invalid_value;
    limits[limit] = value;
    return success;
}

// Preferences that a device without such caches can take and ignore.
#define PREFERENCE(name, ...) \
    API name(__VA_ARGS__) \
    { \
        ENTER(name); \
        return success; \
    }
PREFERENCE(cuFuncSetCacheConfig, Function*, int)
PREFERENCE(cuProfilerStart)
PREFERENCE(cuProfilerStop)

API cuCtxGetCacheConfig(int* config)
{
    ENTER(cuCtxGetCacheConfig);
    *config = cache_config;
    return success;
}

API cuCtxSetCacheConfig(int config)
{
    ENTER(cuCtxSetCacheConfig);
    cache_config = config;
    return success;
}

API cuCtxGetSharedMemConfig(int* config)
{
    ENTER(cuCtxGetSharedMemConfig);
    *config = bank_config;
    return success;
}

API cuCtxSetSharedMemConfig(int config)
{
    ENTER(cuCtxSetSharedMemConfig);
    bank_config = config;
    return success;
}

// The calls of CUDA 13 that name a context: they are the older ones with that context current.

API cuCtxSynchronize_v2(ContextState* context)
{
    ENTER_WITHOUT_CONTEXT(cuCtxSynchronize);
    if (!context)
        return cuCtxSynchronize();
    contexts_of_thread().push_back(context);
    const int code = cuCtxSynchronize();
    contexts_of_thread().pop_back();
    return code;
}

API cuCtxGetDevice_v2(int* device, ContextState* context)
{
    ENTER_WITHOUT_CONTEXT(cuCtxGetDevice);
    if (!device)
        return invalid_value;
    *device = 0;
    return context || current_context() ? success : invalid_context;
}

API cuDeviceGetUuid_v2(char* uuid, int device)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGetUuid);
    if (device != 0)
        return invalid_device;
    memcpy(uuid, "softcuda-device0", 16);
    return success;
}

API cuDeviceGetUuid(char* uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }

API cuDeviceGetP2PAttribute(int* value, int, int, int)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGetP2PAttribute);
    *value = 0;
    return invalid_device; // there is one device, and it is no peer of itself
}

} // extern "C"
