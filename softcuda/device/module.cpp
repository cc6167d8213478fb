// Modules: shared objects that softcuda's `nvcc` made, checked before they are loaded.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "races/stream_races.h"

namespace softcuda {
namespace {

std::vector<std::unique_ptr<Module>> modules;
std::mutex modules_mutex;

// Copies through a file, because the kernel of the operating system says EFAULT where a plain read of memory
// that is not there would end the process: nobody tells us how long a broken image is.
bool copy_image(int file, const char* image, ImageHeader& header)
{
    if (write(file, image, sizeof header) != ssize_t(sizeof header) || pread(file, &header, sizeof header, 0) != ssize_t(sizeof header))
        return false;
    if (memcmp(header.magic, "SOFTCUDA", 8) != 0 || header.size > (size_t(1) << 32) || ftruncate(file, 0) || lseek(file, 0, SEEK_SET))
        return false;
    for (size_t done = 0; done < header.size;) {
        const ssize_t wrote = write(file, image + sizeof header + done, header.size - done);
        if (wrote <= 0)
            return false;
        done += size_t(wrote);
    }
    return true;
}

// The checksum that zlib calls crc32.
unsigned crc32(const unsigned char* bytes, size_t size)
{
    unsigned of_byte[256];
    for (unsigned byte = 0; byte < 256; ++byte) {
        of_byte[byte] = byte;
        for (int bit = 0; bit < 8; ++bit)
            of_byte[byte] = of_byte[byte] >> 1 ^ (of_byte[byte] & 1 ? 0xedb88320u : 0);
    }
    unsigned sum = ~0u;
    for (size_t i = 0; i < size; ++i)
        sum = of_byte[(sum ^ bytes[i]) & 255] ^ sum >> 8;
    return ~sum;
}

bool checksum_is_right(int file, const ImageHeader& header)
{
    void* memory = mmap(nullptr, header.size, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory == MAP_FAILED)
        return false;
    const unsigned sum = crc32(static_cast<const unsigned char*>(memory), header.size);
    munmap(memory, header.size);
    return sum == header.checksum;
}

int find_ranges(struct dl_phdr_info* info, size_t, void* data)
{
    Module& module = *static_cast<Module*>(data);
    const auto inside = uintptr_t(module.image);
    uintptr_t first = ~uintptr_t(0), last = 0, text_first = 0, text_last = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = info->dlpi_phdr[i];
        if (part.p_type != PT_LOAD)
            continue;
        const uintptr_t start = info->dlpi_addr + part.p_vaddr;
        first = std::min(first, start), last = std::max(last, start + part.p_memsz);
        if (part.p_flags & PF_X)
            text_first = start, text_last = start + part.p_memsz;
    }
    if (inside < first || inside >= last)
        return 0;
    module.image_first = info->dlpi_addr, module.image_last = last;
    module.text_first = text_first, module.text_last = text_last;
    return 1;
}

// Static shared memory of a kernel: of variables inside it, and of those outside all functions.
size_t shared_of(const Image& image, const KernelEntry& kernel)
{
    size_t bytes = 0;
    for (const Symbol* s = image.first_symbol; s != image.last_symbol; ++s)
        if (s->is_shared_of(kernel) && (s->owner || strncmp(s->name, "_ZZ", 3) != 0))
            bytes += s->size;
    return bytes;
}

// What an image is that this device cannot run, by its first bytes; "" where that is not known.
const char* kind_of_image(const char (&first)[8])
{
    const auto begins = [&](const char* bytes, size_t size) { return memcmp(first, bytes, size) == 0; };
    if (begins("\177ELF", 4))
        return "machine code of a GPU (a cubin)";
    if (begins("\x50\xed\x55\xba", 4) || begins("\xb1\x43\x62\x46", 4))
        return "a fat binary with machine code of a GPU";
    if (begins("BC\xc0\xde", 4) || begins("\xed\x43\x4e\x7f", 4))
        return "LTO-IR or LLVM's code";
    for (const char letter : first)
        if (letter != '\n' && letter != '\t' && (letter < ' ' || letter > '~'))
            return "";
    return "PTX, or other text";
}

} // namespace

