// How columns.cu goes down an image for K = 7, where rows are aligned: as slide.h does, but rows come to shared memory by
// themselves (cp.async). They need no registers on their way, and a warp waits for two rows at once. While it adds these
// up it asks for two more, so that two to four are on their way: with more, 8192^2 takes longer on an H200.

#pragma once

#include "../matmul/copies.h"
#include "slide.h"

// Calls add_row(sums, pieces of a row) as slide.h says.
template <int K, class AddRow>
__device__ __forceinline__ void slide_queued(const scalar_t* image, scalar_t* out, int rows, int columns, AddRow add_row)
{
    constexpr int ahead = 4, slots = ahead + 2, ends = (K + each - 2) / each; // ends: pieces behind the lanes' own
    static_assert(BLOCK_Y % 2 == 0 && K % 2, "a row of outputs is odd where one of the image is");
    __shared__ Pack queues[threads / 32][slots][32 + ends]; // of two rows that are read, and four that come
    const int out_rows = rows - K + 1, out_columns = columns - K + 1, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int first_row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y;
    const int first_col = blockIdx.x * BLOCK_X + warp * 32 * each, col = first_col + lane * each; // of the warp, the lane
    if (first_col >= out_columns || first_row >= out_rows)
        return; // a whole warp
    const int height = min(BLOCK_Y, out_rows - first_row) + K - 1, pitch = columns / each; // rows of the image; pieces
    Pack(&queue)[slots][32 + ends] = queues[warp];
    // The first lanes bring a piece of the ends of two rows.
    const int end_row = lane / ends, end = 32 + lane % ends;
    const int left = columns - first_col;
    const bool inside = lane * each < left, end_inside = end_row < 2 && end * each < left;
#pragma unroll
    for (int slot = 0; slot < slots; ++slot) { // pieces behind the ends of rows: sums that are not written read them
        if (!inside)
            queue[slot][lane] = {};
        if (slot % 2 == end_row && !end_inside)
            queue[slot][end] = {};
    }
    const Pack* const start = reinterpret_cast<const Pack*>(image + size_t(first_row) * columns + first_col);
    const Pack *pieces = start + lane, *end_pieces = start + size_t(end_row) * pitch + end;
    const auto bring = [&](int slot, int row, int second) { // one of two rows, with the second one the ends of both
        if (inside && row + second < height)
            copy(&queue[slot + second][lane], pieces);
        pieces += pitch;
        if (!second)
            return;
        if (end_inside && row + end_row < height)
            copy(&queue[slot + end_row][end], end_pieces);
        end_pieces += 2 * size_t(pitch);
        commit_copies();
    };
#pragma unroll
    for (int row = 0; row < ahead; ++row)
        bring(row & ~1, row & ~1, row % 2);
    scalar_t* result = out + size_t(first_row) * out_columns + col;
    scalar_t sums[K][each] = {};
    int now = 0, next = ahead; // slots
    for (int row = 0; row < height; row += 2) {
        wait_for_copies<ahead / 2 - 1>();
        __syncwarp(); // and the two rows that the next ones replace have been read
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            if (row + j >= height)
                return;
            Pack line[ends + 1];
#pragma unroll
            for (int i = 0; i <= ends; ++i)
                line[i] = queue[now + j][lane + i];
            add_row(sums, line);
            bring(next, row + ahead, j);
            if (row + j < K - 1)
                continue;
            write_aligned(result, sums[K - 1], out_columns - col, (K - 1) % each && j);
            result += out_columns;
        }
        now = now == ahead ? 0 : now + 2;
        next = next == ahead ? 0 : next + 2;
    }
}
