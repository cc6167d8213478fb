// Device memory that several processes use: a file in /dev/shm, which a handle names. Allocations become one when a handle
// is asked for. Who has opened it keeps its memory, whatever becomes of the process that made it.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "driver.h"

namespace softcuda {
namespace ipc {

constexpr char folder[] = "/dev/shm/", prefix[] = "softcuda-";
constexpr unsigned may_enable_peers = 1; // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the one flag there is

struct Handle { // CUipcMemHandle
    char kind[8];
    uint64_t size;
    char name[33]; // 32 hexadecimal digits, which nobody guesses
    char rest[15];
};
static_assert(sizeof(Handle) == 64);
constexpr char kind[8] = {'s', 'o', 'f', 't', 'c', 'u', 'd', 'a'};

struct Exported {
    Handle handle;
    int file; // locked as long as this process lives
};
struct Opened {
    std::string name;
    const void* context;
    unsigned times;
};
std::map<uintptr_t, Exported>& exported = *new std::map<uintptr_t, Exported>;
std::map<uintptr_t, Opened>& opened = *new std::map<uintptr_t, Opened>;
std::mutex& calls = *new std::mutex;   // one at a time; taken first
std::mutex& sharing = *new std::mutex; // of both maps; taken last: who gives memory back takes it

std::string path_of(const std::string& name) { return std::string(folder) + prefix + name; }

// Files of processes that were killed: nobody holds their lock.
void remove_forsaken()
{
    DIR* listing = opendir(folder);
    if (!listing)
        return;
    while (const dirent* entry = readdir(listing)) {
        const std::string path = std::string(folder) + entry->d_name;
        struct stat state;
        if (strncmp(entry->d_name, prefix, strlen(prefix)) || stat(path.c_str(), &state) || state.st_uid != geteuid()
            || !state.st_size) // one that is being made
            continue;
        const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (file < 0)
            continue;
        if (!flock(file, LOCK_EX | LOCK_NB))
            unlink(path.c_str());
        close(file);
    }
    closedir(listing);
}

int no_file(int code, const std::string& path)
{
    say(code, path + ": " + strerror(errno) + "; memory that processes share is a file there");
    return code;
}

int make_file(Exported& made)
{
    static const bool cleaned = (remove_forsaken(), true);
    (void)cleaned;
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != ssize_t(sizeof random))
        return unknown;
    for (size_t i = 0; i < sizeof random; ++i)
        snprintf(made.handle.name + 2 * i, 3, "%02x", random[i]);
    const std::string path = path_of(made.handle.name);
    made.file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (made.file < 0)
        return no_file(not_supported, path);
    flock(made.file, LOCK_EX);
    return success;
}

bool is_well_formed(const Handle& handle)
{
    return !memcmp(handle.kind, kind, sizeof kind) && handle.size && !handle.name[32]
        && strspn(handle.name, "0123456789abcdef") == 32;
}

__attribute__((destructor)) void remove_all()
{
    for (const auto& each : exported)
        unlink(path_of(each.second.handle.name).c_str());
}

} // namespace ipc

bool is_of_another_process(uintptr_t base)
{
    std::lock_guard<std::mutex> lock(ipc::sharing);
    return ipc::opened.count(base) != 0;
}

void stop_sharing(uintptr_t base)
{
    std::lock_guard<std::mutex> lock(ipc::sharing);
    ipc::opened.erase(base);
    const auto found = ipc::exported.find(base);
    if (found == ipc::exported.end())
        return;
    unlink(ipc::path_of(found->second.handle.name).c_str());
    close(found->second.file);
    ipc::exported.erase(found);
}

} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuIpcGetMemHandle(ipc::Handle* handle, uintptr_t address)
{
    ENTER(cuIpcGetMemHandle);
    Allocation* allocation = allocation_at(address);
    if (!handle || !allocation || !allocation->live || address >= allocation->base + allocation->size)
        return invalid_value;
    std::lock_guard<std::mutex> lock(ipc::calls);
    if (is_of_pool(allocation->base) || is_of_another_process(allocation->base)) {
        say(invalid_value, "memory of a pool, or that another process has made, has no handle of its own: take cuMemAlloc");
        return invalid_value;
    }
    if (allocation->shared) {
        std::lock_guard<std::mutex> maps(ipc::sharing);
        *handle = ipc::exported.at(allocation->base).handle;
        return success;
    }
    wait_for_everything(Waits::for_itself);
    std::unique_lock<std::shared_mutex> in_use(memory_in_use);
    ipc::Exported made {};
    memcpy(made.handle.kind, ipc::kind, sizeof ipc::kind);
    made.handle.size = allocation->size;
    if (const int failed = ipc::make_file(made))
        return failed;
    if (const Result failed = move_to_file(*allocation, made.file)) {
        ipc::no_file(failed, ipc::path_of(made.handle.name));
        unlink(ipc::path_of(made.handle.name).c_str());
        close(made.file);
        return failed;
    }
    std::lock_guard<std::mutex> maps(ipc::sharing);
    ipc::exported[allocation->base] = made;
    *handle = made.handle;
    return success;
}

API cuIpcOpenMemHandle_v2(uintptr_t* address, ipc::Handle handle, unsigned flags)
{
    ENTER(cuIpcOpenMemHandle);
    if (!address || flags != ipc::may_enable_peers)
        return invalid_value;
    if (!ipc::is_well_formed(handle))
        return invalid_handle;
    std::lock_guard<std::mutex> lock(ipc::calls);
    std::unique_lock<std::mutex> maps(ipc::sharing);
    for (const auto& each : ipc::exported)
        if (!strcmp(each.second.handle.name, handle.name))
            return invalid_context; // a process opens what another one has made
    for (auto& each : ipc::opened)
        if (each.second.name == handle.name) {
            if (each.second.context != current_context())
                return invalid_context; // one context of a process may
            ++each.second.times;
            *address = each.first;
            return success;
        }
    maps.unlock();
    const std::string path = ipc::path_of(handle.name);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return ipc::no_file(invalid_handle, path);
    struct stat state;
    const bool fits = !fstat(file, &state) && handle.size <= uint64_t(state.st_size)
        && uint64_t(state.st_size) - handle.size <= uint64_t(1) << page_bits;
    const Result failed = fits ? allocate(address, handle.size, file) : invalid_handle;
    close(file);
    maps.lock();
    if (!failed)
        ipc::opened[*address] = {handle.name, current_context(), 1};
    return failed;
}

API cuIpcOpenMemHandle(uintptr_t* address, ipc::Handle handle, unsigned flags)
{
    return cuIpcOpenMemHandle_v2(address, handle, flags);
}

API cuIpcCloseMemHandle(uintptr_t address)
{
    ENTER(cuIpcCloseMemHandle);
    std::lock_guard<std::mutex> lock(ipc::calls);
    if (!is_of_another_process(address))
        return invalid_value;
    if (--ipc::opened.at(address).times)
        return success;
    wait_for_everything(Waits::for_the_host);
    return release_at(address);
}

} // extern "C"
