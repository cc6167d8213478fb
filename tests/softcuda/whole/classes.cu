// Classes that both sides use: members of the host beside members of the device.
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

struct Error : std::exception {
    explicit Error(const std::string& text) : text(text) { }
    const char* what() const noexcept override { return text.c_str(); }
    std::string text;
};

enum Mode { PLAIN, DOUBLED = 2 };

struct Point {
    float x, y;
    __host__ __device__ Point(float x, float y) : x(x), y { y } { }
    explicit Point(const std::vector<float>& values) : x(values.at(0)), y { values.at(1) }
    {
        if (values.size() > 2)
            throw Error("too long");
    }
    Point(const Point&) = default;
    __host__ __device__ float length() const;
    __host__ __device__ Point operator+(const Point& other) const { return Point(x + other.x, y + other.y); }
    void print() const { std::cout << *this << std::endl; }
    static Point read(std::istream& from)
    {
        Point made(0, 0);
        from >> made.x >> made.y;
        return made;
    }
    friend std::ostream& operator<<(std::ostream& to, const Point& point) { return to << point.x << " " << point.y; }
    void* operator new(size_t size)
    {
        void* made;
        cudaMallocManaged(&made, size);
        cudaDeviceSynchronize();
        return made;
    }
    void operator delete(void* given) { cudaFree(given); }
};

__host__ __device__ float Point::length() const { return sqrtf(x * x + y * y); }

typedef struct {
    int count;
    Mode mode;
} Settings;

struct Name {
    int length;
    char* text;
    Name(const Name& other) : length(other.length), text(new char[other.length]) { }
    ~Name() { delete[] text; }
};

struct Managed {
    std::vector<Point> points;
    cudaStream_t stream;
    Managed() { cudaStreamCreate(&stream); }
    virtual ~Managed() { cudaStreamDestroy(stream); }
    virtual void run(Settings settings);
} managed;

namespace device {
namespace detail {
__constant__ Settings settings = { 3, DOUBLED };
__device__ int calls[4] = { 1, 2, 3, 4 };
__device__ __forceinline__ float twice(float value) { return value * settings.mode; }
}
}

static Settings on_host = { 4, PLAIN };
float twice(float value) { return on_host.mode == PLAIN ? value : 2 * value; }

extern "C" {
__global__ void kernel(const float* in, float* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = device::detail::twice((Point(in[i], 0) + Point(0, 1)).length()) + device::detail::calls[i % 4];
}
__global__ void by_value(Name name, int* out) { out[threadIdx.x] = name.length += int(threadIdx.x); }
void run_all(Managed* all) { all->run(on_host); }
}

void Managed::run(Settings settings)
{
    kernel<<<settings.count, 32, 0, stream>>>(nullptr, nullptr, settings.count);
    for (const Point& point : points)
        point.print();
}
