// What the API's files share: entry and exit of a call, contexts, the order of work.
#pragma once

#include <functional>
#include <shared_mutex>

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
std::vector<ContextState*>& contexts_of_thread(); // the last one is the current one
void say(int code, const std::string& sentence); // from now on, cuGetErrorString says so of that code
std::string said(int code); // such a sentence, or what was found, on a line of its own; "" where there is none
int not_here(const std::string& what); // CUDA_ERROR_NOT_SUPPORTED, with what it is
void fail(ContextState* context, Finding finding); // from now on every call in this context answers so

// streams.cpp
using Work = std::function<void()>;
enum class NodeKind { kernel = 0, copy = 1, fill = 2, host = 3, graph = 4, empty = 5 }; // CUgraphNodeType
int enqueue(void* stream, Work work, NodeKind kind); // null: the default stream
bool is_capturing(void* stream);
// Who waits. Where CUDA does not let the host wait, nothing is synchronised, although this device works before it returns.
enum class Waits { for_the_host, for_itself };
int finish_stream(void* stream, Waits waits = Waits::for_the_host);
void wait_for_everything(Waits waits); // in the current context
bool is_everything_done(); // there
void wait_for_every_context();
void end_streams_of(const void* context);

// launch.cpp, copies.cpp: what a call or a node of a graph does, checked. The code is success, or why it cannot be done.
struct Checked {
    int code;
    Work work;
};
struct Copy3D;
Checked launch_work(Launch launch);
int unpacked(Launch& launch, void** parameters, void** extra); // of cuLaunchKernel
unsigned most_threads(const Function& function);
Checked copy_work(Copy3D what);
Checked fill_work(uintptr_t address, size_t pitch, unsigned value, unsigned bytes, size_t width, size_t height);

// memory.cpp
extern std::shared_mutex& memory_in_use; // shared by copies, queued or done, alone what gives memory back
Result allocate(uintptr_t* address, size_t size, int file = -1); // the memory is that file's, if one is given
Result release_at(uintptr_t address); // when nothing uses it any more
Result move_to_file(Allocation& allocation, int file); // with its bytes
bool is_of_pool(uintptr_t address); // pools.cpp

// ipc.cpp
bool is_of_another_process(uintptr_t base);
void stop_sharing(uintptr_t base); // with processes that have not opened it yet

// module.cpp
int load_image(Module** result, const char* bytes, const void* owner); // a context, or what outlives them
int refuse_image(const char (&first)[8]); // say why, by its first bytes; returns the code for it
int read_image(std::vector<char>& bytes, const char* path);
Module* known(Module* module);
void unload_module(Module* module);

bool is_module_variable(uintptr_t address, size_t size);
std::string name_module_variable(uintptr_t address); // "step"; "" where there is none
void unload_modules_of(const void* context);

} // namespace softcuda
