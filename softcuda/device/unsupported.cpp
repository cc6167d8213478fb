// What PyCUDA links with and this device does not do: each answers CUDA_ERROR_NOT_SUPPORTED. SOFTCUDA_TRACE=1
// shows which of them a program calls.
#include "driver.h"

using namespace softcuda;

#define UNSUPPORTED(name) \
    extern "C" API name(...) \
    { \
        softcuda::enter(#name " (not supported)", false); \
        return not_here(#name); \
    }

// References to textures and surfaces, which CUDA 12 has dropped, and mipmapped arrays.
UNSUPPORTED(cuMipmappedArrayCreate)
UNSUPPORTED(cuMipmappedArrayDestroy)
UNSUPPORTED(cuMipmappedArrayGetLevel)
UNSUPPORTED(cuModuleGetSurfRef)
UNSUPPORTED(cuModuleGetTexRef)
UNSUPPORTED(cuParamSetTexRef)
UNSUPPORTED(cuSurfRefGetArray)
UNSUPPORTED(cuSurfRefSetArray)
UNSUPPORTED(cuTexRefCreate)
UNSUPPORTED(cuTexRefDestroy)
UNSUPPORTED(cuTexRefGetAddressMode)
UNSUPPORTED(cuTexRefGetAddress_v2)
UNSUPPORTED(cuTexRefGetArray)
UNSUPPORTED(cuTexRefGetFilterMode)
UNSUPPORTED(cuTexRefGetFlags)
UNSUPPORTED(cuTexRefGetFormat)
UNSUPPORTED(cuTexRefSetAddress2D_v3)
UNSUPPORTED(cuTexRefSetAddressMode)
UNSUPPORTED(cuTexRefSetAddress_v2)
UNSUPPORTED(cuTexRefSetArray)
UNSUPPORTED(cuTexRefSetFilterMode)
UNSUPPORTED(cuTexRefSetFlags)
UNSUPPORTED(cuTexRefSetFormat)

// A second device, and events of other processes.
UNSUPPORTED(cuCtxDisablePeerAccess)
UNSUPPORTED(cuCtxEnablePeerAccess)
UNSUPPORTED(cuIpcGetEventHandle)
UNSUPPORTED(cuIpcOpenEventHandle)
UNSUPPORTED(cuMemcpy3DPeer)
UNSUPPORTED(cuMemcpy3DPeerAsync)

// Managed memory, profiler files.
UNSUPPORTED(cuMemAllocManaged)
UNSUPPORTED(cuStreamAttachMemAsync)
UNSUPPORTED(cuProfilerInitialize)
