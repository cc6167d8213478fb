// Copies of one thread, and an mbarrier that waits for them; the rest is in cuda_dialect.h, which is included already.
#pragma once

#include "cuda_awbarrier_primitives.h"

#define __pipeline_arrive_on(barrier) softcuda_mbarrier_track_copies((barrier), 0)
