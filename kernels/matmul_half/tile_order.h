#pragma once

// Row and column of a tile, in the order in which blocks take tiles: down a group of rows first, then on to the next
// column, so that what is computed at a time shares rows of A and columns of B.
__device__ __forceinline__ void find_tile(int number, int down, int across, int& row, int& col)
{
    const int first = number / (GROUP * across) * GROUP, height = min(down - first, GROUP);
    const int inside = number - first * across;
    row = first + inside % height, col = inside / height;
}
