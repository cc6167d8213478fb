// The CUDA driver API: devices, contexts, functions, launches, errors. The rest is in memory.cpp, copies.cpp,
// module.cpp and streams.cpp; what this device does not do is in unsupported.cpp.
#include "driver.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace softcuda {

struct ContextState {
    unsigned flags = 0;
    int uses = 1;
    std::mutex mutex;
    Finding sticky;
};

namespace {

bool initialised = false;
thread_local std::vector<ContextState*> context_stack;
ContextState* primary = nullptr;
int primary_uses = 0;
std::map<int, size_t> limits = {{0, 1024}, {1, 1 << 20}, {2, 8 << 20}};

const std::map<int, const char*> texts = {
    {success, "no error"},
    {invalid_value, "invalid argument"},
    {out_of_memory, "out of memory"},
    {not_initialized, "initialization error"},
    {invalid_device, "invalid device ordinal"},
    {invalid_image, "device kernel image is invalid"},
    {invalid_context, "invalid device context"},
    {file_not_found, "file not found"},
    {invalid_handle, "invalid resource handle"},
    {not_found, "named symbol not found"},
    {not_ready, "device not ready"},
    {illegal_address, "an illegal memory access was encountered"},
    {launch_timeout, "the launch timed out and was terminated"},
    {assertion, "device-side assert triggered"},
    {host_memory_not_registered, "pointer does not correspond to a registered memory region"},
    {stack_error, "hardware stack error"},
    {illegal_instruction, "an illegal instruction was encountered"},
    {misaligned_address, "misaligned address"},
    {launch_failed, "unspecified launch failure"},
    {not_supported, "operation not supported"},
    {unknown, "unknown error"},
};
std::map<int, std::string>& found_texts = *new std::map<int, std::string>; // with what was found
std::mutex& texts_mutex = *new std::mutex;

ContextState* current() { return context_stack.empty() ? nullptr : context_stack.back(); }

void destroy(ContextState* context)
{
    end_streams_of(context);
    unload_modules_of(context);
    free_all_of(context);
    context_stack.erase(std::remove(context_stack.begin(), context_stack.end(), context), context_stack.end());
    delete context;
}

int attribute(int number)
{
    static const std::map<int, int> values = {
        {1, int(max_threads)}, {2, 1024}, {3, 1024}, {4, int(max_block_z)}, {5, 2147483647}, {6, int(max_grid_yz)},
        {7, int(max_grid_yz)}, {8, int(max_shared_bytes)}, {9, int(max_constant_bytes)}, {10, int(warp_size)},
        {11, 2147483647}, {12, 65536}, // pitch, registers a block
        {13, 1000000},                 // clock in kHz: clock64() counts nanoseconds
        {14, 512}, {15, 1}, {16, 1},   // texture alignment, overlap, multiprocessors
        {17, 0}, {18, 1}, {19, 1}, {20, 0}, // time-out, integrated, maps host memory, compute mode
        {39, 1024}, {40, 1}, {41, 1},  // threads a multiprocessor, copy engines, unified addresses
        {75, 7}, {76, 5},              // compute capability
        {81, int(max_shared_opt_in)}, {82, 65536}, {97, int(max_shared_opt_in)}, {106, 1},
    };
    const auto found = values.find(number);
    return found == values.end() ? 0 : found->second;
}

int check_launch(const Launch& launch)
{
    const Dim &grid = launch.grid, &block = launch.block;
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z)
        return invalid_value;
    if (grid.x > 2147483647u || grid.y > max_grid_yz || grid.z > max_grid_yz || block.x > max_threads
        || block.y > max_threads || block.z > max_block_z || uint64_t(block.x) * block.y * block.z > max_threads)
        return invalid_value;
    const Function& function = *launch.function;
    if (function.static_shared + launch.dynamic_shared > std::max(function.dynamic_limit, max_shared_bytes))
        return invalid_value;
    return success;
}

