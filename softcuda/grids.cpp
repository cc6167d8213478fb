#include "executor.h"
using namespace softcuda;
extern "C" EXPORT void softcuda_sync_grid() {}
extern "C" EXPORT int softcuda_is_cooperative() { return 0; }
