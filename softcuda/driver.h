// What the API's files share: entry and exit of a call, contexts, the order of work.
#pragma once

#include <functional>

#include "internal.h"

#define API EXPORT int

namespace softcuda {

struct ContextState;
struct StreamState;

// At the head of a call: trace it; answer with the error that ended the context, if one did.
int enter(const char* name, bool needs_context);
#define ENTER(name) \
    if (const int failed = softcuda::enter(#name, true)) \
        return failed
#define ENTER_WITHOUT_CONTEXT(name) \
    if (const int failed = softcuda::enter(#name, false)) \
        return failed

ContextState* current_context(); // null where there is none
bool has_failed(ContextState* context);
void fail(ContextState* context, Finding finding); // from now on every call in this context answers so

// streams.cpp
using Work = std::function<void()>;
int enqueue(void* stream, Work work); // null: the default stream
int finish_stream(void* stream);
void wait_for_everything();
void end_streams_of(const void* context);

bool is_module_variable(uintptr_t address, size_t size);
void unload_modules_of(const void* context);

} // namespace softcuda
