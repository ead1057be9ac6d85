// attention.cuh: the arithmetic of attention on tensor cores, shared by
// attention_forward and attention_paged, which promise each other's bits.
//
// Sixteen query rows meet a block of 64 keys, which is taken in four groups of
// 16. A row's numbers depend on its own query, its position and the keys
// alone, and are
//
//   s_j  = q·k_j, a chain of mma over blocks of 16 of the head's width;
//   m'   = max(m, c·max_j s_j), with c = log2(e)/√head_dim, over the keys it sees;
//   p_j  = 2^(c·s_j − m'), 0 where the row does not see key j;
//   l    = l·2^(m−m') + Σ p_j, by lane: a group's four as (p0+p1)+(p2+p3), the
//          groups as (g0+g1)+(g2+g3); the four lanes of a row are added last;
//   o    = o·2^(m−m') + Σ p_j v_j, p rounded to bfloat16, a chain of mma over
//          the groups in ascending order.
//
// and so for each split of attention_split_keys keys by itself, from m = -inf,
// l = 0 and o = 0. A row that sees more than one split folds them, from the first
// to the last and again from (-inf, 0, 0), into
//
//   M' = max(M, m), K = 2^(M−M'), A = 2^(m−M'), L = L·K + l·A, O = O·K + o·A.
//
// Who computes a group, some columns of o or a split is free: a warp of
// attention_forward does all for its 16 rows, one split after the other; the four
// warps of a block of attention_paged share one split, and blocks share a row.
#pragma once

#include "exponential.cuh"
#include "fragment.cuh"
#include "kernels.h"

namespace lathe {

constexpr int key_block = ENG_PAGE_TOKENS;
static_assert(key_block == 64, "four groups of 16 keys");
constexpr int split_blocks = attention_split_keys / key_block;
static_assert(split_blocks * key_block == attention_split_keys, "splits are whole pages");

// A tile of up to 64 query rows of a sequence: the first one's row and position,
// how many there are, and how many are written, with zeros after them.
struct Tile {
    int32_t row, position, rows, written;
};

// Rows of a matrix that lie one after the other but for a step: row i of them
// is row before+i up to border, and after+i from it on.
template <class T>
struct RowSource {
    const T *matrix;
    int32_t before, after, border;
};

// Where the tokens of a packed sequence are, by position: the first `trunk` in
// the sequence that it goes on from, the others in its own rows. The kernels on
// tensor cores are compiled without TRUNKS too, where all these are their own:
// registers are short there.
template <bool TRUNKS>
struct Places {
    int32_t trunk, trunk_start, start;

    __device__ __forceinline__ int64_t row(int32_t position) const {
        return (TRUNKS && position < trunk ? trunk_start : start - trunk) + position;
    }
    // The rows of a matrix, ld apart, from a position on.
    template <class T>
    __device__ __forceinline__ auto from(const T *matrix, int64_t ld, int32_t position) const {
        if constexpr (TRUNKS) {
            return RowSource<T>{matrix, trunk_start + position, start - trunk + position, trunk - position};
        } else {
            return matrix + (int64_t{start} + position) * ld;
        }
    }
};

// A tile of a packed sequence.
template <bool TRUNKS>
struct PackedTile {
    Tile tile;
    Places<TRUNKS> places;
    int32_t sequence, length; // which it is, and its own tokens
    int32_t first;            // the tile's first row within it
};

template <bool TRUNKS>
__device__ __forceinline__ PackedTile<TRUNKS> packed_tile(const Packing &packing, int32_t index) {
    const int32_t sequence = packing.tiles[2 * index], first = packing.tiles[2 * index + 1];
    const int32_t start = packing.starts[sequence], length = packing.lengths[sequence];
    const int32_t from = TRUNKS && packing.trunks != nullptr ? packing.trunks[sequence] : -1;
    const int32_t trunk = from < 0 ? 0 : packing.lengths[from], position = trunk + first;
    const int32_t rows = max(0, min(length - first, key_block - position % key_block));
    const int32_t padded = ceil_div(length, ENG_ROW_ALIGN) * ENG_ROW_ALIGN;
    const int32_t written = first + rows < length ? rows : min(padded - first, key_block);
    return {{start + first, rows > 0 ? position : 0, rows, written},
            {trunk, from < 0 ? start : packing.starts[from], start}, sequence, length, first};
}

// Where tiles and their keys are: in packed sequences (attention_forward) …
template <class T, bool TRUNKS>
struct PackedRows {
    const T *qkv;
    Packing packing;
    int heads, kv_heads, width;

