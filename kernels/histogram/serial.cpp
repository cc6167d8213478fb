// Histogram of bytes on the host, one thread.
// Costs: the bytes once through memory. Four histograms take turns, so that equal neighbours do not wait for each other.

extern "C" void histogram_serial(const scalar_t* keys, unsigned* counts, int n, int)
{
    unsigned own[4][256] = {};
    for (int i = 0; i < n; ++i)
        ++own[i % 4][keys[i]];
    for (int bin = 0; bin < 256; ++bin)
        counts[bin] = own[0][bin] + own[1][bin] + own[2][bin] + own[3][bin];
}
