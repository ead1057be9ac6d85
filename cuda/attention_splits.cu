// attention_splits.cu: the list of what attention_paged computes at once.
//
//   work (count, 2) = (row, split) for each row and each of its splits, in order; (-1, -1) after them
//
// One block goes through the rows in runs of its size: where a row's entries
// begin is the sum of the splits of the rows before it.
#include "kernels.h"

namespace lathe {

namespace {

constexpr int list_threads = 512;

// The sum of x over the threads before this one, and over all of them in total.
// scratch has a place for each warp.
__device__ inline int32_t sum_before(int32_t x, int32_t *scratch, int32_t &total) {
    int32_t sum = x;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int32_t lower = __shfl_up_sync(all_lanes, sum, distance);
        sum += lane_index() >= distance ? lower : 0;
    }
    if (lane_index() == 31) {
        scratch[warp_index()] = sum;
    }
    __syncthreads();
    int32_t before = 0;
    total = 0;
#pragma unroll
    for (int warp = 0; warp < list_threads / 32; warp++) {
        before += warp < warp_index() ? scratch[warp] : 0;
        total += scratch[warp];
    }
    __syncthreads();
    return before + sum - x;
}

__global__ void __launch_bounds__(list_threads) list_splits_kernel(int2 *work, int64_t count, const int32_t *positions, int64_t rows) {
    SHARED(int32_t, scratch, [list_threads / 32]);
    int64_t at = 0;
    for (int64_t first = 0; first < rows; first += list_threads) {
        const int64_t row = first + threadIdx.x;
        const int32_t splits = row < rows ? (positions[row] < 0 ? 1 : attention_splits(positions[row])) : 0;
        int32_t total;
        const int64_t begin = at + sum_before(splits, scratch, total);
        for (int32_t split = 0; split < splits; split++) {
            if (begin + split < count) {
                work[begin + split] = make_int2(static_cast<int32_t>(row), split);
            }
        }
        at += total;
    }
    for (int64_t i = at + threadIdx.x; i < count; i += list_threads) {
        work[i] = make_int2(-1, -1);
    }
}

} // namespace

void list_splits(Stream stream, int32_t *work, int64_t count, const int32_t *positions, int64_t rows) {
    LAUNCH(list_splits_kernel, dim3(1), dim3(list_threads), 0, stream, reinterpret_cast<int2 *>(work), count, positions, rows);
}

} // namespace lathe
