#ifndef _BALL_QUERY_H
#define _BALL_QUERY_H
#include <torch/serialize/tensor.h>
#include <THC/THC.h>
#include <vector>

#define THREADS_PER_BLOCK 64
#define DIVUP(m, n) ((m) / (n) + ((m) % (n) > 0))

int ball_query_wrapper(int n, int m, float radius, at::Tensor new_xyz, at::Tensor xyz, at::Tensor idx);
void ball_query_launcher(int n, int m, float radius, const float *new_xyz, const float *xyz, int *idx, cudaStream_t stream);
extern THCState *state;
#define CHECK_CUDA(x) TORCH_CHECK(x.type().is_cuda(), #x " must be a CUDA tensor")
#endif
