// attention_backward.cu: gradients of attention_forward.
//
// With c = 1/√D, p_ij = exp(c·q_i·k_j − lse_i) for the keys j that query i sees,
// and delta_i = Σ dout_i·out_i:
//
//   dv_j = Σ_i p_ij dout_i                     ds_ij = p_ij (dout_i·v_j − delta_i)
//   dq_i = c Σ_j ds_ij k_j                     dk_j  = c Σ_i ds_ij q_i
//
// (Dao, FlashAttention-2, 2023, algorithm 2.) One kernel has blocks of keys and
// goes through the query heads of their group and the queries that see them, in
// ascending order, and after a trunk's own through those of its branches; another
// has blocks of queries and goes through keys, a trunk's before the branch's. Both
// compute p and ds again, so that no sum is shared between blocks and none needs
// an atomic addition. In bfloat16 with D = 64 and 128 they use tensor cores;
// the rest is in attention_row_backward.cuh.
#include "attention.cuh"
#include "attention_row_backward.cuh"

namespace lathe {

namespace {

constexpr int step_rows = 32; // rows of the other side that meet a block's 64 at a time

// A block's own rows of two matrices, and two stages of the other side's rows.
template <int D>
struct BackwardShared {
    bf16 own[2][key_block * D];
    bf16 other[2][2][step_rows * D]; // of stage, matrix
    float lse[2][step_rows], delta[2][step_rows];
};

// s = x0·y0ᵀ and dp = x1·y1ᵀ for the warp's 16 rows of x from row0 and 32 rows of y.
template <int D>
__device__ __forceinline__ void two_products(float s[4][4], float dp[4][4], const bf16 *x0, const bf16 *x1, const bf16 *y0, const bf16 *y1,
                                             int row0) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            s[j][e] = dp[j][e] = 0;
        }
    }
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        uint32_t a0[4], a1[4], b[4];
        load_a_along_k<D / 8>(a0, x0, row0, k);
        load_a_along_k<D / 8>(a1, x1, row0, k);
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            load_b_along_k<D / 8>(b, y0, j * 8, k);
            mma_bf16_16x8x16(s[j], a0, b);
            mma_bf16_16x8x16(s[j + 1], a0, b + 2);
            load_b_along_k<D / 8>(b, y1, j * 8, k);
            mma_bf16_16x8x16(dp[j], a1, b);
            mma_bf16_16x8x16(dp[j + 1], a1, b + 2);
        }
    }
}

// acc (16 rows, D) += w·y for weights w (16 rows, 32 rows of y) in the layout of two_products.
template <int D>
__device__ __forceinline__ void add_rows(float acc[D / 8][4], const float w[4][4], const bf16 *y) {
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const float *low = w[2 * k], *high = w[2 * k + 1];
        uint32_t a[4] = {pack_bf16(low[0], low[1]), pack_bf16(low[2], low[3]), pack_bf16(high[0], high[1]), pack_bf16(high[2], high[3])};
#pragma unroll
        for (int j = 0; j < D / 8; j += 2) {
            uint32_t b[4];
            load_b_across<D / 8>(b, y, j * 8, k * 16);
            mma_bf16_16x8x16(acc[j], a, b);
            mma_bf16_16x8x16(acc[j + 1], a, b + 2);
        }
    }
}

// Writes the warp's accumulators times factor to rows row and row+8 (and so on by lane) of a
// tile that begins at `to`: zeros in those that it writes and does not have.
template <int D>
__device__ __forceinline__ void store_gradient(bf16 *to, int64_t ld, const float acc[D / 8][4], float factor, int32_t row,
                                               const Tile &tile) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int32_t r = row + half * 8;
        if (r >= tile.written) {
            continue;
        }
#pragma unroll
        for (int j = 0; j < D / 8; j++) {
            uint32_t pair = r < tile.rows ? pack_bf16(acc[j][half * 2] * factor, acc[j][half * 2 + 1] * factor) : 0;
            *reinterpret_cast<uint32_t *>(to + r * ld + j * 8 + (lane_index() & 3) * 2) = pair;
        }
    }
}

