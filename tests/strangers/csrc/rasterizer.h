#pragma once
#include <functional>
#include <vector>
#include <tiny_renderer/scene.hpp>

namespace Rasterizer {
class Forward {
public:
    static int run(std::function<char*(size_t)> buffer, const int P, const tiny_renderer::Scene& scene);
};
std::vector<tiny_renderer::Scene> scenes();
}  // namespace Rasterizer
