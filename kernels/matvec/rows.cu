// Matrix-vector product, ROWS rows a warp: a piece of x serves them all.
// A lane has a load of 16 bytes of each row in flight, and one of x in place of ROWS; a block computes BLOCK_X rows.
// Where rows do not all start at multiples of 16 bytes, they are read element by element.
// Costs: A once; x from the caches once for ROWS rows; ROWS sums and five shuffles for each. Needs ROWS times the rows
// of vectorised.cu to keep the machine busy.
// Share on an H200, predicted: 0.90 to 0.98; reached: 0.87 of a copy's bandwidth at 8192^2 (float32), 1.01 at 16384^2:
// fewer rows leave it too few warps.

constexpr int pack = 16 / sizeof(scalar_t);
struct alignas(16) Pack {
    scalar_t values[pack];
};

extern "C" __global__ void __launch_bounds__(BLOCK_X / ROWS * 32)
matvec_rows(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int first = blockIdx.x * BLOCK_X + threadIdx.x / 32 * ROWS, lane = threadIdx.x % 32;
    if (first >= m)
        return; // a whole warp
    const scalar_t* row[ROWS]; // those beyond the matrix are the last one again
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
        row[r] = a + size_t(min(first + r, m - 1)) * n;

    scalar_t sums[ROWS] = {};
    if (n % pack == 0 && (size_t(a) | size_t(x)) % 16 == 0) {
#pragma unroll 2
        for (int i = lane; i < n / pack; i += 32) {
            Pack held[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                held[r] = reinterpret_cast<const Pack*>(row[r])[i];
            const Pack factors = reinterpret_cast<const Pack*>(x)[i];
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
#pragma unroll
                for (int j = 0; j < pack; ++j)
                    sums[r] += held[r].values[j] * factors.values[j];
        }
    } else {
#pragma unroll 4
        for (int i = lane; i < n; i += 32) {
            const scalar_t factor = x[i];
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                sums[r] += row[r][i] * factor;
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        for (int distance = 16; distance > 0; distance /= 2)
            sums[r] += __shfl_down_sync(0xffffffffu, sums[r], distance);
        if (lane == 0 && first + r < m)
            y[first + r] = sums[r];
    }
}