// dk and dv. Blocks: kv_heads times tiles of keys.
template <int D, bool TRUNKS>
__global__ void __launch_bounds__(128) attention_keys_kernel(bf16 *dqkv, const float *delta, const bf16 *dout, const float *lse,
                                                             const bf16 *qkv, Packing packing, int heads, int kv_heads) {
    DYNAMIC_SHARED(BackwardShared<D>, shared);
    const int kv_head = blockIdx.x % kv_heads, group = heads / kv_heads;
    const auto own = packed_tile<TRUNKS>(packing, blockIdx.x / kv_heads);
    const Tile &tile = own.tile;
    const int64_t ld = static_cast<int64_t>(heads + 2 * kv_heads) * D, ld_out = static_cast<int64_t>(heads) * D;
    const int64_t key_column = static_cast<int64_t>(heads + kv_head) * D, value_column = key_column + static_cast<int64_t>(kv_heads) * D;

    auto load_step = [&](const Queries &next, int stage) {
        if (next.left > 0) {
            const int head = kv_head * group + next.head;
            copy_rows<D, step_rows, 128>(shared->other[stage][0], qkv + next.row * ld + head * D, ld, next.left);
            copy_rows<D, step_rows, 128>(shared->other[stage][1], dout + next.row * ld_out + head * D, ld_out, next.left);
            if (threadIdx.x < step_rows) {
                const bool exists = static_cast<int32_t>(threadIdx.x) < next.left;
                const int64_t at = (static_cast<int64_t>(next.row) + threadIdx.x) * heads + head;
                shared->lse[stage][threadIdx.x] = exists ? lse[at] * log2_e : 0;
                shared->delta[stage][threadIdx.x] = exists ? delta[at] : 0;
            }
        }
        cp_async_commit();
    };
    copy_rows<D, key_block, 128>(shared->own[0], qkv + tile.row * ld + key_column, ld, tile.rows);
    copy_rows<D, key_block, 128>(shared->own[1], qkv + tile.row * ld + value_column, ld, tile.rows);
    Queries now = first_queries(own, 0);
    load_step(now, 0);

    const int row0 = warp_index() * 16;
    const int32_t key = tile.position + row0 + lane_index() / 4;
    const float root = 1 / sqrtf(static_cast<float>(D)), scale = log2_e * root;
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
#pragma unroll 1
    for (int stage = 0; now.left > 0; stage ^= 1) {
        cp_async_wait<0>();
        __syncthreads(); // the step's rows have arrived, and everyone has left those that are overwritten now
        const Queries next = next_queries(packing, own, now, step_rows, group);
        load_step(next, stage ^ 1);
        const bf16 *queries = shared->other[stage][0], *gradients = shared->other[stage][1];
        float s[4][4], dp[4][4];
        two_products<D>(s, dp, shared->own[0], shared->own[1], queries, gradients, row0);
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int column = j * 8 + (lane_index() & 3) * 2 + e % 2;
                const bool sees = key + e / 2 * 8 <= now.position + column && column < now.left;
                float p = sees ? fast_exp2(fmaf(s[j][e], scale, -shared->lse[stage][column])) : 0;
                s[j][e] = p;
                dp[j][e] = p * (dp[j][e] - shared->delta[stage][column]);
            }
        }
        add_rows<D>(dv, s, gradients);
        add_rows<D>(dk, dp, queries);
        now = next;
    }
    bf16 *to = dqkv + tile.row * ld;
    const int32_t row = row0 + lane_index() / 4;
    store_gradient<D>(to + key_column, ld, dk, root, row, tile);
    store_gradient<D>(to + value_column, ld, dv, 1, row, tile);
}

// dq. Blocks: heads times tiles of queries, from the last. With heads of 64 four
// blocks fit a multiprocessor, if they are told to: else nvcc 13 spills registers
// to reach the same number. With trunks three do.
template <int D, bool TRUNKS>
__global__ void __launch_bounds__(128, D == 64 ? (TRUNKS ? 3 : 4) : 1)
    attention_queries_kernel(bf16 *dqkv, const float *delta, const bf16 *dout, const float *lse, const bf16 *qkv, Packing packing,
                             int heads, int kv_heads) {
    DYNAMIC_SHARED(BackwardShared<D>, shared);
    const int head = blockIdx.x % heads, kv_head = head / (heads / kv_heads);
    auto own_tile = [&] { return packed_tile<TRUNKS>(packing, packing.tile_count - 1 - static_cast<int32_t>(blockIdx.x) / heads); };
    const auto own = own_tile();
    const Tile &tile = own.tile;
    const int64_t ld = static_cast<int64_t>(heads + 2 * kv_heads) * D, ld_out = static_cast<int64_t>(heads) * D;
    const bf16 *all_keys = qkv + static_cast<int64_t>(heads + kv_head) * D, *all_values = all_keys + static_cast<int64_t>(kv_heads) * D;
    const int32_t seen = tile.position + tile.rows, steps = ceil_div(seen, step_rows);

    auto load_step = [&](int32_t step) {
        if (step < steps) {
            const int32_t first = step * step_rows, exist = seen - first;
            copy_rows<D, step_rows, 128>(shared->other[step % 2][0], own.places.from(all_keys, ld, first), ld, exist);
            copy_rows<D, step_rows, 128>(shared->other[step % 2][1], own.places.from(all_values, ld, first), ld, exist);
        }
        cp_async_commit();
    };
    copy_rows<D, key_block, 128>(shared->own[0], qkv + tile.row * ld + head * D, ld, tile.rows);
    copy_rows<D, key_block, 128>(shared->own[1], dout + tile.row * ld_out + head * D, ld_out, tile.rows);
    load_step(0);

    const int row0 = warp_index() * 16;
    const int32_t query = row0 + lane_index() / 4, position = tile.position + query; // within the tile, and within the sequence
    const float root = 1 / sqrtf(static_cast<float>(D)), scale = log2_e * root;
    float row_lse[2], row_delta[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const bool exists = query + half * 8 < tile.rows;
        const int64_t at = (static_cast<int64_t>(tile.row) + query + half * 8) * heads + head;
        row_lse[half] = exists ? lse[at] * log2_e : 0;
        row_delta[half] = exists ? delta[at] : 0;
    }
    float dq[D / 8][4] = {};
#pragma unroll 1
    for (int32_t step = 0; step < steps; step++) {
        cp_async_wait<0>();
        __syncthreads(); // the step's rows have arrived, and everyone has left those that are overwritten now
        load_step(step + 1);
        const bf16 *keys = shared->other[step % 2][0], *values = shared->other[step % 2][1];
        float s[4][4], dp[4][4];
        two_products<D>(s, dp, shared->own[0], shared->own[1], keys, values, row0);
        const int32_t key0 = step * step_rows + (lane_index() & 3) * 2;
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                // A row that the tile does not have is of zeros, and not written.
                const bool sees = key0 + j * 8 + e % 2 <= position + e / 2 * 8;
                float p = sees ? fast_exp2(fmaf(s[j][e], scale, -row_lse[e / 2])) : 0;
                dp[j][e] = p * (dp[j][e] - row_delta[e / 2]);
            }
        }
        add_rows<D>(dq, dp, keys);
    }
    const Tile written = own_tile().tile; // once more, rather than in registers meanwhile
    store_gradient<D>(dqkv + written.row * ld + head * D, ld, dq, root, query, written);
}