int launch_now(Launch launch, void* stream)
{
    if (const int failed = check_launch(launch))
        return failed;
    launch.arguments.resize((launch.arguments.size() + 15) / 16 * 16 + 16);
    ContextState* context = current();
    return enqueue(stream, [launch, context] {
        {
            std::lock_guard<std::mutex> lock(context->mutex);
            if (context->sticky.code != success)
                return;
        }
        Finding finding = run_grid(launch);
        if (finding.code == success)
            return;
        std::lock_guard<std::mutex> lock(context->mutex);
        context->sticky = std::move(finding);
    });
}

} // namespace

bool is_tracing()
{
    static const bool on = getenv("SOFTCUDA_TRACE") && *getenv("SOFTCUDA_TRACE") != '0';
    return on;
}

int enter(const char* name, bool needs_context)
{
    if (is_tracing())
        fprintf(stderr, "softcuda: %s\n", name);
    if (!initialised)
        return not_initialized;
    if (!needs_context)
        return success;
    ContextState* context = current();
    if (!context)
        return invalid_context;
    std::lock_guard<std::mutex> lock(context->mutex);
    if (context->sticky.code != success) {
        std::lock_guard<std::mutex> texts_lock(texts_mutex);
        found_texts[context->sticky.code] = std::string(texts.at(context->sticky.code)) + "\nsoftcuda: " + context->sticky.text;
    }
    return context->sticky.code;
}

const void* current_context() { return current(); }

} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuInit(unsigned flags)
{
    if (flags)
        return invalid_value;
    initialised = initialised || open_arena();
    return initialised ? success : out_of_memory;
}

API cuDriverGetVersion(int* version)
{
    *version = 13000;
    return success;
}

API cuGetErrorString(int code, const char** text)
{
    std::lock_guard<std::mutex> lock(texts_mutex);
    const auto found = found_texts.find(code);
    const auto known = texts.find(code);
    *text = found != found_texts.end() ? found->second.c_str() : known != texts.end() ? known->second : nullptr;
    return *text ? success : invalid_value;
}

// Devices: there is one.

API cuDeviceGetCount(int* count)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGetCount);
    *count = 1;
    return success;
}

API cuDeviceGet(int* device, int ordinal)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGet);
    *device = 0;
    return ordinal == 0 ? success : invalid_device;
}

API cuDeviceGetName(char* name, int length, int device)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGetName);
    snprintf(name, size_t(length), "softcuda");
    return device == 0 ? success : invalid_device;
}

API cuDeviceTotalMem_v2(size_t* bytes, int device)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceTotalMem);
    *bytes = total_memory();
    return device == 0 ? success : invalid_device;
}

API cuDeviceComputeCapability(int* major, int* minor, int device)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceComputeCapability);
    *major = attribute(75), *minor = attribute(76);
    return device == 0 ? success : invalid_device;
}

API cuDeviceGetAttribute(int* value, int number, int device)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGetAttribute);
    *value = attribute(number);
    return device == 0 ? success : invalid_device;
}

API cuDeviceGetPCIBusId(char* text, int length, int device)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGetPCIBusId);
    snprintf(text, size_t(length), "softcuda:0");
    return device == 0 ? success : invalid_device;
}

API cuDeviceGetByPCIBusId(int* device, const char* text)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGetByPCIBusId);
    *device = 0;
    return strcmp(text, "softcuda:0") == 0 ? success : invalid_device;
}

API cuDeviceCanAccessPeer(int* can, int, int)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceCanAccessPeer);
    *can = 0;
    return success;
}

// Contexts.

API cuCtxCreate_v2(ContextState** context, unsigned flags, int device)
{
    ENTER_WITHOUT_CONTEXT(cuCtxCreate);
    if (!context || device != 0)
        return context ? invalid_device : invalid_value;
    *context = new ContextState;
    (*context)->flags = flags;
    context_stack.push_back(*context);
    return success;
}

