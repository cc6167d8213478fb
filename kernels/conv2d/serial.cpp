// 2-D convolution on the host, one thread: "valid", filter not flipped, K x K.
// Costs: 2 K^2 operations an output; image and filter stay in the cache.
#include <cstddef>

extern "C" void conv2d_serial(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    for (int row = 0; row < out_rows; ++row)
        for (int col = 0; col < out_columns; ++col) {
            scalar_t sum = 0;
            for (int p = 0; p < k; ++p)
                for (int q = 0; q < k; ++q)
                    sum += filter[size_t(p) * k + q] * image[size_t(row + p) * columns + col + q];
            out[size_t(row) * out_columns + col] = sum;
        }
}
