// Thrust's pointers, as far as kernels pass them on: bare ones are taken out and put back.
#pragma once

namespace thrust {

template <class T> class device_ptr {
    T* bare = nullptr;

public:
    using element_type = T;
    __forceinline__ constexpr device_ptr() = default;
    template <class U> __forceinline__ constexpr explicit device_ptr(U* given) : bare(given) { }
    __forceinline__ constexpr T* get() const { return bare; }
    __forceinline__ constexpr T& operator*() const { return *bare; }
    __forceinline__ constexpr T& operator[](long place) const { return bare[place]; }
    __forceinline__ constexpr device_ptr operator+(long by) const { return device_ptr(bare + by); }
    __forceinline__ constexpr device_ptr operator-(long by) const { return device_ptr(bare - by); }
};
template <class T> __forceinline__ constexpr device_ptr<T> device_pointer_cast(T* bare) { return device_ptr<T>(bare); }
template <class T> __forceinline__ constexpr T* raw_pointer_cast(T* bare) { return bare; }
template <class T> __forceinline__ constexpr T* raw_pointer_cast(const device_ptr<T>& from) { return from.get(); }

} // namespace thrust