    // A tile's sequence for heads that share kv_head.
    struct Sequence {
        Tile tile;
        const T *keys, *values; // of the row 0 of the pass
        int32_t ld;
        int32_t end; // keys from here on do not exist
        Places<TRUNKS> places;
        // The rows of a block of keys, in keys or values.
        __device__ __forceinline__ auto block(const T *matrix, int32_t block) const { return places.from(matrix, ld, block * key_block); }
        __device__ __forceinline__ int64_t row(int32_t position) const { return places.row(position); }
    };
    __device__ __forceinline__ int32_t tile_count() const { return packing.tile_count; }
    __device__ __forceinline__ Sequence sequence(int32_t tile, int kv_head) const {
        const PackedTile<TRUNKS> t = packed_tile<TRUNKS>(packing, tile);
        const T *keys = qkv + (heads + kv_head) * width;
        return {t.tile, keys, keys + kv_heads * width, (heads + 2 * kv_heads) * width, t.places.trunk + t.length, t.places};
    }
};

// … or in pages (attention_tiles).
template <class T>
struct PagedRows {
    const T *cached_keys, *cached_values;
    PagedTiles tiles;
    int kv_heads, width;

    struct Sequence {
        Tile tile;
        const T *keys, *values;
        int32_t ld;
        int32_t end;
        const int32_t *pages;
        __device__ __forceinline__ const T *block(const T *matrix, int32_t block) const {
            return matrix + static_cast<int64_t>(pages[block]) * key_block * ld;
        }
        __device__ __forceinline__ int64_t row(int32_t position) const {
            return static_cast<int64_t>(pages[position / key_block]) * key_block + position % key_block;
        }
    };
    __device__ __forceinline__ int32_t tile_count() const { return tiles.tile_count; }
    __device__ __forceinline__ Sequence sequence(int32_t tile, int kv_head) const {
        const int32_t *t = tiles.tiles + 5 * tile;
        return {{t[0], t[1], t[2], t[3]},
                cached_keys + kv_head * width, cached_values + kv_head * width, kv_heads * width, t[1] + t[2],
                tiles.page_tables + t[4] * tiles.table_width};
    }
};

// Starts to copy ROWS rows of WIDTH elements, ld apart, of which `rows` exist
// (the others become 0), to a tile; all threads of the block take part.
template <int WIDTH, int ROWS, int THREADS>
__device__ __forceinline__ void copy_rows(bf16 *tile, const bf16 *from, int64_t ld, int32_t rows) {
    constexpr int chunks = WIDTH / 8, apart = THREADS / chunks; // rows between this thread's chunks
    static_assert(apart % 8 == 0 && ROWS % apart == 0, "every thread copies the same number of chunks");
    const int row = threadIdx.x / chunks, chunk = threadIdx.x % chunks;
    bf16 *to = tile + chunk_at<chunks>(row, chunk);
    from += row * ld + chunk * 8;
#pragma unroll
    for (int i = 0; i < ROWS / apart; i++, from += apart * ld) {
        copy_chunk<true>(to + rows_further<chunks>(i * apart), from, row + i * apart < rows ? 8 : 0);
    }
}
template <int WIDTH, int ROWS, int THREADS>
__device__ __forceinline__ void copy_rows(bf16 *tile, const RowSource<bf16> &from, int32_t ld, int32_t rows) {
    constexpr int chunks = WIDTH / 8, apart = THREADS / chunks;
    const int row = threadIdx.x / chunks, chunk = threadIdx.x % chunks;
    bf16 *to = tile + chunk_at<chunks>(row, chunk);
#pragma unroll
    for (int i = 0; i < ROWS / apart; i++) {
        const int r = row + i * apart;
        const int64_t at = r + (r < from.border ? from.before : from.after);
        copy_chunk<true>(to + rows_further<chunks>(i * apart), from.matrix + at * ld + chunk * 8, r < rows ? 8 : 0);
    }
}

// Scores of 16 rows, whose operands are q, with the 16 keys from key0 of a tile.
template <int WIDTH>
__device__ __forceinline__ void score_group(float s[2][4], const uint32_t q[WIDTH / 16][4], const bf16 *keys, int key0) {
#pragma unroll
    for (int e = 0; e < 4; e++) {
        s[0][e] = s[1][e] = 0;
    }
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++) {
        uint32_t b[4];
        load_b_along_k<WIDTH / 8>(b, keys, key0, k * 16);
        mma_bf16_16x8x16(s[0], q[k], b);
        mma_bf16_16x8x16(s[1], q[k], b + 2);
    }
}

