// attention_row_backward.cuh: gradients of attention for one row by one warp,
// for every type and any width of heads up to 256: plain and exact, the
// counterpart of attention_row.cuh. A lane has p and ds of one row of the other
// side, 32 of them at a time, and the columns lane, lane+32, … of the result.
#pragma once

#include "attention_row.cuh"

namespace lathe {

// acc += weight·row, for this lane's columns.
template <class T>
__device__ inline void add_weighted(float acc[lane_columns], float weight, const T *row, int width) {
#pragma unroll
    for (int i = 0; i < lane_columns; i++) {
        const int column = lane_index() + i * 32;
        acc[i] = fmaf(weight, column < width ? to_float(row[column]) : 0, acc[i]);
    }
}

template <class T>
__device__ inline void store_columns(T *to, const float acc[lane_columns], float factor, int width) {
#pragma unroll
    for (int i = 0; i < lane_columns; i++) {
        if (lane_index() + i * 32 < width) {
            to[lane_index() + i * 32] = from_float<T>(acc[i] * factor);
        }
    }
}

// Queries that see the keys of a tile: of one head of the group, in rows one after the other.
struct Queries {
    int32_t head;     // of the group, from 0
    int32_t sequence; // whose queries they are
    int32_t row, position; // of the first
    int32_t left;     // from it to the end of its sequence; 0: there are no more
};

// The first that see a tile's keys: those of its own sequence from row `from` of the tile on.
template <bool TRUNKS>
__device__ __forceinline__ Queries first_queries(const PackedTile<TRUNKS> &keys, int32_t from) {
    const int32_t left = keys.length - keys.first - from;
    return {0, keys.sequence, keys.tile.row + from, keys.tile.position + from, max(0, left)};
}

// Those that come `count` after: of the same sequence, of the next that goes on
// from the keys', and of the group's next head.
template <bool TRUNKS>
__device__ __forceinline__ Queries next_queries(const Packing &packing, const PackedTile<TRUNKS> &keys, Queries now, int32_t count,
                                                int32_t group, int32_t from = 0) {
    if (now.left > count) {
        return {now.head, now.sequence, now.row + count, now.position + count, now.left - count};
    }
    const int32_t next = now.sequence + 1;
    if (TRUNKS && packing.trunks != nullptr && next < packing.sequences && packing.trunks[next] == keys.sequence) {
        return {now.head, next, packing.starts[next], keys.length, packing.lengths[next]};
    }
    Queries again = first_queries(keys, from);
    again.head = now.head + 1;
    again.left = again.head < group ? again.left : 0;
    return again;
}

// One query's dq. Blocks: (tiles · 64/row_warps, heads).
template <class T>
__global__ void __launch_bounds__(row_warps * 32) attention_query_rows_kernel(T *dqkv, const float *delta, const T *dout, const float *lse,
                                                                              const T *qkv, Packing packing, int heads, int kv_heads,
                                                                              int width) {
    SHARED(float, own, [row_warps][2][widest_head]);
    constexpr int blocks_per_tile = key_block / row_warps;
    const int head = blockIdx.y, kv_head = head / (heads / kv_heads), warp = warp_index();
    const auto packed = packed_tile<true>(packing, blockIdx.x / blocks_per_tile);
    const int32_t row = static_cast<int32_t>(blockIdx.x) % blocks_per_tile * row_warps + warp;
    const int64_t ld = static_cast<int64_t>(heads + 2 * kv_heads) * width, here = static_cast<int64_t>(packed.tile.row) + row;
    if (row >= packed.tile.written) {
        return;
    }
    T *to = dqkv + here * ld + head * width;
    if (row >= packed.tile.rows) {
        clear_row(to, width);
        return;
    }
    const T *keys = qkv + (heads + kv_head) * width, *values = keys + kv_heads * width;
    const int64_t at = here * heads + head;
    const int32_t position = packed.tile.position + row;
    stage_row(own[warp][0], qkv + here * ld + head * width, width);
    stage_row(own[warp][1], dout + at * width, width);
    const float scale = 1 / sqrtf(static_cast<float>(width));
    float dq[lane_columns] = {};
    for (int32_t first = 0; first <= position; first += 32) {
        const int32_t key = first + lane_index();
        float ds = 0;
        if (key <= position) {
            const int64_t other = packed.places.row(key) * ld;
            float p = expf(head_product(own[warp][0], keys + other, width) * scale - lse[at]);
            ds = p * (head_product(own[warp][1], values + other, width) - delta[at]);
        }
        const int32_t seen = min(32, position + 1 - first);
#pragma unroll 1
        for (int32_t i = 0; i < seen; i++) {
            add_weighted(dq, __shfl_sync(all_lanes, ds, i), keys + packed.places.row(first + i) * ld, width);
        }
    }
    store_columns(to, dq, scale, width);
}

// One key's dk and dv. Blocks: (tiles · 64/row_warps, kv_heads).
template <class T>
__global__ void __launch_bounds__(row_warps * 32, 1) attention_key_rows_kernel(T *dqkv, const float *delta, const T *dout, const float *lse,
                                                                            const T *qkv, Packing packing, int heads, int kv_heads,
                                                                            int width) {
    SHARED(float, own, [row_warps][2][widest_head]);
    constexpr int blocks_per_tile = key_block / row_warps;
    const int kv_head = blockIdx.y, group = heads / kv_heads, warp = warp_index();
    const auto packed = packed_tile<true>(packing, blockIdx.x / blocks_per_tile);
    const int32_t row = static_cast<int32_t>(blockIdx.x) % blocks_per_tile * row_warps + warp;
    const int64_t ld = static_cast<int64_t>(heads + 2 * kv_heads) * width, here = static_cast<int64_t>(packed.tile.row) + row;
    if (row >= packed.tile.written) {
        return;
    }
    T *to_key = dqkv + here * ld + (heads + kv_head) * width, *to_value = to_key + kv_heads * width;
    if (row >= packed.tile.rows) {
        clear_row(to_key, width);
        clear_row(to_value, width);
        return;
    }
    const T *key = qkv + here * ld + (heads + kv_head) * width;
    stage_row(own[warp][0], key, width);
    stage_row(own[warp][1], key + kv_heads * width, width);
    const float scale = 1 / sqrtf(static_cast<float>(width));
    float dk[lane_columns] = {}, dv[lane_columns] = {};
    for (Queries now = first_queries(packed, row); now.left > 0; now = next_queries(packing, packed, now, 32, group, row)) {
        const int head = kv_head * group + now.head;
        const int32_t queries = min(32, now.left);
        float p = 0, ds = 0;
        if (lane_index() < queries) {
            const int64_t query = static_cast<int64_t>(now.row) + lane_index(), at = query * heads + head;
            p = expf(head_product(own[warp][0], qkv + query * ld + head * width, width) * scale - lse[at]);
            ds = p * (head_product(own[warp][1], dout + at * width, width) - delta[at]);
        }
#pragma unroll 1
        for (int32_t i = 0; i < queries; i++) {
            const int64_t other = static_cast<int64_t>(now.row) + i;
            add_weighted(dv, __shfl_sync(all_lanes, p, i), dout + (other * heads + head) * width, width);
            add_weighted(dk, __shfl_sync(all_lanes, ds, i), qkv + other * ld + head * width, width);
        }
    }
    store_columns(to_key, dk, scale, width);
    store_columns(to_value, dv, 1, width);
}

template <class T>
void launch_backward_rows(Stream stream, T *dqkv, const float *delta, const T *dout, const float *lse, const T *qkv, const Packing &packing,
                          int heads, int kv_heads, int width) {
    const unsigned blocks = static_cast<unsigned>(packing.tile_count) * (key_block / row_warps);
    LAUNCH((attention_query_rows_kernel<T>), dim3(blocks, heads), dim3(row_warps * 32), 0, stream, dqkv, delta, dout, lse, qkv, packing,
           heads, kv_heads, width);
    LAUNCH((attention_key_rows_kernel<T>), dim3(blocks, kv_heads), dim3(row_warps * 32), 0, stream, dqkv, delta, dout, lse, qkv, packing,
           heads, kv_heads, width);
}

} // namespace lathe
