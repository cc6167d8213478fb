// The CUDA driver API: libraries and their kernels, which belong to no context; what is known of a function. A library
// is a module here, and a kernel is its function, so that every launch takes both.
#include <cstring>

#include "driver.h"

namespace softcuda {
namespace {

const char of_no_context = 0; // the owner of what cuLibraryLoadData loads

} // namespace
} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuModuleGetFunction(Function** function, Module* module, const char* name);
API cuModuleGetGlobal_v2(uintptr_t* address, size_t* size, Module* module, const char* name);
API cuFuncGetAttribute(int* value, int number, Function* function);
API cuFuncSetAttribute(Function* function, int number, int value);

API cuLibraryLoadData(Module** library, const void* image, int*, void**, unsigned, int*, void**, unsigned)
{
    ENTER_WITHOUT_CONTEXT(cuLibraryLoadData);
    return load_image(library, static_cast<const char*>(image), &of_no_context);
}

API cuLibraryLoadFromFile(Module** library, const char* path, int*, void**, unsigned, int*, void**, unsigned)
{
    ENTER_WITHOUT_CONTEXT(cuLibraryLoadFromFile);
    std::vector<char> bytes;
    const int failed = read_image(bytes, path);
    return failed ? failed : load_image(library, bytes.data(), &of_no_context);
}

API cuLibraryUnload(Module* library)
{
    ENTER_WITHOUT_CONTEXT(cuLibraryUnload);
    if (!known(library))
        return invalid_handle;
    wait_for_every_context();
    unload_module(library);
    return success;
}

API cuLibraryGetModule(Module** module, Module* library)
{
    ENTER(cuLibraryGetModule);
    if (!module || !known(library))
        return module ? invalid_handle : invalid_value;
    *module = library;
    return success;
}

API cuLibraryGetKernel(Function** kernel, Module* library, const char* name)
{
    ENTER_WITHOUT_CONTEXT(cuLibraryGetKernel);
    if (!kernel || !name || !known(library))
        return kernel && name ? invalid_handle : invalid_value;
    for (const auto& each : library->functions)
        if (each->name == name) {
            *kernel = each.get();
            return success;
        }
    return not_found;
}

API cuLibraryGetGlobal(uintptr_t* address, size_t* size, Module* library, const char* name)
{
    return cuModuleGetGlobal_v2(address, size, library, name);
}

API cuModuleGetFunctionCount(unsigned* count, Module* module)
{
    ENTER_WITHOUT_CONTEXT(cuModuleGetFunctionCount);
    if (!count || !known(module))
        return count ? invalid_handle : invalid_value;
    *count = unsigned(module->functions.size());
    return success;
}

API cuModuleEnumerateFunctions(Function** functions, unsigned count, Module* module)
{
    ENTER_WITHOUT_CONTEXT(cuModuleEnumerateFunctions);
    if (!functions || !known(module))
        return functions ? invalid_handle : invalid_value;
    for (unsigned i = 0; i < count && i < module->functions.size(); ++i)
        functions[i] = module->functions[i].get();
    return success;
}

API cuLibraryGetKernelCount(unsigned* count, Module* library) { return cuModuleGetFunctionCount(count, library); }
API cuLibraryEnumerateKernels(Function** kernels, unsigned count, Module* library)
{
    return cuModuleEnumerateFunctions(kernels, count, library);
}

API cuModuleGetLoadingMode(int* mode)
{
    ENTER_WITHOUT_CONTEXT(cuModuleGetLoadingMode);
    *mode = 1; // all of a module at once
    return success;
}

// Functions and kernels.

API cuKernelGetFunction(Function** function, Function* kernel)
{
    ENTER(cuKernelGetFunction);
    if (!function || !kernel)
        return function ? invalid_handle : invalid_value;
    *function = kernel;
    return success;
}

API cuFuncGetModule(const Module** module, Function* function)
{
    ENTER_WITHOUT_CONTEXT(cuFuncGetModule);
    if (!module || !function)
        return module ? invalid_handle : invalid_value;
    *module = function->module;
    return success;
}

API cuKernelGetLibrary(const Module** library, Function* kernel) { return cuFuncGetModule(library, kernel); }

API cuFuncGetName(const char** name, Function* function)
{
    ENTER_WITHOUT_CONTEXT(cuFuncGetName);
    if (!name || !function)
        return invalid_value;
    *name = function->name.c_str();
    return success;
}

API cuKernelGetName(const char** name, Function* kernel) { return cuFuncGetName(name, kernel); }

API cuFuncGetParamInfo(Function* function, size_t index, size_t* offset, size_t* size)
{
    ENTER_WITHOUT_CONTEXT(cuFuncGetParamInfo);
    if (!function || !offset || index >= function->entry->record->argument_count)
        return invalid_value; // clients count parameters by it
    const KernelRecord& record = *function->entry->record;
    *offset = record.offsets()[index];
    if (size)
        *size = record.sizes()[index];
    return success;
}

API cuKernelGetParamInfo(Function* kernel, size_t index, size_t* offset, size_t* size)
{
    return cuFuncGetParamInfo(kernel, index, offset, size);
}

API cuFuncGetParamCount(Function* function, size_t* count)
{
    ENTER_WITHOUT_CONTEXT(cuFuncGetParamCount);
    if (!function || !count)
        return invalid_value;
    *count = function->entry->record->argument_count;
    return success;
}

API cuKernelGetParamCount(Function* kernel, size_t* count) { return cuFuncGetParamCount(kernel, count); }

API cuFuncIsLoaded(int* state, Function* function)
{
    ENTER_WITHOUT_CONTEXT(cuFuncIsLoaded);
    if (!state || !function)
        return invalid_value;
    *state = 1;
    return success;
}

API cuFuncLoad(Function*)
{
    ENTER_WITHOUT_CONTEXT(cuFuncLoad);
    return success;
}

API cuKernelGetAttribute(int* value, int number, Function* kernel, int device)
{
    return device == 0 ? cuFuncGetAttribute(value, number, kernel) : invalid_device;
}

API cuKernelSetAttribute(int number, int value, Function* kernel, int device)
{
    return device == 0 ? cuFuncSetAttribute(kernel, number, value) : invalid_device;
}

API cuKernelSetCacheConfig(Function*, int, int)
{
    ENTER(cuKernelSetCacheConfig);
    return success;
}

} // extern "C"
