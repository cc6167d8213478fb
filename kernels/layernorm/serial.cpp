// Normalisation of the rows of an m x n matrix on the host, one thread.
// Costs: three passes over a row, from the cache but for the first. Sums are in double, so that their error does not grow
// with n.
#include <cmath>
#include <cstddef>

extern "C" void layernorm_serial(const scalar_t* x, const scalar_t* gamma, const scalar_t* beta, scalar_t* y,
    scalar_t* mean, scalar_t* rstd, scalar_t eps, int m, int n)
{
    for (int row = 0; row < m; ++row) {
        const scalar_t* const from = x + size_t(row) * n;
        scalar_t* const to = y + size_t(row) * n;
        double sum = 0, squares = 0;
        for (int col = 0; col < n; ++col)
            sum += from[col];
        const double middle = sum / n;
        for (int col = 0; col < n; ++col)
            squares += (from[col] - middle) * (from[col] - middle);
        const double factor = 1 / std::sqrt(squares / n + eps);
        for (int col = 0; col < n; ++col)
            to[col] = scalar_t((from[col] - middle) * factor) * gamma[col] + beta[col];
        mean[row] = middle;
        rstd[row] = factor;
    }
}
