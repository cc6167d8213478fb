// The CUDA driver API: the linker of device code, which has nothing to link here: it hands on one image of softcuda's own
// compiler, and says what it does not take. Numba's code comes this way.
#include <cstring>

#include "driver.h"

namespace softcuda {

struct LinkState {
    char* log = nullptr; // for errors, of the caller
    size_t log_size = 0;
    std::vector<char> image;
};

namespace {

constexpr int library = 4; // CUjitInputType

// CUjit_option: 3 and 5 are buffers for what the linker has to say, of errors the latter; 4 and 6 are their sizes.
void find_log(LinkState& state, unsigned count, const int* options, void** values)
{
    for (unsigned i = 0; i < count; ++i) {
        if (options[i] == 5)
            state.log = static_cast<char*>(values[i]);
        if (options[i] == 6)
            state.log_size = size_t(values[i]);
    }
    if (state.log && state.log_size)
        *state.log = 0;
}

// Write down why a call fails.
int told(const LinkState& state, int code)
{
    if (state.log && state.log_size)
        snprintf(state.log, state.log_size, "%s", said(code).c_str());
    return code;
}

int take(LinkState& state, const char* data, size_t size)
{
    if (!state.image.empty())
        return told(state, not_here("a linker for several images: compile what belongs together as one source"));
    char first[8] {};
    memcpy(first, data, size < sizeof first ? size : sizeof first);
    if (memcmp(first, "SOFTCUDA", 8) != 0)
        return told(state, refuse_image(first));
    state.image.assign(data, data + size);
    return success;
}

// The library of kernels that launch others, of which there are none here.
bool is_device_runtime(const char* path)
{
    const char* const folder = strrchr(path, '/');
    return strcmp(folder ? folder + 1 : path, "libcudadevrt.a") == 0;
}

} // namespace
} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuLinkCreate_v2(unsigned count, const int* options, void** values, LinkState** state)
{
    ENTER(cuLinkCreate);
    if (!state)
        return invalid_value;
    *state = new LinkState;
    find_log(**state, count, options, values);
    return success;
}

API cuLinkAddData_v2(LinkState* state, int, const void* data, size_t size, const char*, unsigned, int*, void**)
{
    ENTER(cuLinkAddData);
    return state && data ? take(*state, static_cast<const char*>(data), size) : invalid_value;
}

API cuLinkAddFile_v2(LinkState* state, int type, const char* path, unsigned, int*, void**)
{
    ENTER(cuLinkAddFile);
    std::vector<char> bytes;
    const int failed = state ? read_image(bytes, path) : invalid_value;
    if (!failed && type == library && is_device_runtime(path))
        return success;
    return failed ? failed : take(*state, bytes.data(), bytes.size());
}

API cuLinkComplete(LinkState* state, void** image, size_t* size)
{
    ENTER(cuLinkComplete);
    if (!state || !image || state->image.empty())
        return invalid_value;
    *image = state->image.data();
    if (size)
        *size = state->image.size();
    return success;
}

API cuLinkDestroy(LinkState* state)
{
    ENTER_WITHOUT_CONTEXT(cuLinkDestroy);
    if (!state)
        return invalid_value;
    delete state;
    return success;
}

} // extern "C"