// delta (rows, heads) = Σ dout·out over each head's width, a warp for each.
template <class T>
__global__ void __launch_bounds__(128) attention_delta_kernel(float *delta, const T *dout, const T *out, int64_t count, int width) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * 4 + warp_index();
    if (at >= count) {
        return;
    }
    float sum = 0;
    for (int d = lane_index(); d < width; d += 32) {
        sum = fmaf(to_float(dout[at * width + d]), to_float(out[at * width + d]), sum);
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) {
        delta[at] = sum;
    }
}

template <class T>
void launch_delta(Stream stream, float *delta, const T *dout, const T *out, int64_t count, int width) {
    LAUNCH((attention_delta_kernel<T>), dim3(static_cast<unsigned>(ceil_div(count, 4))), dim3(128), 0, stream, delta, dout, out, count,
           width);
}

template <int D, bool TRUNKS>
void launch_backward(Stream stream, bf16 *dqkv, const float *delta, const bf16 *dout, const float *lse, const bf16 *qkv,
                     const Packing &packing, int heads, int kv_heads) {
    const unsigned tiles = static_cast<unsigned>(packing.tile_count);
    LAUNCH((attention_keys_kernel<D, TRUNKS>), dim3(tiles * kv_heads), dim3(128), sizeof(BackwardShared<D>), stream, dqkv, delta, dout, lse, qkv,
           packing, heads, kv_heads);
    LAUNCH((attention_queries_kernel<D, TRUNKS>), dim3(tiles * heads), dim3(128), sizeof(BackwardShared<D>), stream, dqkv, delta, dout, lse, qkv,
           packing, heads, kv_heads);
}

template <int D>
void launch_backward(Stream stream, bf16 *dqkv, const float *delta, const bf16 *dout, const float *lse, const bf16 *qkv,
                     const Packing &packing, int heads, int kv_heads) {
    if (packing.trunks == nullptr) {
        launch_backward<D, false>(stream, dqkv, delta, dout, lse, qkv, packing, heads, kv_heads);
    } else {
        launch_backward<D, true>(stream, dqkv, delta, dout, lse, qkv, packing, heads, kv_heads);
    }
}

} // namespace

template <>
void attention_backward<bf16>(Stream stream, bf16 *dqkv, float *delta, const bf16 *dout, const bf16 *out, const float *lse, const bf16 *qkv,
                              const Packing &packing, int64_t rows, int heads, int kv_heads, int head_dim) {
    launch_delta(stream, delta, dout, out, rows * heads, head_dim);
    switch (head_dim) {
    case 64: return launch_backward<64>(stream, dqkv, delta, dout, lse, qkv, packing, heads, kv_heads);
    case 128: return launch_backward<128>(stream, dqkv, delta, dout, lse, qkv, packing, heads, kv_heads);
    default: return launch_backward_rows(stream, dqkv, delta, dout, lse, qkv, packing, heads, kv_heads, head_dim);
    }
}

template <>
void attention_backward<float>(Stream stream, float *dqkv, float *delta, const float *dout, const float *out, const float *lse,
                               const float *qkv, const Packing &packing, int64_t rows, int heads, int kv_heads, int head_dim) {
    launch_delta(stream, delta, dout, out, rows * heads, head_dim);
    launch_backward_rows(stream, dqkv, delta, dout, lse, qkv, packing, heads, kv_heads, head_dim);
}

} // namespace lathe
