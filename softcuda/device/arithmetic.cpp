// Conversions and shifts that C++ leaves undefined, with the results of a GPU. g++ -fsanitize calls a function before such
// an instruction; it notes here what a GPU gives, and the instruction asks for that (compiling/arithmetic.py).
//
// PTX ISA, "cvt": a float becomes the nearest integer that there is; NaN becomes 0, but the highest bit alone where either
// side has 64 bits. nvcc converts to 8 and 16 bits by way of 32, of which the low bits are left. "shl", "shr": a count
// beyond the width is the width.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/internal.h"

namespace softcuda {
namespace {

enum Kind : uint32_t { float_to_32, float_to_64, double_to_32, double_to_64, shl_32, shl_64, shr_32, shr_64, sar_32, sar_64 };

struct Pending {
    uint32_t kind;
    uint64_t source, count, result;
};
constexpr size_t most_notes = 16, most_misses = 64;
struct Notes {
    std::vector<Pending> notes;
    size_t misses = 0; // instructions for which nothing was noted: then g++ had left out one that was
} & noted = *new Notes;

struct Type { // as g++ lays it out: of an integer bit 0 of `info` says that it is signed, the others log2 of its bits
    uint16_t kind, info;
    char name[1];

    unsigned bits() const { return kind == 1 ? info : 1u << (info >> 1); } // of a float the bits themselves
    bool is_signed() const { return info & 1; }
};
struct Place {
    const char* file;
    uint32_t line, column;
};
struct Cast {
    Place place;
    const Type *from, *to;
};
struct Shift {
    Place place;
    const Type *left, *right;
};

Undefined* block() { return running.launch ? running.launch->function->module->image->undefined : nullptr; }

void keep(const Pending& note)
{
    Undefined* pending = block();
    if (!pending)
        return;
    if (noted.notes.size() == most_notes)
        noted.notes.erase(noted.notes.begin());
    noted.notes.push_back(note);
    noted.misses = 0;
    pending->pending = uint32_t(noted.notes.size());
}

template <class Integer> uint64_t nearest(double value)
{
    using Bits = std::make_unsigned_t<Integer>;
    if (value >= double(std::numeric_limits<Integer>::max()))
        return Bits(std::numeric_limits<Integer>::max());
    return value <= double(std::numeric_limits<Integer>::min()) ? Bits(std::numeric_limits<Integer>::min()) : Bits(Integer(value));
}

uint64_t converted(double value, const Type& from, const Type& to)
{
    const bool wide = to.bits() == 64;
    if (std::isnan(value))
        return wide ? uint64_t(1) << 63 : from.bits() == 64 ? uint64_t(1) << 31 : 0;
    if (wide)
        return to.is_signed() ? nearest<int64_t>(value) : nearest<uint64_t>(value);
    return to.is_signed() ? nearest<int32_t>(value) : nearest<uint32_t>(value);
}

uint64_t bits_of(double value, bool is_float)
{
    uint64_t bits = 0;
    const auto narrow = float(value);
    is_float ? memcpy(&bits, &narrow, sizeof narrow) : memcpy(&bits, &value, sizeof value);
    return bits;
}

std::string unquoted(std::string type) // "'unsigned int'"
{
    type.erase(std::remove(type.begin(), type.end(), '\''), type.end());
    return type;
}

// How it is put into words: "shifts unsigned int by 32 bits".
void tell_shift(const Shift& shift, int64_t count, uintptr_t pc)
{
    const unsigned bits = shift.left->bits();
    if (!checker_is_active() || !is_different("shift", pc))
        return;
    tell(launch_failed, "undefined shift " + in_kernel() + "\n  " + where(pc) + ": " + who(running.thread) + " shifts " + unquoted(shift.left->name)
            + " of " + std::to_string(bits) + " bits by " + std::to_string(count) + ", which C++ leaves undefined: "
            + (count < 0 ? "a count must not be negative" : "a count must be less than " + std::to_string(bits)
                       + " (a GPU shifts everything out, and a compiler may assume that it does not happen)"));
}

// As a likely cause where a result is wrong: once for each conversion and launch, because there may be very many.
void tell_conversion(const Cast& cast, double value, uint64_t result, uintptr_t pc)
{
    if (!is_different("conversion", pc))
        return;
    const unsigned bits = cast.to->bits();
    const uint64_t low = bits == 64 ? result : result & ((uint64_t(1) << bits) - 1);
    const bool negative = cast.to->is_signed() && low >> (bits - 1) & 1;
    char number[64];
    snprintf(number, sizeof number, "%.9g", value);
    add_note(Note::cause, "converts  " + where(pc) + ": " + who(running.thread) + " makes " + unquoted(cast.to->name) + " "
            + (negative ? std::to_string(int64_t(low | (bits == 64 ? 0 : ~uint64_t(0) << bits))) : std::to_string(low)) + " of "
            + unquoted(cast.from->name) + " " + number + ", for which it has no room, as a GPU does");
}

uint64_t operand(const Type& type, uintptr_t value)
{
    return type.bits() > 64 ? *reinterpret_cast<const uint64_t*>(value) : value;
}

} // namespace

void forget_noted_results()
{
    noted.notes.clear();
    if (Undefined* pending = block())
        pending->pending = 0;
}

} // namespace softcuda