API cuCtxCreate_v4(ContextState** context, void*, unsigned flags, int device)
{
    return cuCtxCreate_v2(context, flags, device);
}

API cuCtxDestroy_v2(ContextState* context)
{
    ENTER_WITHOUT_CONTEXT(cuCtxDestroy);
    if (!context)
        return invalid_context;
    destroy(context);
    return success;
}

API cuCtxAttach(ContextState** context, unsigned)
{
    ENTER_WITHOUT_CONTEXT(cuCtxAttach);
    if (!current())
        return invalid_context;
    ++current()->uses;
    *context = current();
    return success;
}

API cuCtxDetach(ContextState* context)
{
    ENTER_WITHOUT_CONTEXT(cuCtxDetach);
    if (!context)
        return invalid_context;
    if (--context->uses == 0)
        destroy(context);
    return success;
}

API cuCtxPushCurrent_v2(ContextState* context)
{
    ENTER_WITHOUT_CONTEXT(cuCtxPushCurrent);
    if (!context)
        return invalid_context;
    context_stack.push_back(context);
    return success;
}

API cuCtxPopCurrent_v2(ContextState** context)
{
    ENTER_WITHOUT_CONTEXT(cuCtxPopCurrent);
    if (!current())
        return invalid_context;
    if (context)
        *context = current();
    context_stack.pop_back();
    return success;
}

API cuCtxGetDevice(int* device)
{
    ENTER_WITHOUT_CONTEXT(cuCtxGetDevice);
    *device = 0;
    return current() ? success : invalid_context;
}

API cuCtxGetApiVersion(ContextState*, unsigned* version)
{
    ENTER_WITHOUT_CONTEXT(cuCtxGetApiVersion);
    *version = 3020;
    return success;
}

API cuCtxSynchronize()
{
    ENTER(cuCtxSynchronize);
    wait_for_everything();
    return enter("cuCtxSynchronize (after)", true);
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
PREFERENCE(cuCtxSetCacheConfig, int)
PREFERENCE(cuCtxSetSharedMemConfig, int)
PREFERENCE(cuFuncSetCacheConfig, Function*, int)
PREFERENCE(cuProfilerStart)
PREFERENCE(cuProfilerStop)

API cuCtxGetCacheConfig(int* config)
{
    ENTER(cuCtxGetCacheConfig);
    *config = 0;
    return success;
}

API cuCtxGetSharedMemConfig(int* config)
{
    ENTER(cuCtxGetSharedMemConfig);
    *config = 1; // four-byte banks
    return success;
}

API cuDevicePrimaryCtxRetain(ContextState** context, int device)
{
    ENTER_WITHOUT_CONTEXT(cuDevicePrimaryCtxRetain);
    if (device != 0)
        return invalid_device;
    if (primary_uses++ == 0)
        primary = new ContextState;
    *context = primary;
    return success;
}

API cuDevicePrimaryCtxRelease_v2(int device)
{
    ENTER_WITHOUT_CONTEXT(cuDevicePrimaryCtxRelease);
    if (device != 0 || primary_uses == 0)
        return device ? invalid_device : invalid_context;
    if (--primary_uses == 0)
        destroy(primary);
    return success;
}

// Functions and launches.

API cuFuncGetAttribute(int* value, int number, Function* function)
{
    ENTER(cuFuncGetAttribute);
    if (!function || !value)
        return function ? invalid_value : invalid_handle;
    const int values[] = {int(max_threads), int(function->static_shared), 0, 0, 0, 75, 75, 0, int(function->dynamic_limit)};
    if (number < 0 || number > 8)
        return invalid_value;
    *value = values[number];
    return success;
}

API cuFuncSetAttribute(Function* function, int number, int value)
{
    ENTER(cuFuncSetAttribute);
    if (!function)
        return invalid_handle;
    if (number != 8 || value < 0 || unsigned(value) + function->static_shared > max_shared_opt_in)
        return invalid_value;
    function->dynamic_limit = unsigned(value);
    return success;
}

API cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, void* stream, void** parameters, void** extra)
{
    ENTER(cuLaunchKernel);
    if (!function)
        return invalid_handle;
    const KernelEntry& entry = *function->entry;
    Launch launch {function, {gx, gy, gz}, {bx, by, bz}, shared, {}};
    if (parameters) {
        launch.arguments.resize(entry.argument_bytes);
        for (unsigned i = 0; i < entry.argument_count; ++i)
            memcpy(launch.arguments.data() + entry.offsets[i], parameters[i], entry.sizes[i]);
        return launch_now(std::move(launch), stream);
    }
    const char* buffer = nullptr;
    size_t size = 0;
    for (; extra && *extra; extra += 2) {
        if (*extra == reinterpret_cast<void*>(1)) // CU_LAUNCH_PARAM_BUFFER_POINTER
            buffer = static_cast<const char*>(extra[1]);
        else if (*extra == reinterpret_cast<void*>(2)) // CU_LAUNCH_PARAM_BUFFER_SIZE
            size = *static_cast<const size_t*>(extra[1]);
        else
            return invalid_value;
    }
    // What is behind the last argument, up to its alignment, may be there or not.
    if (size < entry.argument_bytes || size > (entry.argument_bytes + 15u) / 16 * 16)
        return invalid_value;
    if (buffer)
        launch.arguments.assign(buffer, buffer + size);
    return launch_now(std::move(launch), stream);
}