int refuse_image(const char (&first)[8])
{
    const std::string kind = kind_of_image(first);
    if (memcmp(first, "SOFTCUDA", 8) == 0)
        say(invalid_image, "this image is damaged, or another version of softcuda made it: compile it again");
    else
        say(invalid_image, "this image is " + (kind.empty() ? std::string("of no kind that is known here") : kind)
                + ", and softcuda runs only what its own nvcc or NVRTC compiled: give it the kernel as CUDA C++");
    return invalid_image;
}

int load_image(Module** result, const char* bytes, const void* owner)
{
    if (!result || !bytes)
        return invalid_value;
    auto module = std::make_unique<Module>();
    module->file = memfd_create("softcuda", MFD_CLOEXEC);
    ImageHeader header {};
    if (module->file < 0)
        return out_of_memory;
    const bool whole = copy_image(module->file, bytes, header) && checksum_is_right(module->file, header);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", module->file);
    if (whole)
        module->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module->handle)
        module->image = static_cast<const Image*>(dlsym(module->handle, "softcuda_image"));
    if (!module->image || module->image->version != image_version) {
        if (module->handle)
            dlclose(module->handle);
        close(module->file);
        return refuse_image(header.magic);
    }
    dl_iterate_phdr(find_ranges, module.get());
    module->checksum = unsigned(header.checksum);
    module->context = owner;
    for (const KernelEntry* entry = module->image->first_kernel; entry != module->image->last_kernel; ++entry) {
        auto function = std::make_unique<Function>();
        function->module = module.get(), function->entry = entry, function->name = entry->name;
        function->static_shared = shared_of(*module->image, *function->entry);
        module->functions.push_back(std::move(function));
    }
    if (module->image->checked)
        check_streams_from_now_on();
    *result = module.get();
    std::lock_guard<std::mutex> lock(modules_mutex);
    modules.push_back(std::move(module));
    return success;
}

std::vector<Region> unset_bytes(const Module& module)
{
    struct Place {
        uint64_t address, size;
    };
    std::vector<Region> found;
    ElfW(Ehdr) file {};
    ElfW(Shdr) names {};
    const auto read = [&](void* to, size_t size, uint64_t from) { return pread(module.file, to, size, off_t(from)) == ssize_t(size); };
    const auto header = [&](ElfW(Shdr)& to, unsigned number) { return read(&to, sizeof to, file.e_shoff + number * sizeof to); };
    if (!read(&file, sizeof file, 0) || !header(names, file.e_shstrndx))
        return found;
    for (unsigned i = 0; i < file.e_shnum; ++i) {
        static constexpr char wanted[] = ".debug_softcuda_unset"; // assembly.py
        ElfW(Shdr) section {};
        char name[sizeof wanted] {};
        if (!header(section, i) || !read(name, sizeof name, names.sh_offset + section.sh_name) || memcmp(name, wanted, sizeof name) != 0)
            continue;
        std::vector<Place> places(section.sh_size / sizeof(Place));
        if (!read(places.data(), places.size() * sizeof(Place), section.sh_offset))
            continue;
        for (const Place& place : places)
            if (const uintptr_t first = module.image_first + place.address; place.address < module.image_last - module.image_first && place.address > sizeof file)
                found.push_back({first, place.size});
    }
    return found;
}

namespace {

void unload(Module& module)
{
    forget_touches(module.image_first, module.image_last - module.image_first);
    dlclose(module.handle);
    close(module.file);
}

// CUjit_option: 3 and 5 are buffers for what the compiler has to say, 4 and 6 their sizes. It has nothing to say.
void clear_logs(unsigned count, const int* options, void** values)
{
    for (unsigned i = 0; i < count; ++i) {
        if (options[i] == 3 || options[i] == 5)
            *static_cast<char*>(values[i]) = 0;
        else if (options[i] == 4 || options[i] == 6)
            values[i] = nullptr;
    }
}

} // namespace

