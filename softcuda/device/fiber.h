// Switching stacks by hand. Twenty instructions an architecture, where a library would be the only thing of
// this project that a machine with g++ and make does not have already.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" void softcuda_switch(void** save, void* load);

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl softcuda_switch\n"
        ".hidden softcuda_switch\n"
        ".type softcuda_switch, @function\n"
        "softcuda_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size softcuda_switch, .-softcuda_switch\n");

// A stack that begins in `entry` when it is switched to. `top` is its upper end, a multiple of 16.
inline void* prepare_stack(char* top, void (*entry)())
{
    void** slots = reinterpret_cast<void**>(top);
    *--slots = nullptr; // where entry would return to
    *--slots = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i)
        *--slots = nullptr;
    return slots;
}
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl softcuda_switch\n"
        ".hidden softcuda_switch\n"
        ".type softcuda_switch, %function\n"
        "softcuda_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size softcuda_switch, .-softcuda_switch\n");

inline void* prepare_stack(char* top, void (*entry)())
{
    void** slots = reinterpret_cast<void**>(top) - 20;
    for (int i = 0; i < 20; ++i)
        slots[i] = nullptr;
    slots[11] = reinterpret_cast<void*>(entry); // x30
    return slots;
}
#else
#error "softcuda has no stack switch for this architecture: x86-64 and aarch64"
#endif

// Of threads whose kernel was compiled with -ftz=true, for as long as it lives. The processor's mode is one for float32,
// as on a GPU, and float64.
class FlushedDenormals {
public:
    explicit FlushedDenormals(bool on) : before(mode())
    {
#if defined(__x86_64__)
        set(on ? before | 0x8040 : before); // of results and of operands
#else
        set(on ? before | 1u << 24 : before);
#endif
    }
    ~FlushedDenormals() { set((before & ~exceptions) | (mode() & exceptions)); } // those of now, and of before none

private:
#if defined(__x86_64__)
    static uint64_t mode() { return __builtin_ia32_stmxcsr(); }
    static void set(uint64_t bits) { __builtin_ia32_ldmxcsr(unsigned(bits)); }
#else
    static uint64_t mode() { return __builtin_aarch64_get_fpcr(); }
    static void set(uint64_t bits) { __builtin_aarch64_set_fpcr(unsigned(bits)); }
#endif
    static constexpr uint64_t exceptions = 0x3f; // that have been met, which unused_reads.cpp asks for
    uint64_t before;
};
