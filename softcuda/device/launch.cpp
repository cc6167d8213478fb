// The CUDA driver API: functions and launches, with the limits of a real GPU.
#include "driver.h"

#include <algorithm>
#include <cstring>

namespace softcuda {

// What a block may have at most: the device's limit, or the kernel's own (__launch_bounds__).
unsigned most_threads(const Function& function)
{
    const unsigned bound = function.entry->record->launch_bound;
    return bound ? bound : max_threads;
}

namespace {

int check_launch(const Launch& launch)
{
    const Dim &grid = launch.grid, &block = launch.block;
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z)
        return invalid_value;
    if (grid.x > 2147483647u || grid.y > max_grid_yz || grid.z > max_grid_yz || block.x > max_threads
        || block.y > max_threads || block.z > max_block_z || uint64_t(block.x) * block.y * block.z > max_threads)
        return invalid_value;
    const Function& function = *launch.function;
    if (block.x * block.y * block.z > most_threads(function)) // the driver's own code, seen with 13.0 on an H100
        return invalid_value;
    if (launch.cooperative && uint64_t(grid.x) * grid.y * grid.z * block.x * block.y * block.z > max_alive)
        return cooperative_launch_too_large;
    if (function.static_shared + launch.dynamic_shared > function.most_shared())
        return invalid_value;
    return success;
}

// The arguments of a kernel as they lie in the packed buffer.
std::vector<char> packed(const KernelRecord& entry, void** parameters)
{
    std::vector<char> arguments(entry.argument_bytes);
    for (unsigned i = 0; i < entry.argument_count; ++i)
        memcpy(arguments.data() + entry.offsets()[i], parameters[i], entry.sizes()[i]);
    return arguments;
}

} // namespace

Checked launch_work(Launch launch)
{
    if (const int failed = check_launch(launch))
        return {failed, nullptr};
    launch.arguments.resize((launch.arguments.size() + 15) / 16 * 16 + 16);
    ContextState* context = current_context();
    return {success, [launch, context] {
        if (has_failed(context))
            return;
        Finding finding = run_grid(launch);
        if (finding.code != success)
            fail(context, std::move(finding));
    }};
}

int unpacked(Launch& launch, void** parameters, void** extra)
{
    const KernelRecord& entry = *launch.function->entry->record;
    if (parameters) {
        launch.arguments = packed(entry, parameters);
        return success;
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
    return success;
}

namespace {

int launch_now(Launch launch, void* stream)
{
    Checked checked = launch_work(std::move(launch));
    return checked.code ? checked.code : enqueue(stream, std::move(checked.work), NodeKind::kernel);
}

// CUlaunchConfig and CUlaunchAttribute as cuda.h lays them out.
struct Attribute {
    unsigned name, padding;
    union {
        unsigned values[16];
    };
};
struct Config {
    Dim grid, block;
    unsigned shared;
    void* stream;
    const Attribute* attributes;
    unsigned attribute_count;
};

// Apply an attribute that changes what is computed: 2 is a cooperative launch, 4 the size of a cluster, 6 an overlap with the
// launch before in the stream, which is checked and does not happen. The others are about speed.
int take(const Attribute& attribute, Launch& launch)
{
    if (attribute.name == 2)
        launch.cooperative = attribute.values[0];
    if (attribute.name == 6)
        launch.programmatic = attribute.values[0];
    if (attribute.name == 4 && uint64_t(attribute.values[0]) * attribute.values[1] * attribute.values[2] > 1)
        return not_here("a launch in clusters of several blocks");
    return success;
}

} // namespace
} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuFuncGetAttribute(int* value, int number, Function* function)
{
    ENTER(cuFuncGetAttribute);
    if (!function || !value)
        return function ? invalid_value : invalid_handle;
    const int values[] = {int(most_threads(*function)), int(function->static_shared), 0, 0, 0, 75, 75, 0,
        int(function->most_shared() - function->static_shared)};
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
    Launch launch {function, {gx, gy, gz}, {bx, by, bz}, shared, {}};
    const int failed = unpacked(launch, parameters, extra);
    return failed ? failed : launch_now(std::move(launch), stream);
}

API cuLaunchKernelEx(const Config* config, Function* function, void** parameters, void** extra)
{
    ENTER(cuLaunchKernelEx);
    if (!function || !config)
        return function ? invalid_value : invalid_handle;
    Launch launch {function, config->grid, config->block, config->shared, {}};
    for (unsigned i = 0; i < config->attribute_count; ++i)
        if (const int failed = take(config->attributes[i], launch))
            return failed;
    const int failed = unpacked(launch, parameters, extra);
    return failed ? failed : launch_now(std::move(launch), config->stream);
}

API cuLaunchCooperativeKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, void* stream, void** parameters)
{
    ENTER(cuLaunchCooperativeKernel);
    if (!function)
        return invalid_handle;
    const KernelRecord& entry = *function->entry->record;
    if (entry.argument_count && !parameters)
        return invalid_value;
    return launch_now(Launch {function, {gx, gy, gz}, {bx, by, bz}, shared, packed(entry, parameters), true}, stream);
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
    if (function->arguments.size() < function->entry->record->argument_bytes)
        return invalid_value;
    const Dim grid {unsigned(x), unsigned(y), 1};
    return launch_now(Launch {function, grid, function->block, function->dynamic_shared, function->arguments}, stream);
}

API cuLaunchGrid(Function* function, int x, int y) { return cuLaunchGridAsync(function, x, y, nullptr); }
API cuLaunch(Function* function) { return cuLaunchGridAsync(function, 1, 1, nullptr); }

} // extern "C"

// What kernels call when they give up.

namespace {

void give_up(Result error, const std::string& why, const void* address)
{
    fault(error, why + " " + in_kernel() + "\n  " + where(reinterpret_cast<uintptr_t>(address)) + ": " + who(running.thread));
}

} // namespace

extern "C" EXPORT void softcuda_trap(const char* why) { give_up(illegal_instruction, why, __builtin_return_address(0)); }

extern "C" EXPORT void softcuda_assert_fail(const char* condition, const char*, unsigned, const char*)
{
    give_up(assertion, std::string("assert(") + condition + ")", __builtin_return_address(0));
}
