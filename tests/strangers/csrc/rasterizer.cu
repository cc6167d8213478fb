#include "rasterizer.h"
#include <cooperative_groups.h>
#include <iostream>
namespace cg = cooperative_groups;

using namespace tiny_renderer;

__device__ const float SH_C0 = 0.28209479177387814f;
constexpr int NUM_CHANNELS = 3;

__forceinline__ __device__ float3 transformPoint4x3(const float3& p, const float* matrix)
{
    float3 transformed = {
        matrix[0] * p.x + matrix[4] * p.y + matrix[8] * p.z + matrix[12],
        matrix[1] * p.x + matrix[5] * p.y + matrix[9] * p.z + matrix[13],
        matrix[2] * p.x + matrix[6] * p.y + matrix[10] * p.z + matrix[14],
    };
    return transformed;
}

template<int C>
__global__ void preprocessCUDA(int P, const float* orig_points, const float* viewmatrix, float* colors)
{
    auto idx = cg::this_grid().thread_rank();
    if (idx >= P)
        return;
    float3 p_orig = { orig_points[3 * idx], orig_points[3 * idx + 1], orig_points[3 * idx + 2] };
    float3 p_view = transformPoint4x3(p_orig, viewmatrix);
    float values[C] = { p_view.x, p_view.y, p_view.z };
    for (int i = 0; i < C; i++)
        colors[C * idx + i] = SH_C0 * values[i] + 0.5f;
}

int Rasterizer::Forward::run(std::function<char*(size_t)> buffer, const int P, const Scene& scene)
{
    float* colors = reinterpret_cast<float*>(buffer(sizeof(float) * NUM_CHANNELS * P));
    preprocessCUDA<NUM_CHANNELS> << <(P + 255) / 256, 256 >> > (P, scene.points(), scene.view(), colors);
    if (scene.debug())
        std::cerr << "done" << std::endl;
    return P;
}

std::vector<Scene> Rasterizer::scenes() { return {}; }
