/* A hash of many blocks at once, with the programs that a miner has beside it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <curl/curl.h>
#include "miner/device.h"
#include "hash.cuh"

static __device__ const uint32_t start[4] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a };
__constant__ static uint32_t round_keys[8] = { 0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5,
                                               0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5 };

__device__ void transform(HASH_CTX *ctx, const uint32_t data[])
{
    for (int i = 0; i < 8; ++i) {
        uint32_t t = ctx->state[i & 3] + EP0(ctx->state[(i + 1) & 3]) + round_keys[i] + data[i];
        ctx->state[i & 3] = ROTRIGHT(t, 7) ^ ctx->state[(i + 2) & 3];
    }
}

__global__ void kernel_hash(const uint32_t *in, uint32_t *out, uint32_t n_batch)
{
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= n_batch) return;
    HASH_CTX ctx;
    for (int i = 0; i < 4; i++) ctx.state[i] = start[i];
    transform(&ctx, in + thread * 8);
    for (int i = 0; i < 4; i++) out[thread * 4 + i] = ctx.state[i];
}

extern "C" void mcm_cuda_hash_batch(uint8_t *in, uint8_t *out, uint32_t n_batch)
{
    uint8_t *cuda_indata, *cuda_outdata;
    cudaMalloc(&cuda_indata, 32 * n_batch);
    cudaMalloc(&cuda_outdata, 16 * n_batch);
    cudaMemcpy(cuda_indata, in, 32 * n_batch, cudaMemcpyHostToDevice);
    kernel_hash <<< (n_batch + 255) / 256, 256 >>> ((uint32_t *) cuda_indata, (uint32_t *) cuda_outdata, n_batch);
    cudaMemcpy(out, cuda_outdata, 16 * n_batch, cudaMemcpyDeviceToHost);
    miner::report(n_batch);
}

int main(int argc, char **argv)
{
    CURL *curl = curl_easy_init();
    for (auto &device : miner::devices(argc, argv)) mcm_cuda_hash_batch(device.in(), device.out(), device.batch());
    curl_easy_cleanup(curl);
    return 0;
}