using namespace softcuda;

extern "C" EXPORT void __ubsan_handle_float_cast_overflow(const void* raw, uintptr_t value)
{
    const Cast& cast = *static_cast<const Cast*>(raw);
    const unsigned from = cast.from->bits(), to = cast.to->bits();
    if (from > 64 || to > 64)
        return;
    double number = 0;
    float narrow = 0;
    from == 64 ? memcpy(&number, &value, 8) : memcpy(&narrow, &value, 4);
    if (from == 32)
        number = narrow;
    const bool in_32 = to < 32 || (to == 32 && cast.to->is_signed()), is_float = from == 32;
    uint64_t result = converted(number, *cast.from, *cast.to), source = bits_of(number, is_float);
    tell_conversion(cast, number, result, reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
    if (to == 64 && !cast.to->is_signed() && number >= 0x1p63) { // g++ converts what is left of it, and sets the bit
        source = bits_of(number - 0x1p63, is_float);
        result ^= uint64_t(1) << 63;
    }
    keep({(is_float ? float_to_32 : double_to_32) + uint32_t(!in_32), source, 0, result});
}

extern "C" EXPORT void __ubsan_handle_shift_out_of_bounds(const void* raw, uintptr_t left, uintptr_t right)
{
    const Shift& shift = *static_cast<const Shift*>(raw);
    const unsigned bits = shift.left->bits(), count_bits = shift.right->bits();
    if (bits > 64)
        return;
    const uint64_t count = operand(*shift.right, right), value = operand(*shift.left, left);
    const int64_t words = shift.right->is_signed() && count_bits < 64 ? int64_t(count << (64 - count_bits)) >> (64 - count_bits)
                                                                      : int64_t(count);
    const bool negative = shift.left->is_signed() && value >> (bits - 1) & 1;
    const uint64_t all = bits == 64 ? ~uint64_t(0) : 0xffffffffu;
    keep({shl_32 + uint32_t(bits == 64), value & all, count & 0xff, negative ? all : 0});
    tell_shift(shift, words, reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}

#if defined(__x86_64__)
// Called in the middle of anything: keeps all registers and flags. %rcx: the image's Undefined.
extern "C" __attribute__((visibility("hidden"), used)) void softcuda_find_noted_result(Undefined* asked)
{
    const bool is_shift = asked->kind >= shl_32, is_left = asked->kind == shl_32 || asked->kind == shl_64, is_short = asked->kind == float_to_32 || asked->kind == float_to_64;
    const bool in_32_bits = is_short || (is_shift && asked->kind % 2 == 0);
    const uint64_t source = in_32_bits ? asked->source & 0xffffffffu : asked->source, count = is_shift ? asked->kept & 0xff : 0;
    const uint32_t kind = is_shift ? shl_32 + asked->kind % 2 : asked->kind; // a note does not know which way
    auto& notes = noted.notes;
    const auto found = std::find_if(notes.begin(), notes.end(),
        [&](const Pending& note) { return note.kind == kind && note.source == source && note.count == count; });
    if (found != notes.end()) {
        asked->result = is_left ? 0 : found->result;
        notes.erase(found);
    } else if (++noted.misses == most_misses) {
        notes.clear();
    }
    asked->pending = uint32_t(notes.size());
}

__asm__(".text\n"
        ".globl softcuda_noted_result\n"
        ".type softcuda_noted_result, @function\n"
        "softcuda_noted_result:\n"
        "  pushfq\n  pushq %rbp\n  movq %rsp, %rbp\n"
        "  pushq %rax\n  pushq %rdx\n  pushq %rsi\n  pushq %rdi\n  pushq %r8\n  pushq %r9\n  pushq %r10\n  pushq %r11\n"
        "  subq $528, %rsp\n  andq $-16, %rsp\n  fxsave (%rsp)\n"
        "  movq %rcx, %rdi\n  call softcuda_find_noted_result\n"
        "  fxrstor (%rsp)\n  leaq -64(%rbp), %rsp\n"
        "  popq %r11\n  popq %r10\n  popq %r9\n  popq %r8\n  popq %rdi\n  popq %rsi\n  popq %rdx\n  popq %rax\n"
        "  popq %rbp\n  popfq\n  ret\n"
        ".size softcuda_noted_result, .-softcuda_noted_result\n");
#endif
