// 2-D convolution with a filter of rank 1 on the host, one thread: along the row, then down the column.
// Costs: 4 K operations an output, and K rows of sums, kept in a ring.
#include <cstddef>
#include <vector>

extern "C" void separable_serial(const scalar_t* image, const scalar_t* column, const scalar_t* row, scalar_t* out,
    int rows, int columns, int k)
{
    const int out_columns = columns - k + 1;
    std::vector<scalar_t> across(size_t(k) * out_columns); // of image row y in ring row y % k
    for (int y = 0; y < rows; ++y) {
        scalar_t* const sums = &across[size_t(y % k) * out_columns];
        for (int x = 0; x < out_columns; ++x) {
            scalar_t sum = 0;
            for (int q = 0; q < k; ++q)
                sum += row[q] * image[size_t(y) * columns + x + q];
            sums[x] = sum;
        }
        if (y < k - 1)
            continue;
        const int first = y - k + 1;
        for (int x = 0; x < out_columns; ++x) {
            scalar_t sum = 0;
            for (int p = 0; p < k; ++p)
                sum += column[p] * across[size_t((first + p) % k) * out_columns + x];
            out[size_t(first) * out_columns + x] = sum;
        }
    }
}