// Puts -inf where a row does not see a key: rows lane/4 and lane/4+8 see keys up
// to position[0] and position[1]; key0 is the group's first key.
__device__ __forceinline__ void mask_group(float s[2][4], int32_t key0, const int32_t position[2]) {
    int32_t key = key0 + (lane_index() & 3) * 2;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        s[0][e] = key + (e & 1) <= position[e / 2] ? s[0][e] : -INFINITY;
        s[1][e] = key + 8 + (e & 1) <= position[e / 2] ? s[1][e] : -INFINITY;
    }
}

// The largest score of a group, for row lane/4 + 8·half, over this lane's keys.
__device__ __forceinline__ float largest_of_group(const float s[2][4], int half) {
    return fmaxf(fmaxf(s[0][half * 2], s[0][half * 2 + 1]), fmaxf(s[1][half * 2], s[1][half * 2 + 1]));
}

// The largest over the four lanes of a row.
__device__ __forceinline__ float largest_of_row(float x) {
    x = fmaxf(x, __shfl_xor_sync(all_lanes, x, 1));
    return fmaxf(x, __shfl_xor_sync(all_lanes, x, 2));
}

// The sum over the four lanes of a row.
__device__ __forceinline__ float sum_of_row(float x) {
    x += __shfl_xor_sync(all_lanes, x, 1);
    return x + __shfl_xor_sync(all_lanes, x, 2);
}

// Running maxima of a lane's two rows, in powers of 2.
struct RowMaxima {
    float maximum[2] = {-INFINITY, -INFINITY};

    // Takes the largest scores of a block and returns what earlier sums are
    // multiplied by.
    __device__ __forceinline__ void raise(const float largest[2], float scale, float factor[2]) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float raised = fmaxf(maximum[half], largest[half] * scale);
            factor[half] = maximum[half] == raised ? 1 : fast_exp2(maximum[half] - raised);
            maximum[half] = raised;
        }
    }
};

// Turns the scores of a group into p, adds them up by row, and packs them as
// the operand a of p · v.
__device__ __forceinline__ void weigh_group(float s[2][4], const float maximum[2], float scale, float sum[2], uint32_t a[4]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        // A row that has seen no key yet has only scores of -inf.
        float shift = maximum[half] == -INFINITY ? 0 : maximum[half];
        float p[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            p[e] = fast_exp2(fmaf(s[e / 2][half * 2 + e % 2], scale, -shift));
        }
        sum[half] = (p[0] + p[1]) + (p[2] + p[3]);
        a[half] = pack_bf16(p[0], p[1]);
        a[half + 2] = pack_bf16(p[2], p[3]);
    }
}

// o = o·factor + p·v for 16 columns of v from column0: o[0] and o[1] are the
// accumulators of 8 columns each, p the operands of the four groups.
template <int WIDTH>
__device__ __forceinline__ void add_values(float o[2][4], const uint32_t p[4][4], const float factor[2], const bf16 *values, int column0) {
#pragma unroll
    for (int e = 0; e < 4; e++) {
        o[0][e] *= factor[e / 2];
        o[1][e] *= factor[e / 2];
    }
#pragma unroll
    for (int group = 0; group < 4; group++) {
        uint32_t b[4];
        load_b_across<WIDTH / 8>(b, values, column0, group * 16);
        mma_bf16_16x8x16(o[0], p[group], b);
        mma_bf16_16x8x16(o[1], p[group], b + 2);
    }
}

// The bases in which running maxima are kept.
struct PowersOf2 {
    static __device__ __forceinline__ float power(float x) { return fast_exp2(x); }
};
struct PowersOfE {
    static __device__ __forceinline__ float power(float x) { return expf(x); }
};

// The maximum and sum of a row over the splits so far.
template <class Base>
struct FoldedSum {
    float maximum = -INFINITY, sum = 0;

    // Takes the maximum and sum of the next split, and returns what the outputs
    // so far and those of the split are multiplied by.
    __device__ __forceinline__ void fold(float of_split, float sum_of_split, float &keep, float &add) {
        const float raised = fmaxf(maximum, of_split);
        keep = maximum == raised ? 1 : Base::power(maximum - raised);
        add = of_split == raised ? 1 : Base::power(of_split - raised);
        sum = fmaf(sum, keep, sum_of_split * add);
        maximum = raised;
    }
};

// What a row's output is multiplied by in the end.
__device__ __forceinline__ float normalizer(float sum) { return sum == 0 ? 0 : 1 / sum; }

} // namespace lathe
