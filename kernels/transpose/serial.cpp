// Transpose on the host, one thread: B(n x m) = A(m x n)^T, row-major.
// Costs: reads along rows, writes a row of B apart; past the cache, a line is fetched for each element.
#include <cstddef>

extern "C" void transpose_serial(const scalar_t* a, scalar_t* b, int m, int n)
{
    for (int row = 0; row < m; ++row)
        for (int col = 0; col < n; ++col)
            b[size_t(col) * m + row] = a[size_t(row) * n + col];
}
