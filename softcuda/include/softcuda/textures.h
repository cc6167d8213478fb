// Textures and surfaces by objects: CUDA's functions as tables over five calls into the driver, which has the arrays.
// A file gets this header where it names one of them (chosen_headers.py).
#pragma once

typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
// What host code describes textures with, and declarations beside kernels name.
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
enum cudaTextureAddressMode { cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder };
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaChannelFormatKind {
    cudaChannelFormatKindSigned, cudaChannelFormatKindUnsigned, cudaChannelFormatKindFloat, cudaChannelFormatKindNone
};
struct cudaChannelFormatDesc { int x, y, z, w; cudaChannelFormatKind f; };
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };

namespace softcuda {

// What a fetch gives: four words, floats by their bits, integers of fewer bits extended to 32.
using Texel = TexelWords;
template <class Component> __forceinline__ Component component(unsigned word) { return Component(word); }
template <> __forceinline__ float component<float>(unsigned word) { return from_bits<float>(word); }

template <class T> struct Element {
    static_assert(sizeof(T) == 0, "a texture has elements of 1, 2 or 4 char, short, int (signed or unsigned) or float");
};
template <class T> struct SurfaceElement : Element<T> { };
#define SOFTCUDA_SCALAR(type) \
    template <> struct Element<type> { \
        using Type = type; \
        static __forceinline__ type of(Texel v) { return component<type>(v.x); } \
    };
#define SOFTCUDA_ELEMENT(name, type) \
    SOFTCUDA_SCALAR(type) \
    template <> struct Element<name##1> { \
        static __forceinline__ name##1 of(Texel v) { return {component<type>(v.x)}; } \
    }; \
    template <> struct Element<name##2> { \
        static __forceinline__ name##2 of(Texel v) { return {component<type>(v.x), component<type>(v.y)}; } \
    }; \
    template <> struct Element<name##4> { \
        static __forceinline__ name##4 of(Texel v) \
        { \
            return {component<type>(v.x), component<type>(v.y), component<type>(v.z), component<type>(v.w)}; \
        } \
    };
SOFTCUDA_SCALAR(char)
SOFTCUDA_ELEMENT(char, signed char)
SOFTCUDA_ELEMENT(uchar, unsigned char)
SOFTCUDA_ELEMENT(short, short)
SOFTCUDA_ELEMENT(ushort, unsigned short)
SOFTCUDA_ELEMENT(int, int)
SOFTCUDA_ELEMENT(uint, unsigned)
SOFTCUDA_ELEMENT(float, float)
#undef SOFTCUDA_SCALAR
#undef SOFTCUDA_ELEMENT
#define SOFTCUDA_LONG(type) \
    template <> struct SurfaceElement<type> { };
SOFTCUDA_LONG(long long)
SOFTCUDA_LONG(unsigned long long)
SOFTCUDA_LONG(longlong1)
SOFTCUDA_LONG(longlong2)
SOFTCUDA_LONG(ulonglong1)
SOFTCUDA_LONG(ulonglong2)
#undef SOFTCUDA_LONG

// The bytes of an element as words, and back. A surface neither converts nor filters.
template <class T> __forceinline__ T from_words(Texel words)
{
    (void)sizeof(SurfaceElement<T>);
    T value;
    __builtin_memcpy(&value, &words, sizeof(T));
    return value;
}
template <class T> __forceinline__ Texel to_words(T value)
{
    (void)sizeof(SurfaceElement<T>);
    Texel words {};
    __builtin_memcpy(&words, &value, sizeof(T));
    return words;
}

template <class T> constexpr unsigned surface_call(Shape shape, cudaSurfaceBoundaryMode mode)
{
    return unsigned(shape) | unsigned(mode) << 8 | unsigned(sizeof(T)) << 16;
}

} // namespace softcuda

extern "C" {
softcuda::TexelWords softcuda_fetch_linear(cudaTextureObject_t, int x);
softcuda::TexelWords softcuda_fetch(cudaTextureObject_t, softcuda::Shape, float x, float y, float z, int layer);
softcuda::TexelWords softcuda_texture_gather(cudaTextureObject_t, float x, float y, int component);
softcuda::TexelWords softcuda_surface_read(cudaSurfaceObject_t, unsigned call, softcuda::SurfacePlace);
void softcuda_surface_write(cudaSurfaceObject_t, unsigned call, softcuda::SurfacePlace, softcuda::TexelWords value);
}

// Each in two forms: tex2D<float4>(texture, x, y) and tex2D(&value, texture, x, y).
#define SOFTCUDA_TEXTURE(name, call, ...) \
    template <class T> __forceinline__ T name(cudaTextureObject_t texture, __VA_ARGS__) \
    { \
        return softcuda::Element<T>::of(call); \
    } \
    template <class T> __forceinline__ void name(T* value, cudaTextureObject_t texture, __VA_ARGS__) \
    { \
        *value = softcuda::Element<T>::of(call); \
    }