// The calls of before CUDA 4, which PyCUDA still makes for some of its own.

API cuFuncSetBlockShape(Function* function, int x, int y, int z)
{
    ENTER(cuFuncSetBlockShape);
    if (!function)
        return invalid_handle;
    function->block = {unsigned(x), unsigned(y), unsigned(z)};
    return success;
}

API cuFuncSetSharedSize(Function* function, unsigned bytes)
{
    ENTER(cuFuncSetSharedSize);
    if (!function)
        return invalid_handle;
    function->dynamic_shared = bytes;
    return success;
}

API cuParamSetSize(Function* function, unsigned bytes)
{
    ENTER(cuParamSetSize);
    if (!function)
        return invalid_handle;
    function->arguments.resize(bytes);
    return success;
}

API cuParamSetv(Function* function, int offset, const void* bytes, unsigned count)
{
    ENTER(cuParamSetv);
    if (!function)
        return invalid_handle;
    function->arguments.resize(std::max(function->arguments.size(), size_t(offset) + count));
    memcpy(function->arguments.data() + offset, bytes, count);
    return success;
}

API cuParamSeti(Function* function, int offset, unsigned value) { return cuParamSetv(function, offset, &value, 4); }
API cuParamSetf(Function* function, int offset, float value) { return cuParamSetv(function, offset, &value, 4); }

API cuLaunchGridAsync(Function* function, int x, int y, void* stream)
{
    ENTER(cuLaunchGridAsync);
    if (!function)
        return invalid_handle;
    if (function->arguments.size() < function->entry->argument_bytes)
        return invalid_value;
    const Dim grid {unsigned(x), unsigned(y), 1};
    return launch_now(Launch {function, grid, function->block, function->dynamic_shared, function->arguments}, stream);
}

API cuLaunchGrid(Function* function, int x, int y) { return cuLaunchGridAsync(function, x, y, nullptr); }
API cuLaunch(Function* function) { return cuLaunchGridAsync(function, 1, 1, nullptr); }

} // extern "C"

// What kernels call when they give up.

extern "C" EXPORT void softcuda_trap(const char* why)
{
    const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
    const bool assert_failed = strncmp(why, "assert", 6) == 0;
    fault(assert_failed ? assertion : illegal_instruction,
        std::string(why) + " " + in_kernel() + "\n  " + where(pc) + ": " + who(running.thread));
}
