// Warp functions without a mask, which this device has not: a template may name them as long as no kernel calls it.
#pragma once

#define SOFTCUDA_WITHOUT_MASK(name) \
    template <class Value, class... Others> \
    __attribute__((error("softcuda does not support " #name " (warp functions without a mask)"))) Value name(Value, Others...);
SOFTCUDA_WITHOUT_MASK(__shfl)
SOFTCUDA_WITHOUT_MASK(__shfl_up)
SOFTCUDA_WITHOUT_MASK(__shfl_down)
SOFTCUDA_WITHOUT_MASK(__shfl_xor)
SOFTCUDA_WITHOUT_MASK(__ballot)
SOFTCUDA_WITHOUT_MASK(__any)
SOFTCUDA_WITHOUT_MASK(__all)
#undef SOFTCUDA_WITHOUT_MASK
