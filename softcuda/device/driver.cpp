// The CUDA driver API: devices, contexts, errors. The rest is in contexts.cpp, launch.cpp, memory.cpp, copies.cpp,
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
    {cooperative_launch_too_large, "too many blocks in cooperative launch"},
    {not_permitted, "operation not permitted"},
    {not_supported, "operation not supported"},
    {capture_unsupported, "operation not permitted when stream is capturing"},
    {capture_invalidated, "operation failed due to a previous error during capture"},
    {capture_unmatched, "capture was not initiated in this stream"},
    {graph_update_failed, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"},
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
    if (context == primary) // who kept it may retain it again
        context->sticky = {};
    else
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
        {21, 131072}, {22, 131072}, {23, 65536}, {24, 16384}, {25, 16384}, {26, 16384}, // extents of textures
        {27, 32768}, {28, 32768}, {29, 2048}, {30, 512}, {51, 32}, // of layered ones; alignment of surfaces, and of pitches
        {39, 1024}, {40, 1}, {41, 1},  // threads a multiprocessor, copy engines, unified addresses
        {75, 9}, {76, 0},              // compute capability
        {81, int(max_shared_opt_in)}, {82, 65536}, {95, 1}, {97, int(max_shared_opt_in)}, {106, 1},
    };
    const auto found = values.find(number);
    return found == values.end() ? 0 : found->second;
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

ContextState* current_context() { return current(); }
std::vector<ContextState*>& contexts_of_thread() { return context_stack; }

void say(int code, const std::string& sentence)
{
    std::lock_guard<std::mutex> lock(texts_mutex);
    found_texts[code] = std::string(texts.at(code)) + "\nsoftcuda: " + sentence;
}

std::string said(int code)
{
    std::lock_guard<std::mutex> lock(texts_mutex);
    const auto found = found_texts.find(code);
    return found == found_texts.end() ? "" : found->second.substr(found->second.find('\n'));
}

int not_here(const std::string& what)
{
    say(not_supported, "it does not have " + what);
    return not_supported;
}

bool has_failed(ContextState* context)
{
    std::lock_guard<std::mutex> lock(context->mutex);
    return context->sticky.code != success;
}

void fail(ContextState* context, Finding finding)
{
    std::lock_guard<std::mutex> lock(context->mutex);
    if (context->sticky.code == success) // others may come of it
        context->sticky = std::move(finding);
}

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
    wait_for_everything(Waits::for_the_host);
    return enter("cuCtxSynchronize (after)", true);
}

API cuDevicePrimaryCtxRetain(ContextState** context, int device)
{
    ENTER_WITHOUT_CONTEXT(cuDevicePrimaryCtxRetain);
    if (device != 0)
        return invalid_device;
    if (!primary)
        primary = new ContextState;
    ++primary_uses;
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

// What was found in it is forgotten, and what it held is given back; it stays current where it is.
API cuDevicePrimaryCtxReset_v2(int device)
{
    ENTER_WITHOUT_CONTEXT(cuDevicePrimaryCtxReset);
    const auto stack = context_stack;
    if (device == 0 && primary)
        destroy(primary);
    context_stack = stack;
    return device == 0 ? success : invalid_device;
}

API cuDevicePrimaryCtxSetFlags_v2(int device, unsigned)
{
    ENTER_WITHOUT_CONTEXT(cuDevicePrimaryCtxSetFlags);
    return device == 0 ? success : invalid_device; // how a host waits is the same here whatever it asks for
}

API cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active)
{
    ENTER_WITHOUT_CONTEXT(cuDevicePrimaryCtxGetState);
    if (flags)
        *flags = 0;
    if (active)
        *active = primary_uses > 0;
    return device == 0 ? success : invalid_device;
}

} // extern "C"
