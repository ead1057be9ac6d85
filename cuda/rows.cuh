// rows.cuh: how kernels on rows divide their work.
//
// A block of threads takes one row (or one row of columns' sums) and each thread
// every so many groups of eight columns. The number of threads depends on the
// row's width alone, and so does the order in which a row is summed up.
#pragma once

#include "common.cuh"

namespace lathe {

// Threads for rows of a width: one per eight columns as far as `most` go, in whole warps.
inline unsigned row_threads(int64_t width, int64_t most) {
    int64_t threads = ceil_div(ceil_div(width, int64_t(8)), int64_t(32)) * 32;
    return static_cast<unsigned>(threads < 32 ? 32 : threads > most ? most : threads);
}

// The first column of this thread, and how far it is to its next.
__device__ inline int64_t first_column() { return 8 * static_cast<int64_t>(threadIdx.x); }
__device__ inline int64_t column_stride() { return 8 * static_cast<int64_t>(blockDim.x); }

// The first of the four elements of this thread, where a whole array is divided among all.
__device__ inline int64_t first_of_four() {
    return 4 * (static_cast<int64_t>(threadIdx.x) + static_cast<int64_t>(blockIdx.x) * blockDim.x);
}

__device__ inline Vec8 zeros8() {
    Vec8 x;
    for (int i = 0; i < 8; i++) x.at[i] = 0;
    return x;
}

} // namespace lathe