#define SOFTCUDA_FETCH(shape, x, y, z, layer) softcuda_fetch(texture, softcuda::Shape::shape, x, y, z, layer)
// There is one level of detail: Lod and Grad choose it, whatever they ask for.
#define SOFTCUDA_LEVELS(name, call, derivative, ...) \
    SOFTCUDA_TEXTURE(name, call, __VA_ARGS__) \
    SOFTCUDA_TEXTURE(name##Lod, call, __VA_ARGS__, float) \
    SOFTCUDA_TEXTURE(name##Grad, call, __VA_ARGS__, derivative, derivative)
SOFTCUDA_TEXTURE(tex1Dfetch, softcuda_fetch_linear(texture, x), int x)
SOFTCUDA_LEVELS(tex1D, SOFTCUDA_FETCH(line, x, 0, 0, 0), float, float x)
SOFTCUDA_LEVELS(tex2D, SOFTCUDA_FETCH(plane, x, y, 0, 0), float2, float x, float y)
SOFTCUDA_LEVELS(tex3D, SOFTCUDA_FETCH(volume, x, y, z, 0), float4, float x, float y, float z)
SOFTCUDA_LEVELS(tex1DLayered, SOFTCUDA_FETCH(line_layers, x, 0, 0, layer), float, float x, int layer)
SOFTCUDA_LEVELS(tex2DLayered, SOFTCUDA_FETCH(plane_layers, x, y, 0, layer), float2, float x, float y, int layer)
SOFTCUDA_LEVELS(texCubemap, SOFTCUDA_FETCH(cube, x, y, z, 0), float4, float x, float y, float z)
SOFTCUDA_LEVELS(texCubemapLayered, SOFTCUDA_FETCH(cube_layers, x, y, z, layer), float4, float x, float y, float z, int layer)
SOFTCUDA_TEXTURE(tex2Dgather, softcuda_texture_gather(texture, x, y, component), float x, float y, int component = 0)
#undef SOFTCUDA_TEXTURE
#undef SOFTCUDA_FETCH
#undef SOFTCUDA_LEVELS

// Surfaces: x in bytes, and what becomes of an access outside.
#define SOFTCUDA_MODE cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap
#define SOFTCUDA_SURFACE(name, shape, place, ...) \
    template <class T> __forceinline__ T name##read(cudaSurfaceObject_t surface, __VA_ARGS__, SOFTCUDA_MODE) \
    { \
        const unsigned call = softcuda::surface_call<T>(softcuda::Shape::shape, mode); \
        return softcuda::from_words<T>(softcuda_surface_read(surface, call, softcuda::SurfacePlace place)); \
    } \
    template <class T> __forceinline__ void name##read(T* value, cudaSurfaceObject_t surface, __VA_ARGS__, SOFTCUDA_MODE) \
    { \
        const unsigned call = softcuda::surface_call<T>(softcuda::Shape::shape, mode); \
        *value = softcuda::from_words<T>(softcuda_surface_read(surface, call, softcuda::SurfacePlace place)); \
    } \
    template <class T> __forceinline__ void name##write(T value, cudaSurfaceObject_t surface, __VA_ARGS__, SOFTCUDA_MODE) \
    { \
        const unsigned call = softcuda::surface_call<T>(softcuda::Shape::shape, mode); \
        softcuda_surface_write(surface, call, softcuda::SurfacePlace place, softcuda::to_words(value)); \
    }
#define SOFTCUDA_PLACE(...) {__VA_ARGS__}
SOFTCUDA_SURFACE(surf1D, line, SOFTCUDA_PLACE(x, 0, 0, 0), int x)
SOFTCUDA_SURFACE(surf2D, plane, SOFTCUDA_PLACE(x, y, 0, 0), int x, int y)
SOFTCUDA_SURFACE(surf3D, volume, SOFTCUDA_PLACE(x, y, z, 0), int x, int y, int z)
SOFTCUDA_SURFACE(surf1DLayered, line_layers, SOFTCUDA_PLACE(x, 0, 0, layer), int x, int layer)
SOFTCUDA_SURFACE(surf2DLayered, plane_layers, SOFTCUDA_PLACE(x, y, 0, layer), int x, int y, int layer)
SOFTCUDA_SURFACE(surfCubemap, cube, SOFTCUDA_PLACE(x, y, 0, face), int x, int y, int face)
SOFTCUDA_SURFACE(surfCubemapLayered, cube_layers, SOFTCUDA_PLACE(x, y, 0, layerface), int x, int y, int layerface)
#undef SOFTCUDA_MODE
#undef SOFTCUDA_SURFACE
#undef SOFTCUDA_PLACE
