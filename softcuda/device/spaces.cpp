// In which memory an address lies, for a kernel that asks (__isShared and its like).
#include "executor.h"

using namespace softcuda;

extern "C" EXPORT int softcuda_space(const void* pointer)
{
    enum { none, global, shared, constant, local };
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const auto place = static_cast<const char*>(pointer);
    const StackRange stacks = thread_stacks();
    if (address - stacks.first < stacks.size)
        return local;
    const Image& image = *running.launch->function->module->image;
    const char* dynamic = dynamic_shared();
    if ((place >= image.first_shared && place < image.last_shared)
        || (place >= dynamic && place < dynamic + running.launch->dynamic_shared))
        return shared;
    for (const Symbol* symbol = image.first_symbol; symbol != image.last_symbol; ++symbol)
        if (place >= symbol->address && place < symbol->address + symbol->size)
            return symbol->kind == SymbolKind::constant ? constant : symbol->kind == SymbolKind::device ? global : shared;
    return is_device_range(address, 1) || is_host_range(address, 1) ? global : none;
}
