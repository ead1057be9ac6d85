// attention.cu: causal attention with grouped heads over packed sequences.
//
//   out (rows, heads·D), lse (rows, heads) from qkv (rows, (heads+2·kv_heads)·D)
//
// Head a reads key-value head a/(heads/kv_heads). In bfloat16 with D = 64 and
// 128 a block of four warps computes 64 query rows of one head (Dao,
// FlashAttention-2, 2023, section 3: the running maximum and sum stay in
// registers, scores never leave them); other types and widths go the plain way
// of attention_row.cuh.
#include "attention.cuh"
#include "attention_row.cuh"

namespace lathe {

int attention_tile_rows() { return key_block; }

namespace {

// Rows over the splits so far: of each thread what it alone writes and reads,
// because registers have room for one split.
template <int D>
struct FoldedRows {
    float o[D / 2][128];
    FoldedSum<PowersOf2> sums[2][128];
};

template <int D>
struct ForwardShared {
    union {
        bf16 q[key_block * D]; // until all warps have their operands
        FoldedRows<D> folded;
    };
    bf16 keys[2][key_block * D], values[2][key_block * D];
};

// Folds a split into the rows so far and begins the next one; at the end the
// registers have all splits. sum is then of the row, not of a lane.
template <int D>
__device__ __forceinline__ void fold_split(FoldedRows<D> &folded, bool first, bool last, float o[D / 16][2][4], float sum[2],
                                           RowMaxima &maxima) {
    float keep[2], add[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        FoldedSum<PowersOf2> row;
        if (!first) {
            row = folded.sums[half][threadIdx.x];
        }
        row.fold(maxima.maximum[half], sum_of_row(sum[half]), keep[half], add[half]);
        folded.sums[half][threadIdx.x] = row;
        sum[half] = last ? row.sum : 0;
        maxima.maximum[half] = last ? row.maximum : -INFINITY;
    }
#pragma unroll
    for (int i = 0; i < D / 2; i++) {
        float &x = o[i / 8][i / 4 % 2][i % 4];
        const float before = first ? 0 : folded.o[i][threadIdx.x];
        const float after = fmaf(before, keep[i / 2 % 2], x * add[i / 2 % 2]);
        folded.o[i][threadIdx.x] = after;
        x = last ? after : 0;
    }
}

// Two accumulators per lane and row: writes row·1/sum, or zeros.
template <int D>
__device__ __forceinline__ void store_rows(bf16 *out, int64_t ld, const float o[D / 16][2][4], const float sum[2], int32_t row,
                                           const Tile &tile) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int32_t r = row + half * 8;
        if (r >= tile.written) {
            continue;
        }
        float factor = r < tile.rows ? normalizer(sum[half]) : 0;
        bf16 *to = out + r * ld + (lane_index() & 3) * 2;
#pragma unroll
        for (int j = 0; j < D / 8; j++) {
            const float *x = &o[j / 2][j % 2][half * 2];
            uint32_t pair = r < tile.rows ? pack_bf16(x[0] * factor, x[1] * factor) : 0;
            *reinterpret_cast<uint32_t *>(to + j * 8) = pair;
        }
    }
}

// Blocks: heads times tiles, the tiles from the last, because later rows of a
// sequence see more keys. Shared memory has room for two with heads of 128: without
// the number nvcc 11.8 spills registers to have a third.
template <int D, class Rows>
__global__ void __launch_bounds__(128, D == 128 ? 2 : 3)
    attention_kernel(bf16 *out, float *lse, const bf16 *qkv, Rows rows, int heads, int kv_heads) {
    DYNAMIC_SHARED(ForwardShared<D>, shared);
    const int head = blockIdx.x % heads;
    const auto sequence = rows.sequence(rows.tile_count() - 1 - static_cast<int32_t>(blockIdx.x) / heads, head / (heads / kv_heads));
    const Tile tile = sequence.tile;
    const int32_t ld = (heads + 2 * kv_heads) * D;
    const int32_t blocks = tile.position / key_block + 1;

    auto load_block = [&](int32_t block) {
        if (block < blocks) {
            const int32_t exist = sequence.end - block * key_block;
            copy_rows<D, key_block, 128>(shared->keys[block % 2], sequence.block(sequence.keys, block), sequence.ld, exist);
            copy_rows<D, key_block, 128>(shared->values[block % 2], sequence.block(sequence.values, block), sequence.ld, exist);
        }
        cp_async_commit();
    };
    copy_rows<D, key_block, 128>(shared->q, qkv + static_cast<int64_t>(tile.row) * ld + head * D, ld, tile.rows);
    load_block(0);
    cp_async_wait<0>();
    __syncthreads();

    const int row0 = warp_index() * 16;
    uint32_t q[D / 16][4];
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        load_a_along_k<D / 8>(q[k], shared->q, row0, k * 16);
    }
    const int32_t row = row0 + lane_index() / 4;
    const int32_t position[2] = {tile.position + row, tile.position + row + 8};
    const float scale = log2_e / sqrtf(static_cast<float>(D));
    float o[D / 16][2][4] = {};
    float sum[2] = {0, 0};
    RowMaxima maxima;
