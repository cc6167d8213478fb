// What kernels use most of cub: the others of its names are compile errors (messages.py). Files rely on its bringing the
// standard headers.
#pragma once

#include <algorithm>
#include <cfloat>
#include <limits>

#include "../cuda/functional"
#include "block/block_exchange.cuh"
#include "block/block_load.cuh"
#include "block/block_radix_rank.cuh"
#include "block/block_radix_sort.cuh"
#include "block/block_reduce.cuh"
#include "block/block_scan.cuh"
#include "block/block_store.cuh"
#include "warp/warp_reduce.cuh"
#include "warp/warp_scan.cuh"
