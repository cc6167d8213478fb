// Thrust's function objects, as kernels call them: with a type, or for any types where none is given.
#pragma once

namespace thrust {

#define SOFTCUDA_FUNCTION(name, parameters, value) \
    template <class T = void> struct name { \
        __forceinline__ constexpr auto operator() parameters const { return value; } \
    };
#define SOFTCUDA_BINARY(name, value) \
    SOFTCUDA_FUNCTION(name, (const T& a, const T& b), value) \
    template <> struct name<void> { \
        template <class A, class B> __forceinline__ constexpr auto operator()(const A& a, const B& b) const { return value; } \
    };
#define SOFTCUDA_UNARY(name, value) \
    SOFTCUDA_FUNCTION(name, (const T& a), value) \
    template <> struct name<void> { \
        template <class A> __forceinline__ constexpr auto operator()(const A& a) const { return value; } \
    };
SOFTCUDA_BINARY(plus, a + b)
SOFTCUDA_BINARY(minus, a - b)
SOFTCUDA_BINARY(multiplies, a * b)
SOFTCUDA_BINARY(divides, a / b)
SOFTCUDA_BINARY(modulus, a % b)
SOFTCUDA_BINARY(equal_to, a == b)
SOFTCUDA_BINARY(not_equal_to, a != b)
SOFTCUDA_BINARY(greater, a > b)
SOFTCUDA_BINARY(less, a < b)
SOFTCUDA_BINARY(greater_equal, a >= b)
SOFTCUDA_BINARY(less_equal, a <= b)
SOFTCUDA_BINARY(logical_and, a && b)
SOFTCUDA_BINARY(logical_or, a || b)
SOFTCUDA_BINARY(bit_and, a & b)
SOFTCUDA_BINARY(bit_or, a | b)
SOFTCUDA_BINARY(bit_xor, a ^ b)
SOFTCUDA_BINARY(maximum, a < b ? b : a)
SOFTCUDA_BINARY(minimum, b < a ? b : a)
SOFTCUDA_UNARY(negate, -a)
SOFTCUDA_UNARY(logical_not, !a)
SOFTCUDA_UNARY(square, a * a)
SOFTCUDA_UNARY(identity, a)
#undef SOFTCUDA_FUNCTION
#undef SOFTCUDA_BINARY
#undef SOFTCUDA_UNARY

} // namespace thrust
