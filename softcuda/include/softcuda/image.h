// What a compiled kernel and the driver agree on. Included by both: by cuda_dialect.h and by internal.h.
#pragma once

namespace softcuda {

struct Dim {
    unsigned x, y, z;
};

// What a kernel reads as threadIdx, blockIdx, blockDim and gridDim; the executor writes it.
struct Context {
    Dim thread, block, block_dim, grid_dim;
};

// Of a kernel what its text and the types of its parameters say. Behind it lie argument_count + 1 offsets (of each
// argument in the packed buffer, and its end), then as many sizes and a zero.
struct KernelRecord {
    void (*invoke)(const void* function, const char* arguments);
    const char* parameters; // their names, "a, b, n"
    unsigned argument_count;
    unsigned argument_bytes;
    unsigned launch_bound; // threads that a block may have at most; 0 where the kernel says nothing

    const unsigned* offsets() const { return reinterpret_cast<const unsigned*>(this + 1); }
    const unsigned* sizes() const { return offsets() + argument_count + 1; }
};

// What the lanes that a mask names have brought to a meeting.
struct Lanes {
    unsigned long values[32];
    unsigned mask; // of those that the block has
};

struct KernelEntry {
    const void* function;
    const char* name; // as the assembler has it
    const KernelRecord* record;
};

// What the checker is told of an atomic operation.
constexpr unsigned atomic_compares = 1, atomic_of_block = 2, atomic_bounds = 4; // a minimum, a maximum, bits that are only set

// What a texture function asks for, and what it gets. A cube's faces are layers, to a surface too.
enum class Shape : int { line, plane, volume, line_layers, plane_layers, cube, cube_layers };
struct TexelWords {
    unsigned x, y, z, w;
};
struct SurfacePlace {
    int x, y, z, layer; // x in bytes
};

enum class SymbolKind : unsigned long { shared = 0, constant = 1, device = 2 };

struct Symbol {
    char* address;
    unsigned long size;
    const char* name; // as the assembler has it
    SymbolKind kind;
    const KernelRecord* owner; // of the kernel in which it is declared; null where it is declared elsewhere

    bool is_shared_of(const KernelEntry& kernel) const { return kind == SymbolKind::shared && (!owner || owner == kernel.record); }
};

// What an instruction and arithmetic.cpp tell each other where C++ leaves a result undefined.
struct Undefined {
    unsigned pending, kind; // how many results are noted; which instruction it is
    unsigned long kept, source, result;
};

struct Image {
    unsigned version;
    unsigned checked; // compiled so that the checker sees every access
    Context* context;
    const KernelEntry *first_kernel, *last_kernel;
    const Symbol *first_symbol, *last_symbol;
    char *first_shared, *last_shared; // all static shared variables, with gaps between them
    char* dynamic_shared; // for what a launch adds: dynamic_area bytes
    const char* slices; // what the address of each access depends on, by slices.py; "" where that is not known
    Undefined* undefined;
    const char* unset; // variables that nothing sets on some way: lines of a function, a tab and "v (kernel.cu:3)"
    const char* one_address; // arrays of dynamic shared memory that begin together, "a (kernel.cu:1), b (kernel.cu:2)"
    unsigned flushes; // -ftz=true: denormals are zeros
};

constexpr unsigned image_version = 7;
constexpr unsigned dynamic_gap = 128; // what lies before it and belongs to nothing
constexpr unsigned dynamic_area = 232448 + 128; // what compute capability 9.0 has for a block, and what is watched behind

// In front of the shared object, in what `nvcc` writes and cuModuleLoadData reads.
struct ImageHeader {
    char magic[8]; // "SOFTCUDA"
    unsigned long size;
    unsigned long checksum; // CRC-32 of the bytes that follow, as zlib computes it
};

} // namespace softcuda
