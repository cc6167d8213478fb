// What kernels use of the headers of PyTorch, where these are missing: element types, accessors, macros of loops and of
// launch bounds. Layouts and names are PyTorch's, so kernels have the same symbols and parameters. Host code, which is
// set aside, gets names alone. This header is compiled by nvcc, too.
#ifndef SOFTCUDA_TORCH_TYPES_H
#define SOFTCUDA_TORCH_TYPES_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#ifndef C10_HOST_DEVICE
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#define C10_NODISCARD
#define C10_UNUSED __attribute__((unused))
#define C10_LIKELY(condition) (condition)
#define C10_UNLIKELY(condition) (condition)
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define C10_WARP_SIZE 32
#define AT_HOST_DEVICE C10_HOST_DEVICE
#define TORCH_HOST_DEVICE C10_HOST_DEVICE
#endif
#ifndef CUDA_KERNEL_ASSERT
#define CUDA_KERNEL_ASSERT(condition) assert(condition)
#endif
#ifndef CUDA_KERNEL_LOOP_TYPE
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                                         \
    for (int64_t i##_next = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i##_more = 1; i##_more;     \
         i##_more = 0)                                                                                  \
        for (index_type i = (index_type)i##_next; i##_next < (n); i##_next += blockDim.x * gridDim.x, i = (index_type)i##_next)
#endif
#ifndef CUDA_KERNEL_LOOP
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#endif

namespace c10 {

#define SOFTCUDA_TORCH_FLOAT(Name, Native, to_float, from_float)                                        \
    struct alignas(2) Name {                                                                            \
        unsigned short x;                                                                               \
        struct from_bits_t {};                                                                          \
        Name() = default;                                                                               \
        constexpr __host__ __device__ Name(unsigned short bits, from_bits_t) : x(bits) {}               \
        static constexpr __host__ __device__ from_bits_t from_bits() { return from_bits_t(); }          \
        inline __host__ __device__ Name(float value) : x(0)                                             \
        {                                                                                               \
            Native native = from_float(value);                                                          \
            x = *reinterpret_cast<unsigned short*>(&native);                                            \
        }                                                                                               \
        inline __host__ __device__ Name(const Native& value)                                            \
            : x(*reinterpret_cast<const unsigned short*>(&value))                                       \
        {                                                                                               \
        }                                                                                               \
        inline __host__ __device__ operator float() const                                               \
        {                                                                                               \
            return to_float(*reinterpret_cast<const Native*>(&x));                                      \
        }                                                                                               \
        inline __host__ __device__ operator Native() const                                              \
        {                                                                                               \
            return *reinterpret_cast<const Native*>(&x);                                                \
        }                                                                                               \
    };                                                                                                  \
    inline __host__ __device__ Name operator-(const Name& a) { return -static_cast<float>(a); }         \
    SOFTCUDA_TORCH_OPERATOR(Name, +) SOFTCUDA_TORCH_OPERATOR(Name, -)                                   \
    SOFTCUDA_TORCH_OPERATOR(Name, *) SOFTCUDA_TORCH_OPERATOR(Name, /)                                   \
    SOFTCUDA_TORCH_COMPARISON(Name, <) SOFTCUDA_TORCH_COMPARISON(Name, >)                               \
    SOFTCUDA_TORCH_COMPARISON(Name, <=) SOFTCUDA_TORCH_COMPARISON(Name, >=)                             \
    SOFTCUDA_TORCH_COMPARISON(Name, ==) SOFTCUDA_TORCH_COMPARISON(Name, !=)

// As PyTorch's: with itself and with integers it stays what it is, with float and double it becomes that.
#define SOFTCUDA_TORCH_MIXED(Name, op, Other, Result)                                                   \
    inline __host__ __device__ Result operator op(Name a, Other b)                                      \
    {                                                                                                   \
        return static_cast<Result>(a) op static_cast<Result>(b);                                        \
    }                                                                                                   \
    inline __host__ __device__ Result operator op(Other a, Name b)                                      \
    {                                                                                                   \
        return static_cast<Result>(a) op static_cast<Result>(b);                                        \
    }
#define SOFTCUDA_TORCH_OPERATOR(Name, op)                                                               \
    inline __host__ __device__ Name operator op(const Name& a, const Name& b)                           \
    {                                                                                                   \
        return static_cast<float>(a) op static_cast<float>(b);                                          \
    }                                                                                                   \
    inline __host__ __device__ Name& operator op##=(Name& a, const Name& b)                             \
    {                                                                                                   \
        a = a op b;                                                                                     \
        return a;                                                                                       \
    }                                                                                                   \
    inline __host__ __device__ float& operator op##=(float& a, Name b)                                  \
    {                                                                                                   \
        return a op##= static_cast<float>(b);                                                           \
    }                                                                                                   \
    SOFTCUDA_TORCH_MIXED(Name, op, float, float)                                                        \
    SOFTCUDA_TORCH_MIXED(Name, op, double, double)                                                      \
    inline __host__ __device__ Name operator op(Name a, int b) { return a op static_cast<Name>(static_cast<float>(b)); } \
    inline __host__ __device__ Name operator op(int a, Name b) { return static_cast<Name>(static_cast<float>(a)) op b; } \
    inline __host__ __device__ Name operator op(Name a, int64_t b) { return a op static_cast<Name>(static_cast<float>(b)); } \
    inline __host__ __device__ Name operator op(int64_t a, Name b) { return static_cast<Name>(static_cast<float>(a)) op b; }
// PyTorch compares by the conversion to float, which is ambiguous here beside the one to the native type.
#define SOFTCUDA_TORCH_COMPARISON(Name, op)                                                             \
    inline __host__ __device__ bool operator op(const Name& a, const Name& b)                           \
    {                                                                                                   \
        return static_cast<float>(a) op static_cast<float>(b);                                          \
    }                                                                                                   \
    template <typename Other, std::enable_if_t<std::is_arithmetic<Other>::value, int> = 0>              \
    inline __host__ __device__ bool operator op(const Name& a, Other b)                                 \
    {                                                                                                   \
        return static_cast<float>(a) op b;                                                              \
    }                                                                                                   \
    template <typename Other, std::enable_if_t<std::is_arithmetic<Other>::value, int> = 0>              \
    inline __host__ __device__ bool operator op(Other a, const Name& b)                                 \
    {                                                                                                   \
        return a op static_cast<float>(b);                                                              \
    }

SOFTCUDA_TORCH_FLOAT(Half, __half, __half2float, __float2half)
SOFTCUDA_TORCH_FLOAT(BFloat16, __nv_bfloat16, __bfloat162float, __float2bfloat16)

template <typename T>
struct alignas(sizeof(T) * 2) complex {
    using value_type = T;
    T real_ = T(0), imag_ = T(0);
    constexpr complex() = default;
    __host__ __device__ constexpr complex(const T& real, const T& imag = T()) : real_(real), imag_(imag) {}
    template <typename U>
    __host__ __device__ explicit constexpr complex(const complex<U>& other) : real_(other.real_), imag_(other.imag_)
    {
    }
    __host__ __device__ constexpr T real() const { return real_; }
    __host__ __device__ constexpr T imag() const { return imag_; }
    __host__ __device__ constexpr void real(T value) { real_ = value; }
    __host__ __device__ constexpr void imag(T value) { imag_ = value; }
    __host__ __device__ constexpr complex& operator+=(const complex& o) { return *this = *this + o; }
    __host__ __device__ constexpr complex& operator-=(const complex& o) { return *this = *this - o; }
    __host__ __device__ constexpr complex& operator*=(const complex& o) { return *this = *this * o; }
    __host__ __device__ constexpr complex operator-() const { return complex(-real_, -imag_); }
    __host__ __device__ friend constexpr complex operator+(const complex& a, const complex& b)
    {
        return complex(a.real_ + b.real_, a.imag_ + b.imag_);
    }
    __host__ __device__ friend constexpr complex operator-(const complex& a, const complex& b)
    {
        return complex(a.real_ - b.real_, a.imag_ - b.imag_);
    }
    __host__ __device__ friend constexpr complex operator*(const complex& a, const complex& b)
    {
        return complex(a.real_ * b.real_ - a.imag_ * b.imag_, a.real_ * b.imag_ + a.imag_ * b.real_);
    }
    __host__ __device__ friend constexpr bool operator==(const complex& a, const complex& b)
    {
        return a.real_ == b.real_ && a.imag_ == b.imag_;
    }
    __host__ __device__ friend constexpr bool operator!=(const complex& a, const complex& b) { return !(a == b); }
};

enum class ScalarType : int8_t {
    Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf, ComplexFloat, ComplexDouble, Bool, QInt8, QUInt8,
    QInt32, BFloat16
};

namespace impl {
template <ScalarType type>
struct ScalarTypeToCPPType;
#define SOFTCUDA_TORCH_SCALAR(Type, cpp)                                                                \
    template <>                                                                                         \
    struct ScalarTypeToCPPType<ScalarType::Type> {                                                      \
        using type = cpp;                                                                               \
    };
SOFTCUDA_TORCH_SCALAR(Byte, uint8_t) SOFTCUDA_TORCH_SCALAR(Char, int8_t) SOFTCUDA_TORCH_SCALAR(Short, int16_t)
SOFTCUDA_TORCH_SCALAR(Int, int) SOFTCUDA_TORCH_SCALAR(Long, int64_t) SOFTCUDA_TORCH_SCALAR(Half, Half)
SOFTCUDA_TORCH_SCALAR(Float, float) SOFTCUDA_TORCH_SCALAR(Double, double) SOFTCUDA_TORCH_SCALAR(Bool, bool)
SOFTCUDA_TORCH_SCALAR(BFloat16, BFloat16)
}  // namespace impl

class Scalar;
class Device;
class IntArrayRef;
template <typename T>
class ArrayRef;
namespace cuda {
class CUDAGuard;
class CUDAStream;
}  // namespace cuda
}  // namespace c10

namespace std {
template <>
class numeric_limits<c10::Half> {
public:
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, has_infinity = true;
    __host__ __device__ static constexpr c10::Half min() { return c10::Half(0x0400, c10::Half::from_bits()); }
    __host__ __device__ static constexpr c10::Half lowest() { return c10::Half(0xFBFF, c10::Half::from_bits()); }
    __host__ __device__ static constexpr c10::Half max() { return c10::Half(0x7BFF, c10::Half::from_bits()); }
    __host__ __device__ static constexpr c10::Half epsilon() { return c10::Half(0x1400, c10::Half::from_bits()); }
    __host__ __device__ static constexpr c10::Half infinity() { return c10::Half(0x7C00, c10::Half::from_bits()); }
    __host__ __device__ static constexpr c10::Half quiet_NaN() { return c10::Half(0x7E00, c10::Half::from_bits()); }
};
template <>
class numeric_limits<c10::BFloat16> {
public:
    using T = c10::BFloat16;
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, has_infinity = true;
    __host__ __device__ static constexpr T min() { return T(0x0080, T::from_bits()); }
    __host__ __device__ static constexpr T lowest() { return T(0xFF7F, T::from_bits()); }
    __host__ __device__ static constexpr T max() { return T(0x7F7F, T::from_bits()); }
    __host__ __device__ static constexpr T epsilon() { return T(0x3C00, T::from_bits()); }
    __host__ __device__ static constexpr T infinity() { return T(0x7F80, T::from_bits()); }
    __host__ __device__ static constexpr T quiet_NaN() { return T(0x7FC0, T::from_bits()); }
};
}  // namespace std

namespace at {
using namespace c10;
class TensorOptions;
// Host code hands its elements to kernels, whose templates follow from their type.
class Tensor {
public:
    template <typename T>
    T* data_ptr() const;
    template <typename T>
    T* data() const;
    template <typename T>
    const T* const_data_ptr() const;
    template <typename T>
    T* mutable_data_ptr() const;
    int64_t size(int64_t) const;
    int64_t stride(int64_t) const;
    int64_t numel() const;
    int64_t dim() const;
    ScalarType scalar_type() const;
};
namespace cuda {
using namespace c10::cuda;
class OptionalCUDAGuard;
}  // namespace cuda
namespace native {
}

// The type that sums are kept in, by that of what is summed.
template <typename T, bool is_cuda>
struct AccumulateType {
    using type = T;
};
#define SOFTCUDA_TORCH_ACCUMULATE(T, gpu, cpu)                                                          \
    template <>                                                                                         \
    struct AccumulateType<T, true> {                                                                    \
        using type = gpu;                                                                               \
    };                                                                                                  \
    template <>                                                                                         \
    struct AccumulateType<T, false> {                                                                   \
        using type = cpu;                                                                               \
    };
SOFTCUDA_TORCH_ACCUMULATE(Half, float, float) SOFTCUDA_TORCH_ACCUMULATE(BFloat16, float, float)
SOFTCUDA_TORCH_ACCUMULATE(__half, float, float) SOFTCUDA_TORCH_ACCUMULATE(float, float, double)
SOFTCUDA_TORCH_ACCUMULATE(int8_t, int64_t, int64_t) SOFTCUDA_TORCH_ACCUMULATE(uint8_t, int64_t, int64_t)
SOFTCUDA_TORCH_ACCUMULATE(int16_t, int64_t, int64_t) SOFTCUDA_TORCH_ACCUMULATE(int, int64_t, int64_t)
template <typename T, bool is_cuda>
using acc_type = typename AccumulateType<T, is_cuda>::type;

template <typename T>
struct OpMathType {
    using type = T;
};
template <>
struct OpMathType<Half> {
    using type = float;
};
template <>
struct OpMathType<BFloat16> {
    using type = float;
};
template <typename T>
using opmath_type = typename OpMathType<T>::type;

template <typename T>
constexpr __host__ __device__ T ceil_div(T a, T b)
{
    return (a + b - 1) / b;
}

template <typename T>
struct DefaultPtrTraits {
    typedef T* PtrType;
};
template <typename T>
struct RestrictPtrTraits {
    typedef T* __restrict__ PtrType;
};

template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
class TensorAccessorBase {
public:
    typedef typename PtrTraits<T>::PtrType PtrType;
    __host__ __device__ TensorAccessorBase(PtrType data, const index_t* sizes, const index_t* strides)
        : data_(data), sizes_(sizes), strides_(strides)
    {
    }
    __host__ __device__ index_t stride(index_t i) const { return strides_[i]; }
    __host__ __device__ index_t size(index_t i) const { return sizes_[i]; }
    __host__ __device__ PtrType data() { return data_; }
    __host__ __device__ const PtrType data() const { return data_; }

protected:
    PtrType data_;
    const index_t* sizes_;
    const index_t* strides_;
};

template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
class TensorAccessor : public TensorAccessorBase<T, N, PtrTraits, index_t> {
public:
    typedef typename PtrTraits<T>::PtrType PtrType;
    using TensorAccessorBase<T, N, PtrTraits, index_t>::TensorAccessorBase;
    __host__ __device__ TensorAccessor<T, N - 1, PtrTraits, index_t> operator[](index_t i) const
    {
        return {this->data_ + this->strides_[0] * i, this->sizes_ + 1, this->strides_ + 1};
    }
};

template <typename T, template <typename U> class PtrTraits, typename index_t>
class TensorAccessor<T, 1, PtrTraits, index_t> : public TensorAccessorBase<T, 1, PtrTraits, index_t> {
public:
    typedef typename PtrTraits<T>::PtrType PtrType;
    using TensorAccessorBase<T, 1, PtrTraits, index_t>::TensorAccessorBase;
    __host__ __device__ T& operator[](index_t i) const { return this->data_[this->strides_[0] * i]; }
};

template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
class GenericPackedTensorAccessor {
public:
    typedef typename PtrTraits<T>::PtrType PtrType;
    __host__ __device__ index_t stride(index_t i) const { return strides_[i]; }
    __host__ __device__ index_t size(index_t i) const { return sizes_[i]; }
    __host__ __device__ PtrType data() { return data_; }
    __host__ __device__ const PtrType data() const { return data_; }
    __host__ __device__ TensorAccessor<T, N - 1, PtrTraits, index_t> operator[](index_t i) const
    {
        return {data_ + strides_[0] * i, sizes_ + 1, strides_ + 1};
    }

    PtrType data_;
    index_t sizes_[N];
    index_t strides_[N];
};

template <typename T, template <typename U> class PtrTraits, typename index_t>
class GenericPackedTensorAccessor<T, 1, PtrTraits, index_t> {
public:
    typedef typename PtrTraits<T>::PtrType PtrType;
    __host__ __device__ index_t stride(index_t i) const { return strides_[i]; }
    __host__ __device__ index_t size(index_t i) const { return sizes_[i]; }
    __host__ __device__ PtrType data() { return data_; }
    __host__ __device__ T& operator[](index_t i) const { return data_[strides_[0] * i]; }

    PtrType data_;
    index_t sizes_[1];
    index_t strides_[1];
};

template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, PtrTraits, int32_t>;
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, PtrTraits, int64_t>;

namespace cuda {
namespace detail {
constexpr int MAX_TENSORINFO_DIMS = 25;

template <typename T, typename IndexType>
struct TensorInfo {
    T* data;
    IndexType sizes[MAX_TENSORINFO_DIMS];
    IndexType strides[MAX_TENSORINFO_DIMS];
    int dims;
    __host__ __device__ bool isContiguous() const { return dims == 1 && strides[0] == 1; }
};

// The place of an element by its number; the number of dimensions is -1 where only the tensor knows it.
template <typename T, typename IndexType, int Dims>
struct IndexToOffset {
    static __host__ __device__ IndexType get(IndexType linearId, const TensorInfo<T, IndexType>& info)
    {
        IndexType offset = 0;
        for (int i = (Dims < 0 ? info.dims : Dims) - 1; i > 0; linearId /= info.sizes[i--])
            offset += linearId % info.sizes[i] * info.strides[i];
        return offset + linearId * info.strides[0];
    }
};
}  // namespace detail
}  // namespace cuda
}  // namespace at

namespace torch {
using namespace at;
}

// Host code chooses types by these: its launches then make the same instances as with PyTorch.
#define SOFTCUDA_TORCH_CASE(T, ...) { using scalar_t = T; __VA_ARGS__(); }
#define SOFTCUDA_TORCH_FLOATS(...) SOFTCUDA_TORCH_CASE(double, __VA_ARGS__) SOFTCUDA_TORCH_CASE(float, __VA_ARGS__)
#define SOFTCUDA_TORCH_INTEGERS(...)                                                                    \
    SOFTCUDA_TORCH_CASE(uint8_t, __VA_ARGS__) SOFTCUDA_TORCH_CASE(int8_t, __VA_ARGS__)                  \
    SOFTCUDA_TORCH_CASE(int, __VA_ARGS__) SOFTCUDA_TORCH_CASE(int64_t, __VA_ARGS__)                     \
    SOFTCUDA_TORCH_CASE(int16_t, __VA_ARGS__)
#define SOFTCUDA_TORCH_HALF(...) SOFTCUDA_TORCH_CASE(at::Half, __VA_ARGS__)
#define SOFTCUDA_TORCH_BFLOAT16(...) SOFTCUDA_TORCH_CASE(at::BFloat16, __VA_ARGS__)
#ifndef AT_DISPATCH_FLOATING_TYPES
#define AT_DISPATCH_FLOATING_TYPES(type, name, ...) [&] { SOFTCUDA_TORCH_FLOATS(__VA_ARGS__) }()
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, name, ...)                                            \
    [&] { SOFTCUDA_TORCH_FLOATS(__VA_ARGS__) SOFTCUDA_TORCH_HALF(__VA_ARGS__) }()
#define AT_DISPATCH_FLOATING_TYPES_AND(one, type, name, ...) AT_DISPATCH_FLOATING_TYPES_AND2(one, one, type, name, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND2(one, two, type, name, ...)                                      \
    [&] { SOFTCUDA_TORCH_FLOATS(__VA_ARGS__) SOFTCUDA_TORCH_HALF(__VA_ARGS__) SOFTCUDA_TORCH_BFLOAT16(__VA_ARGS__) }()
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(type, name, ...)                                             \
    [&] { SOFTCUDA_TORCH_HALF(__VA_ARGS__) SOFTCUDA_TORCH_BFLOAT16(__VA_ARGS__) }()
#define AT_DISPATCH_INTEGRAL_TYPES(type, name, ...) [&] { SOFTCUDA_TORCH_INTEGERS(__VA_ARGS__) }()
#define AT_DISPATCH_ALL_TYPES(type, name, ...)                                                          \
    [&] { SOFTCUDA_TORCH_FLOATS(__VA_ARGS__) SOFTCUDA_TORCH_INTEGERS(__VA_ARGS__) }()
#endif
#endif
