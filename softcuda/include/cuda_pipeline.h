// The functions of C alone: the classes in nvcuda::experimental came before <cuda/pipeline>.
#pragma once

#include "cuda_pipeline_primitives.h"
