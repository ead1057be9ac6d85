// attention_row.cuh: attention of one query row by one warp, for every type and
// any width of heads up to 256.
//
// It is plain and exact rather than fast: scores and sums are chains of fused
// products in float32, in ascending order. Keys are taken in blocks of 64 and
// splits as attention.cuh takes them, but for powers of e. A lane has the scores of keys lane and lane+32 of a
// block, and the columns lane, lane+32, … of the output.
#pragma once

#include "attention.cuh"

namespace lathe {

constexpr int row_warps = 4;         // rows that a block computes
constexpr int widest_head = 256;     // columns
constexpr int lane_columns = widest_head / 32;

// x·y over the head's width, in ascending order.
template <class X, class Y>
__device__ inline float head_product(const X *x, const Y *y, int width) {
    float sum = 0;
    for (int d = 0; d < width; d++) {
        sum = fmaf(to_float(x[d]), to_float(y[d]), sum);
    }
    return sum;
}

// What a warp has of a row over some keys: a lane its columns of the output.
struct RowSums {
    float o[lane_columns] = {};
    float maximum = -INFINITY, sum = 0;
};

// Attention of q (shared memory, width) over the keys first … end-1 of a split;
// Sequence is that of PackedRows or PagedRows.
template <class Sequence>
__device__ __forceinline__ RowSums attend_split(const float *q, const Sequence &rows, int32_t first, int32_t end, int width) {
    const float scale = 1 / sqrtf(static_cast<float>(width));
    const int lane = lane_index();
    RowSums r;
    for (; first < end; first += key_block) {
        float p[2];
        for (int half = 0; half < 2; half++) {
            int32_t key = first + half * 32 + lane;
            p[half] = key < end ? head_product(q, rows.keys + rows.row(key) * rows.ld, width) * scale : -INFINITY;
        }
        float raised = fmaxf(r.maximum, warp_max(fmaxf(p[0], p[1])));
        float factor = r.maximum == raised ? 1 : expf(r.maximum - raised);
        r.maximum = raised;
        p[0] = expf(p[0] - r.maximum);
        p[1] = expf(p[1] - r.maximum);
        r.sum = fmaf(r.sum, factor, warp_sum(p[0] + p[1]));
#pragma unroll
        for (int i = 0; i < lane_columns; i++) {
            r.o[i] *= factor;
        }
        const int32_t keys = min(end - first, key_block);
        for (int32_t key = 0; key < keys; key++) {
            float weight = __shfl_sync(all_lanes, key < 32 ? p[0] : p[1], key % 32);
            const auto *value = rows.values + rows.row(first + key) * rows.ld;
#pragma unroll
            for (int i = 0; i < lane_columns; i++) {
                if (lane + i * 32 < width) {
                    r.o[i] = fmaf(weight, to_float(value[lane + i * 32]), r.o[i]);
                }
            }
        }
    }
    return r;
}

// The end of a split that a row's last key lies behind or in.
__device__ inline int32_t split_end(int32_t split, int32_t position) {
    return min((split + 1) * attention_split_keys, position + 1);
}

// Folds the next split into a row.
__device__ __forceinline__ void fold_split(RowSums &row, FoldedSum<PowersOfE> &folded, const RowSums &split) {
    float keep, add;
    folded.fold(split.maximum, split.sum, keep, add);
#pragma unroll
    for (int i = 0; i < lane_columns; i++) {
        row.o[i] = fmaf(row.o[i], keep, split.o[i] * add);
    }
    row.maximum = folded.maximum;
    row.sum = folded.sum;
}

// Attention of q over the keys 0 … position, by a warp.
template <class Sequence>
__device__ __forceinline__ RowSums attend_row(const float *q, const Sequence &rows, int32_t position, int width) {
    const int32_t splits = attention_splits(position);
    RowSums row;
    FoldedSum<PowersOfE> folded;
    for (int32_t split = 0; split < splits; split++) {
        const RowSums sums = attend_split(q, rows, split * attention_split_keys, split_end(split, position), width);
        if (splits == 1) {
            return sums;
        }
        fold_split(row, folded, sums);
    }
    return row;
}

// Writes the output of a row.
template <class T>
__device__ inline void store_row(T *out, const RowSums &row, int width) {
    const float factor = normalizer(row.sum);
#pragma unroll
    for (int i = 0; i < lane_columns; i++) {
        if (lane_index() + i * 32 < width) {
            out[lane_index() + i * 32] = from_float<T>(row.o[i] * factor);
        }
    }
}

// Copies a head's row to shared memory, by a warp.
template <class T>
__device__ inline void stage_row(float *to, const T *from, int width) {
    for (int d = lane_index(); d < width; d += 32) {
        to[d] = to_float(from[d]);
    }
    __syncwarp();
}

template <class T>
__device__ inline void clear_row(T *row, int width) {
    for (int d = lane_index(); d < width; d += 32) {
        row[d] = from_float<T>(0);
    }
}

// Blocks: (tiles · 64/row_warps, heads).
template <class T, class Rows>
__global__ void __launch_bounds__(row_warps * 32, 4) attention_rows_kernel(T *out, float *lse, const T *qkv, Rows rows, int heads,
                                                                           int kv_heads, int width) {
    SHARED(float, q, [row_warps][widest_head]);
    constexpr int blocks_per_tile = key_block / row_warps;
    const int head = blockIdx.y;
    const auto sequence = rows.sequence(blockIdx.x / blocks_per_tile, head / (heads / kv_heads));
    const int32_t row = static_cast<int32_t>(blockIdx.x) % blocks_per_tile * row_warps + warp_index();
    const int64_t ld = static_cast<int64_t>(heads + 2 * kv_heads) * width, at = static_cast<int64_t>(sequence.tile.row) + row;
    T *to = out + (at * heads + head) * width;
    if (row < sequence.tile.rows) {
        stage_row(q[warp_index()], qkv + at * ld + head * width, width);
        const RowSums sums = attend_row(q[warp_index()], sequence, sequence.tile.position + row, width);
        store_row(to, sums, width);
        if (lane_index() == 0) {
            lse[at * heads + head] = sums.maximum + logf(sums.sum);
        }
    } else if (row < sequence.tile.written) {
        clear_row(to, width);
        if (lane_index() == 0) {
            lse[at * heads + head] = 0;
        }
    }
}

template <class T, class Rows>
void launch_attention_rows(Stream stream, T *out, float *lse, const T *qkv, const Rows &rows, int32_t tiles, int heads, int kv_heads,
                           int width) {
    LAUNCH((attention_rows_kernel<T, Rows>), dim3(static_cast<unsigned>(tiles) * (key_block / row_warps), heads), dim3(row_warps * 32), 0,
           stream, out, lse, qkv, rows, heads, kv_heads, width);
}

} // namespace lathe