Module* known(Module* module)
{
    std::lock_guard<std::mutex> lock(modules_mutex);
    for (const auto& each : modules)
        if (each.get() == module)
            return module;
    return nullptr;
}

void unload_module(Module* module)
{
    std::lock_guard<std::mutex> lock(modules_mutex);
    unload(*module);
    modules.erase(std::find_if(modules.begin(), modules.end(), [&](const auto& m) { return m.get() == module; }));
}

int read_image(std::vector<char>& bytes, const char* path)
{
    FILE* file = path ? fopen(path, "rb") : nullptr;
    if (!file)
        return file_not_found;
    char part[4096];
    for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;)
        bytes.insert(bytes.end(), part, part + got);
    fclose(file);
    bytes.resize(std::max(bytes.size(), sizeof(ImageHeader)));
    return success;
}

bool is_module_variable(uintptr_t address, size_t size)
{
    std::lock_guard<std::mutex> lock(modules_mutex);
    for (const auto& module : modules)
        for (const Symbol* s = module->image->first_symbol; s != module->image->last_symbol; ++s)
            if (s->kind != SymbolKind::shared && address - uintptr_t(s->address) + size <= s->size && address >= uintptr_t(s->address))
                return true;
    return false;
}

std::string name_module_variable(uintptr_t address)
{
    std::lock_guard<std::mutex> lock(modules_mutex);
    for (const auto& module : modules)
        for (const Symbol* s = module->image->first_symbol; s != module->image->last_symbol; ++s)
            if (s->kind != SymbolKind::shared && address - uintptr_t(s->address) < s->size && address >= uintptr_t(s->address))
                return name_symbol(s->name);
    return "";
}

void unload_modules_of(const void* context)
{
    std::lock_guard<std::mutex> lock(modules_mutex);
    for (const auto& module : modules)
        if (module->context == context)
            unload(*module);
    modules.erase(std::remove_if(modules.begin(), modules.end(), [&](const auto& m) { return m->context == context; }), modules.end());
}

} // namespace softcuda

using namespace softcuda;

extern "C" {

API cuModuleLoadData(Module** module, const void* image)
{
    ENTER(cuModuleLoadData);
    return load_image(module, static_cast<const char*>(image), current_context());
}

API cuModuleLoadDataEx(Module** module, const void* image, unsigned count, const int* options, void** values)
{
    clear_logs(count, options, values); // also where a finding of before is the answer: PyCUDA shows them
    ENTER(cuModuleLoadDataEx);
    return load_image(module, static_cast<const char*>(image), current_context());
}

API cuModuleLoad(Module** module, const char* path)
{
    ENTER(cuModuleLoad);
    std::vector<char> bytes;
    const int failed = read_image(bytes, path);
    return failed ? failed : load_image(module, bytes.data(), current_context());
}

API cuModuleLoadFatBinary(Module** module, const void* image) { return cuModuleLoadData(module, image); }

API cuModuleUnload(Module* module)
{
    ENTER(cuModuleUnload);
    if (!known(module))
        return invalid_handle;
    wait_for_everything(Waits::for_itself);
    unload_module(module);
    return success;
}

API cuModuleGetFunction(Function** function, Module* module, const char* name)
{
    ENTER(cuModuleGetFunction);
    if (!function || !name)
        return invalid_value;
    if (!known(module))
        return invalid_handle;
    for (const auto& each : module->functions)
        if (each->name == name) {
            *function = each.get();
            return success;
        }
    return not_found;
}

API cuModuleGetGlobal_v2(uintptr_t* address, size_t* size, Module* module, const char* name)
{
    ENTER(cuModuleGetGlobal);
    if (!name)
        return invalid_value;
    if (!known(module))
        return invalid_handle;
    for (const Symbol* s = module->image->first_symbol; s != module->image->last_symbol; ++s)
        if (s->kind != SymbolKind::shared && s->size && strcmp(s->name, name) == 0) {
            if (address)
                *address = uintptr_t(s->address);
            if (size)
                *size = s->size;
            return success;
        }
    return not_found;
}

} // extern "C"
