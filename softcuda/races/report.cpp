// Names for a kernel's developer: file and line of an address, threads, arrays, variables.
#include <cxxabi.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "device/internal.h"

namespace softcuda {
namespace {

// nvcc has the debug information call its own folder so.
bool is_header_of_ours(const std::string& path) { return path.compare(0, 10, "/softcuda/") == 0; }

struct Returned {
    bool any = false;
    uintptr_t at[max_threads] {}; // of each thread of the block: its return statement, 0 where it had none
} returned;

std::string file_of(const std::string& place) { return place.substr(0, place.rfind(':')); }

// What a program prints, or null where it cannot be started. Without a shell, and without what it complains about.
FILE* output_of(const char* const* command, pid_t& process)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return nullptr;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const int failed = posix_spawnp(&process, command[0], &actions, nullptr, const_cast<char* const*>(command), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed)
        close(ends[0]);
    return failed ? nullptr : fdopen(ends[0], "r");
}

// The lines that a program of binutils prints of an image, whose path stands at `image` in its command.
std::vector<std::string> printed_of(int file, std::vector<const char*> command, size_t image)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", int(getpid()), file);
    command[image] = path;
    command.push_back(nullptr);
    pid_t process;
    FILE* pipe = output_of(command.data(), process);
    std::vector<std::string> lines;
    if (!pipe)
        return lines;
    char line[4096];
    while (fgets(line, sizeof line, pipe))
        lines.emplace_back(line, strcspn(line, "\n"));
    fclose(pipe);
    waitpid(process, nullptr, 0);
    return lines;
}

// "file:line" as findings show it; "" where it is none of the kernel's own.
std::string own_place(std::string text)
{
    if (text.size() && text.back() == ')') // and not in between, because paths may have blanks
        text = text.substr(0, text.rfind(" (discriminator "));
    while (text.compare(0, 2, "./") == 0)
        text = text.substr(2);
    return text.rfind(':') == std::string::npos || text[0] == '?' || is_header_of_ours(file_of(text)) ? "" : text;
}

// "file:line" of an instruction and of the inlined calls that led there, the innermost first and the kernel's own only.
std::vector<std::string> ask_addr2line(int file, uintptr_t offset)
{
    char address[32];
    snprintf(address, sizeof address, "0x%lx", (unsigned long)offset);
    std::vector<std::string> found;
    for (const std::string& line : printed_of(file, {"addr2line", "-i", "-e", nullptr, address}, 3))
        if (const std::string place = own_place(line); !place.empty() && (found.empty() || found.back() != place))
            found.push_back(place);
    return found;
}

std::string grouped(size_t number)
{
    std::string text = std::to_string(number);
    for (int i = int(text.size()) - 3; i > 0; i -= 3)
        text.insert(size_t(i), ",");
    return text;
}

std::string index_text(const Dim& index, bool three)
{
    return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + (three ? ", " + std::to_string(index.z) : "") + ")";
}

// The names in "a, b, n".
std::vector<std::string> split_names(const char* names)
{
    std::vector<std::string> parts;
    std::string part;
    for (const char* c = names;; ++c) {
        if (*c == ',' || !*c) {
            const size_t first = part.find_first_not_of(' ');
            parts.push_back(first == std::string::npos ? "" : part.substr(first));
            part.clear();
            if (!*c)
                return parts;
        } else {
            part += *c;
        }
    }
}

} // namespace

namespace {

const std::vector<std::string>& lines_of(const Module& module, uintptr_t pc)
{
    static std::mutex& asking = *new std::mutex; // streams ask of what other streams have done
    std::lock_guard<std::mutex> lock(asking);
    const auto [at, is_new] = module.lines.try_emplace(pc);
    if (is_new && pc >= module.image_first && pc < module.image_last)
        // an address to return to lies behind the call that is meant
        at->second = ask_addr2line(module.file, pc - 1 - module.image_first);
    return at->second;
}

} // namespace

const std::vector<std::string>& lines_of(uintptr_t pc) { return lines_of(*running.launch->function->module, pc); }

std::string where(uintptr_t pc)
{
    const Module& module = *running.launch->function->module;
    if (pc < module.image_first || pc >= module.image_last)
        return "outside the kernel";
    const std::string place = where(module, pc);
    return place.empty() ? "an unknown line" : place;
}

std::string where(const Module& module, uintptr_t pc)
{
    const std::vector<std::string>& lines = lines_of(module, pc);
    if (lines.empty())
        return "";
    std::string text = lines[0];
    for (size_t i = 1; i < lines.size(); ++i)
        text += (i == 1 ? " (called at " : ", ") + lines[i];
    return lines.size() > 1 ? text + ")" : text;
}

