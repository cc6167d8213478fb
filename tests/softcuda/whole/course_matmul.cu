// A square product with its own main, as courses have it.
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <ctime>
#include <iostream>

#define N 16
#define TILE 8
#define CHECK(call)                                                                        \
    do {                                                                                   \
        const cudaError_t error = (call);                                                  \
        if (error != cudaSuccess) {                                                        \
            std::cerr << __FILE__ << ":" << __LINE__ << " " << cudaGetErrorString(error);  \
            std::exit(1);                                                                  \
        }                                                                                  \
    } while (0)

using namespace std;

__global__ void kernel(const float* a, float* c, int n);
void product(const float* a, float* c, int n);
static double seconds() { return double(clock()) / CLOCKS_PER_SEC; }

int main(int argc, char** argv)
{
    float *a, *c, milliseconds;
    cudaEvent_t start, stop;
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaMalloc((void**)&a, N * N * sizeof(float)));
    CHECK(cudaMalloc((void**)&c, N * N * sizeof(float)));
    dim3 block(TILE, TILE), grid((N + TILE - 1) / TILE, (N + TILE - 1) / TILE);
    CHECK(cudaEventRecord(start));
    kernel<<<grid, block>>>(a, c, N);
    CHECK(cudaEventRecord(stop));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    cout << properties.name << ": " << milliseconds << " ms, " << seconds() << " s" << endl;
    return argc > 1 ? atoi(argv[1]) : 0;
}

__global__ void kernel(const float* a, float* c, int n)
{
    const int element = blockIdx.x * blockDim.x + threadIdx.x, row = element / N, column = element % N;
    assert(n > 0);
    if (element >= N * N)
        return;
    float sum = 0;
    for (int i = 0; i < N; ++i)
        sum += a[row * N + i] * a[i * N + column];
    c[element] = sum;
}

void product(const float* a, float* c, int n)
{
#pragma omp parallel for collapse(2)
    for (int row = 0; row < n; ++row)
        for (int column = 0; column < n; ++column) {
            c[row * n + column] = 0;
            for (int i = 0; i < n; ++i)
                c[row * n + column] += a[row * n + i] * a[i * n + column];
        }
}
