// Softmax of the rows of an m x n matrix on the host, one thread.
// Costs: three passes over a row, from the cache but for the first; one exponential an element. Sums are in double, so
// that their error does not grow with n.
#include <algorithm>
#include <cmath>
#include <cstddef>

extern "C" void softmax_serial(const scalar_t* x, scalar_t* y, int m, int n)
{
    for (int row = 0; row < m; ++row) {
        const scalar_t* const from = x + size_t(row) * n;
        scalar_t* const to = y + size_t(row) * n;
        const scalar_t largest = *std::max_element(from, from + n);
        double sum = 0;
        for (int col = 0; col < n; ++col)
            sum += to[col] = std::exp(from[col] - largest);
        const scalar_t factor = 1 / sum;
        for (int col = 0; col < n; ++col)
            to[col] *= factor;
    }
}