std::string who(unsigned thread, const Dim& block)
{
    const bool three = running.launch->block.z > 1 || running.launch->grid.z > 1;
    return "thread " + index_text(thread_index(thread), three) + " of block " + index_text(block, three);
}

std::string who(unsigned thread) { return who(thread, running.block_index); }
void forget_returns()
{
    if (returned.any)
        returned = {};
}

bool has_returned(unsigned thread) { return returned.at[thread] != 0; }

std::string how_it_ended(unsigned thread)
{
    return returned.at[thread] ? "has returned (" + where(returned.at[thread]) + ")" : "has ended";
}

std::string in_kernel() { return "in " + plain_name(running.launch->function->name); }

std::string plain_name(const std::string& assembler_name)
{
    int status = 0;
    char* plain = abi::__cxa_demangle(assembler_name.c_str(), nullptr, nullptr, &status);
    std::string text = status == 0 ? plain : assembler_name;
    free(plain);
    for (const std::string unnamed = "(anonymous namespace)::"; text.find(unnamed) != std::string::npos;)
        text.erase(text.find(unnamed), unnamed.size());
    size_t begin = 0, end = 0, depth = 0; // behind the type of its result, which a template has; before its parameters
    for (; end < text.size() && (depth || text[end] != '('); ++end) {
        depth += text[end] == '<';
        depth -= text[end] == '>' && depth;
        if (text[end] == ' ' && !depth)
            begin = end + 1;
    }
    return text.substr(begin, end - begin);
}

std::string count_bytes(size_t bytes) { return grouped(bytes) + (bytes == 1 ? " byte" : " bytes"); }

std::string name_allocation(const Allocation& allocation) { return name_allocation(allocation, *running.launch); }

std::string name_allocation(const Allocation& allocation, const Launch& launch)
{
    const KernelRecord& entry = *launch.function->entry->record;
    const std::vector<std::string> names = split_names(entry.parameters);
    for (unsigned i = 0; i < entry.argument_count; ++i) {
        const unsigned end = entry.offsets()[i + 1];
        for (unsigned at = (entry.offsets()[i] + 7) / 8 * 8; at + 8 <= end; at += 8) { // pointers inside structs too
            uintptr_t pointer;
            memcpy(&pointer, launch.arguments.data() + at, sizeof pointer);
            if (pointer >= allocation.base && pointer < allocation.base + allocation.size)
                return (i < names.size() ? names[i] : "an array") + " (argument " + std::to_string(i + 1) + "), "
                    + count_bytes(allocation.size);
        }
    }
    return "an array of " + count_bytes(allocation.size);
}

std::string name_symbol(const char* assembler_name)
{
    int status = 0;
    char* plain = abi::__cxa_demangle(assembler_name, nullptr, nullptr, &status);
    std::string text = status == 0 ? plain : assembler_name;
    free(plain);
    // "matmul_tiled::a_tile", "kernel<float>(float*)::tile": the variable alone.
    const size_t colons = text.rfind("::");
    return colons == std::string::npos ? text : text.substr(colons + 2);
}

std::string declared_at(const Symbol& symbol)
{
    const Module& module = *running.launch->function->module;
    const auto [place, is_new] = module.declared.try_emplace(symbol.name);
    const std::string ending = std::string(" ") + symbol.name + "\t";
    if (is_new)
        for (const std::string& line : printed_of(module.file, {"nm", "-l", nullptr}, 2))
            if (const size_t at = line.find(ending); at != std::string::npos)
                place->second = own_place(line.substr(at + ending.size()));
    return place->second.empty() ? "" : " (declared at " + place->second + ")";
}

std::string describe_symbol(const Symbol& symbol)
{
    const char* kinds[] {"shared ", "constant ", "device variable "};
    return kinds[size_t(symbol.kind)] + name_symbol(symbol.name) + ", " + count_bytes(symbol.size) + declared_at(symbol);
}

const Symbol* symbol_at(uintptr_t address)
{
    const Image& image = *running.launch->function->module->image;
    const Symbol* symbol = std::find_if(image.first_symbol, image.last_symbol,
        [=](const Symbol& one) { return address - uintptr_t(one.address) < one.size; });
    return symbol == image.last_symbol ? nullptr : symbol;
}

std::string in_variable(uintptr_t address)
{
    const Symbol* symbol = symbol_at(address);
    return symbol ? ", in " + describe_symbol(*symbol) : "";
}

} // namespace softcuda

// Called in front of a return statement of a kernel.
extern "C" EXPORT void softcuda_returns(int)
{
    using namespace softcuda;
    returned.any = true;
    returned.at[running.thread] = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
}
