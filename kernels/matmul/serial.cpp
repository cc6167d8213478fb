// Matrix product on the host, one thread: C(m x k) = A(m x n) B(n x k), row-major.
// The textbook loop with the two inner loops exchanged, so that B and C are walked along their rows.
// Costs: 2mnk operations. B stays in the cache up to a few hundred columns.
#include <cstddef>

extern "C" void matmul_serial(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    for (int row = 0; row < m; ++row) {
        scalar_t* c_row = c + size_t(row) * k;
        for (int col = 0; col < k; ++col)
            c_row[col] = 0;
        for (int i = 0; i < n; ++i) {
            const scalar_t factor = a[size_t(row) * n + i];
            const scalar_t* b_row = b + size_t(i) * k;
            for (int col = 0; col < k; ++col)
                c_row[col] += factor * b_row[col];
        }
    }
}
