#pragma once
#include <torch/extension.h>

torch::Tensor gemv_forward_cuda(torch::Tensor _in_feats, torch::Tensor _kernel, torch::Tensor _scaling_factors);