#pragma unroll 1
    for (int32_t block = 0; block < blocks; block++) {
        cp_async_wait<0>();
        __syncthreads(); // the block has arrived, and everyone has left the one that is overwritten now
        load_block(block + 1);
        float s[4][2][4], largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
        for (int group = 0; group < 4; group++) {
            score_group<D>(s[group], q, shared->keys[block % 2], group * 16);
            if (block == blocks - 1) {
                mask_group(s[group], block * key_block + group * 16, position);
            }
            largest[0] = fmaxf(largest[0], largest_of_group(s[group], 0));
            largest[1] = fmaxf(largest[1], largest_of_group(s[group], 1));
        }
        largest[0] = largest_of_row(largest[0]);
        largest[1] = largest_of_row(largest[1]);
        float factor[2], part[4][2];
        maxima.raise(largest, scale, factor);
        uint32_t p[4][4];
#pragma unroll
        for (int group = 0; group < 4; group++) {
            weigh_group(s[group], maxima.maximum, scale, part[group], p[group]);
        }
        sum[0] = fmaf(sum[0], factor[0], (part[0][0] + part[1][0]) + (part[2][0] + part[3][0]));
        sum[1] = fmaf(sum[1], factor[1], (part[0][1] + part[1][1]) + (part[2][1] + part[3][1]));
#pragma unroll
        for (int j = 0; j < D / 16; j++) {
            add_values<D>(o[j], p, factor, shared->values[block % 2], j * 16);
        }
        const bool last = block == blocks - 1;
        if (blocks > split_blocks && (last || block % split_blocks == split_blocks - 1)) {
            fold_split<D>(shared->folded, block < split_blocks, last, o, sum, maxima);
        }
    }
    if (blocks <= split_blocks) {
        sum[0] = sum_of_row(sum[0]);
        sum[1] = sum_of_row(sum[1]);
    }
    store_rows<D>(out + (static_cast<int64_t>(tile.row) * heads + head) * D, static_cast<int64_t>(heads) * D, o, sum, row, tile);
    if ((lane_index() & 3) == 0) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int32_t r = row + half * 8;
            if (r < tile.written) {
                lse[(static_cast<int64_t>(tile.row) + r) * heads + head] = r < tile.rows ? fmaf(maxima.maximum[half], ln_2, logf(sum[half])) : 0;
            }
        }
    }
}

template <int D, class Rows>
void launch_tiles(Stream stream, bf16 *out, float *lse, const bf16 *qkv, const Rows &rows, int32_t tiles, int heads, int kv_heads) {
    LAUNCH((attention_kernel<D, Rows>), dim3(static_cast<unsigned>(tiles) * heads), dim3(128), sizeof(ForwardShared<D>), stream, out, lse,
           qkv, rows, heads, kv_heads);
}

template <class Rows>
void launch(Stream stream, bf16 *out, float *lse, const bf16 *qkv, const Rows &rows, int32_t tiles, int heads, int kv_heads, int head_dim) {
    switch (head_dim) {
    case 64: return launch_tiles<64>(stream, out, lse, qkv, rows, tiles, heads, kv_heads);
    case 128: return launch_tiles<128>(stream, out, lse, qkv, rows, tiles, heads, kv_heads);
    default: return launch_attention_rows(stream, out, lse, qkv, rows, tiles, heads, kv_heads, head_dim);
    }
}
template <class Rows>
void launch(Stream stream, float *out, float *lse, const float *qkv, const Rows &rows, int32_t tiles, int heads, int kv_heads, int head_dim) {
    launch_attention_rows(stream, out, lse, qkv, rows, tiles, heads, kv_heads, head_dim);
}

} // namespace

template <class T>
void attention_forward(Stream stream, T *out, float *lse, const T *qkv, const Packing &packing, int heads, int kv_heads, int head_dim) {
    auto run = [&](const auto &rows) { launch(stream, out, lse, qkv, rows, packing.tile_count, heads, kv_heads, head_dim); };
    if (packing.trunks == nullptr) {
        run(PackedRows<T, false>{qkv, packing, heads, kv_heads, head_dim});
    } else {
        run(PackedRows<T, true>{qkv, packing, heads, kv_heads, head_dim});
    }
}

template <class T>
void attention_tiles(Stream stream, T *out, float *lse, const T *qkv, const T *keys, const T *values, const PagedTiles &tiles, int heads,
                     int kv_heads, int head_dim) {
    launch(stream, out, lse, qkv, PagedRows<T>{keys, values, tiles, kv_heads, head_dim}, tiles.tile_count, heads, kv_heads, head_dim);
}

#define INSTANTIATE(T) \
    template void attention_forward(Stream, T *, float *, const T *, const Packing &, int, int, int); \
    template void attention_tiles(Stream, T *, float *, const T *, const T *, const T *, const PagedTiles &, int, int, int);
INSTANTIATE(float)
INSTANTIATE(bf16)

} // namespace lathe
