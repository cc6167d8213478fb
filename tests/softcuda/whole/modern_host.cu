// Host code of C++17 about a kernel: containers, clocks, random numbers, lambdas, templates.
#include <algorithm>
#include <chrono>
#include <cublas_v2.h>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <thrust/device_vector.h>
#include <thrust/sort.h>
#include <vector>

using std::vector;
using Clock = std::chrono::high_resolution_clock;
namespace chrono_names = std::chrono;

namespace settings {
constexpr float scale = 3.0f;
const int offset = 2;
const std::string title = "modern";
static vector<float> history(16, 1.0f);
std::map<std::string, std::function<void(int)>> table { { "a", [](int i) { history.push_back(float(i)); } } };
}

class Stopwatch {
public:
    Stopwatch() : begin(Clock::now()), name { "kernel" } { }
    ~Stopwatch() { history.push_back(std::chrono::duration<float>(Clock::now() - begin).count()); }

private:
    Clock::time_point begin;
    std::string name;
    vector<float> history;
    cublasHandle_t handle;
};

template <typename Number> __global__ void scaled(const Number* in, Number* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = Number(settings::scale) * in[i] + settings::offset;
}

template <typename Number> void run(const vector<Number>& values)
{
    thrust::device_vector<Number> in(values), out(values.size());
    auto launch = [&](int blocks) {
        scaled<Number><<<blocks, 32>>>(in.data().get(), out.data().get(), int(values.size()));
        if (cudaGetLastError() != cudaSuccess)
            throw std::runtime_error("launch");
    };
    launch(64);
    thrust::sort(out.begin(), out.end(), [] __device__(Number a, Number b) { return a < b; });
}

int main()
{
    Stopwatch watch;
    std::mt19937 generator(5);
    std::uniform_real_distribution<float> uniform(0, 1);
    vector<float> values(2048);
    std::generate(values.begin(), values.end(), [&] { return uniform(generator); });
    std::thread other([&values] { std::sort(values.rbegin(), values.rend()); });
    other.join();
    run<float>(values);
    return int(std::accumulate(values.begin(), values.end(), 0.0f));
}
