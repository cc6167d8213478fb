// The CUDA driver API: functions by their name and the version of CUDA that a client was made for; names of errors.
// What this library has is what it exports. Any other function of CUDA 13.0 is one that answers
// CUDA_ERROR_NOT_SUPPORTED, and says its own name.
#include <dlfcn.h>

#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "driver.h"

namespace softcuda {
namespace {

constexpr int own_version = 13000;

// Where "_v2" from CUDA 3.2 on is not the whole truth: what is behind the name, by the version. cudaTypedefs.h has them.
struct Version {
    const char* name;
    int since;
    const char* suffix; // null: there was another function of that name, which is not here
};
constexpr Version versions[] = {
    {"cuCtxCreate", 12050, "_v4"}, {"cuCtxCreate", 11040, "_v3"},
    {"cuCtxGetDevice", 13000, "_v2"}, {"cuCtxGetDevice", 0, ""},
    {"cuCtxSynchronize", 13000, "_v2"}, {"cuCtxSynchronize", 0, ""},
    {"cuDeviceGetUuid", 0, ""},
    {"cuGetProcAddress", 12000, "_v2"}, {"cuGetProcAddress", 0, ""},
    {"cuGraphAddDependencies", 12030, "_v2"}, {"cuGraphAddDependencies", 0, ""},
    {"cuGraphAddKernelNode", 12000, "_v2"}, {"cuGraphAddKernelNode", 0, nullptr},
    {"cuGraphAddNode", 12030, "_v2"}, {"cuGraphAddNode", 0, nullptr},
    {"cuGraphExecKernelNodeSetParams", 12000, "_v2"}, {"cuGraphExecKernelNodeSetParams", 0, nullptr},
    {"cuGraphExecUpdate", 12000, "_v2"}, {"cuGraphExecUpdate", 0, nullptr},
    {"cuGraphGetEdges", 12030, "_v2"}, {"cuGraphGetEdges", 0, nullptr},
    {"cuGraphInstantiate", 12000, "WithFlags"}, {"cuGraphInstantiate", 0, nullptr},
    {"cuGraphKernelNodeSetParams", 12000, "_v2"}, {"cuGraphKernelNodeSetParams", 0, nullptr},
    {"cuGraphNodeGetDependencies", 12030, "_v2"}, {"cuGraphNodeGetDependencies", 0, nullptr},
    {"cuStreamGetCaptureInfo", 12030, "_v3"}, {"cuStreamGetCaptureInfo", 11030, "_v2"},
    {"cuStreamGetCaptureInfo", 0, nullptr},
    {"cuStreamGetCtx", 12050, "_v2"}, {"cuStreamGetCtx", 0, ""},
    {"cuStreamUpdateCaptureDependencies", 12030, "_v2"}, {"cuStreamUpdateCaptureDependencies", 0, ""},
};

// Functions that are made for names, as far as there are any.
constexpr size_t most_stubs = 512;
std::array<std::string, most_stubs>& stub_names = *new std::array<std::string, most_stubs>;
size_t stub_count = 0;
std::mutex& stubs_mutex = *new std::mutex;

__attribute__((noinline)) int refuse(size_t number)
{
    enter((stub_names[number] + " (not supported)").c_str(), false);
    return not_here(stub_names[number]);
}

template <size_t number>
int stub()
{
    return refuse(number);
}

template <size_t... numbers>
constexpr std::array<int (*)(), most_stubs> all_stubs(std::index_sequence<numbers...>)
{
    return {stub<numbers>...};
}
constexpr auto stubs = all_stubs(std::make_index_sequence<most_stubs>());

void* stub_for(const char* name)
{
    std::lock_guard<std::mutex> lock(stubs_mutex);
    for (size_t i = 0; i < stub_count; ++i)
        if (stub_names[i] == name)
            return reinterpret_cast<void*>(stubs[i]);
    if (stub_count == most_stubs)
        return nullptr;
    stub_names[stub_count] = name;
    return reinterpret_cast<void*>(stubs[stub_count++]);
}

void* exported(const std::string& name)
{
    static void* const own = [] {
        Dl_info info;
        dladdr(reinterpret_cast<void*>(&exported), &info);
        return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }();
    return dlsym(own, name.c_str());
}

// The function of a name as CUDA of that version has it; null where no such function is here.
void* function_for(const std::string& name, int version)
{
    for (const Version& each : versions)
        if (name == each.name && version >= each.since)
            return each.suffix ? exported(name + each.suffix) : nullptr;
    void* newer = version >= 3020 ? exported(name + "_v2") : nullptr;
    return newer ? newer : exported(name);
}

struct Name {
    int code;
    const char* text;
};
constexpr Name names[] = {
    {success, "CUDA_SUCCESS"}, {invalid_value, "CUDA_ERROR_INVALID_VALUE"}, {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY"},
    {not_initialized, "CUDA_ERROR_NOT_INITIALIZED"}, {invalid_device, "CUDA_ERROR_INVALID_DEVICE"},
    {invalid_image, "CUDA_ERROR_INVALID_IMAGE"}, {invalid_context, "CUDA_ERROR_INVALID_CONTEXT"},
    {map_failed, "CUDA_ERROR_MAP_FAILED"}, {file_not_found, "CUDA_ERROR_FILE_NOT_FOUND"}, {invalid_handle, "CUDA_ERROR_INVALID_HANDLE"},
    {not_found, "CUDA_ERROR_NOT_FOUND"}, {not_ready, "CUDA_ERROR_NOT_READY"},
    {illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {assertion, "CUDA_ERROR_ASSERT"}, {host_memory_not_registered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    {stack_error, "CUDA_ERROR_HARDWARE_STACK_ERROR"}, {illegal_instruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
    {misaligned_address, "CUDA_ERROR_MISALIGNED_ADDRESS"}, {launch_failed, "CUDA_ERROR_LAUNCH_FAILED"},
    {cooperative_launch_too_large, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"},
    {not_permitted, "CUDA_ERROR_NOT_PERMITTED"}, {not_supported, "CUDA_ERROR_NOT_SUPPORTED"},
    {capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {capture_unmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"}, {graph_update_failed, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"},
    {unknown, "CUDA_ERROR_UNKNOWN"},
};

} // namespace
} // namespace softcuda

using namespace softcuda;

extern "C" {

// With what was found, as cuGetErrorString: cuda.core and many others show the name alone, beside a text of their own.
API cuGetErrorName(int code, const char** name)
{
    thread_local std::string text;
    *name = nullptr;
    for (const Name& each : names)
        if (each.code == code) {
            text = each.text + said(code);
            *name = text.c_str();
        }
    return *name ? success : invalid_value;
}

// A flag asks for functions whose null stream is the thread's own; here that is the same stream as the legacy one.
API cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t, int* found)
{
    if (!name || !function)
        return invalid_value;
    enter((std::string("cuGetProcAddress ") + name).c_str(), false);
    *function = version <= own_version && strncmp(name, "cu", 2) == 0 ? function_for(name, version) : nullptr;
    if (!*function && version <= own_version && strncmp(name, "cu", 2) == 0 && name[2] >= 'A' && name[2] <= 'Z')
        *function = stub_for(name);
    if (found)
        *found = *function ? 0 : version > own_version ? 2 : 1; // CUdriverProcAddressQueryResult
    return *function ? success : not_found;
}

API cuGetProcAddress(const char* name, void** function, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

// Tables that NVIDIA's own libraries ask for, which are not documented.
API cuGetExportTable(const void** table, const void*)
{
    enter("cuGetExportTable (not supported)", false);
    if (table)
        *table = nullptr;
    return not_here("cuGetExportTable, which NVIDIA's CUDA runtime (libcudart) needs: use the driver API");
}

} // extern "C"
