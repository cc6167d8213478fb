// Matrix-vector product on the host, one thread: y(m) = A(m x n) x(n), row-major.
// Costs: A once through memory. The sum is one chain of additions, in order, as C++ demands of floats.
#include <cstddef>

extern "C" void matvec_serial(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    for (int row = 0; row < m; ++row) {
        scalar_t sum = 0;
        for (int col = 0; col < n; ++col)
            sum += a[size_t(row) * n + col] * x[col];
        y[row] = sum;
    }
}
