// gemm_bf16.cuh: products of bfloat16 matrices on tensor cores.
//
// One kernel computes y (rows,columns) = Σ_k a(row,k)·b(column,k) for the three
// forms of kernels.h, which differ in how the operands lie in memory:
//
//   NT  a along k, b along k     x (M,K), w (N,K)
//   NN  a along k, b across      dy (M,N), w (N,K), sum over N
//   TN  a across,  b across      dy (M,N), x (M,K), sum over M
//
// A block computes a tile of y. Its warps share tiles of a and b that come to
// shared memory by asynchronous copies, STAGES blocks of 64 elements of k deep.
// Every element of y is one chain of mma_bf16_16x8x16 over k in ascending
// blocks of 16. The tile's size decides only which warp computes an element
// and which others are computed beside it: it may be chosen by the number of
// rows without a bit of the result changing. For the same reason blocks of k
// that lie wholly behind the end are left out, not added as zeros.
#pragma once

#include <type_traits>

#include "fragment.cuh"
#include "gemm.h"

namespace lathe {

struct Product {
    void *y; // bf16, or float for TN
    const bf16 *a, *b, *bias;
    int64_t ldy, lda, ldb;
    int32_t rows, columns, sum;
    float alpha;
    bool accumulate;
};

// How the operands lie in memory.
template <bool A_ALONG_K, bool B_ALONG_K>
struct Form {
    static constexpr bool a_along_k = A_ALONG_K, b_along_k = B_ALONG_K;
};
using FormNT = Form<true, true>;
using FormNN = Form<true, false>;
using FormTN = Form<false, false>;

// A tile of ROWS × COLUMNS computed by WARPS_DOWN × WARPS_ACROSS warps, with the
// help of LOADERS more in loading it.
template <int ROWS, int COLUMNS, int WARPS_DOWN, int WARPS_ACROSS, int STAGES, int LOADERS = 0>
struct Tile {
    static constexpr int rows = ROWS, columns = COLUMNS, stages = STAGES, loaders = LOADERS;
    static constexpr int warps_across = WARPS_ACROSS, computing_warps = WARPS_DOWN * WARPS_ACROSS;
    static constexpr int threads = 32 * (computing_warps + LOADERS);
    static constexpr int warp_rows = ROWS / WARPS_DOWN, warp_columns = COLUMNS / WARPS_ACROSS;
    static constexpr int depth = 64; // of a stage, in elements of k
    static constexpr int stage_elements = (ROWS + COLUMNS) * depth;
    static constexpr int shared_bytes = stages * stage_elements * 2;
    static_assert(warp_rows % 16 == 0 && warp_columns % 16 == 0, "fragments are 16 by 16");
    // Accumulators of 64 × 64 are 128 registers a thread. With eight such warps
    // a block fills the register file; with four, two blocks fit.
    static constexpr int blocks_per_multiprocessor = threads >= 256 ? 1 : 2;
};

// What this thread copies of an operand, stage after stage: of the part that a
// stage holds, FREE rows of the operand and 64 of k, chunks that lie one below the
// other. What a stage adds to addresses and bounds is one number each, because the
// tensor cores have nothing to do while they are computed.
template <bool ALONG_K, int FREE, int THREADS, bool ALIGNED>
class OperandCopy {
    static constexpr int chunks = ALONG_K ? 8 : FREE / 8, rows = ALONG_K ? FREE : 64; // of a stage
    static constexpr int apart = THREADS / chunks, copies = rows / apart;             // rows between this thread's chunks
    static_assert(THREADS % chunks == 0 && rows % apart == 0, "every thread copies the same number of chunks");

  public:
    // Of an operand with free_end rows of its own, from free0 on, and k_end of k.
    __device__ __forceinline__ OperandCopy(const bf16 *operand, int64_t ld, int32_t free_end, int32_t k_end, int32_t free0)
        : row_(threadIdx.x / chunks), chunk_(threadIdx.x % chunks), below_(apart * ld), next_(ALONG_K ? 64 : 64 * ld) {
        const int32_t row = (ALONG_K ? free0 : 0) + row_, column = (ALONG_K ? 0 : free0) + chunk_ * 8;
        from_ = operand + row * ld + column;
        rows_left_ = (ALONG_K ? free_end : k_end) - row;
        columns_left_ = (ALONG_K ? k_end : free_end) - column;
    }

    // Starts to copy the next stage. What does not exist becomes 0; it has no address
    // that counts, and is not read.
    __device__ __forceinline__ void copy(bf16 *tile) {
        const bf16 *from = from_;
        if (ALIGNED && (columns_left_ >= 8 || columns_left_ <= 0)) { // all of a chunk or nothing, which a predicate says
#pragma unroll
            for (int i = 0; i < copies; i++, from += below_) {
                cp_async_16(place(tile, i), from, columns_left_ > 0 && i * apart < rows_left_ ? 16 : 0);
            }
        } else {
#pragma unroll
            for (int i = 0; i < copies; i++, from += below_) {
                const int valid = columns_left_ < 0 ? 0 : columns_left_ > 8 ? 8 : columns_left_;
                copy_chunk<ALIGNED>(place(tile, i), from, i * apart < rows_left_ ? valid : 0);
            }
        }
        from_ += next_;
        (ALONG_K ? columns_left_ : rows_left_) -= 64;
    }

  private:
    __device__ __forceinline__ bf16 *place(bf16 *tile, int i) const {
        if (apart % 8 == 0) {
            return tile + chunk_at<chunks>(row_, chunk_) + rows_further<chunks>(i * apart);
        }
        return tile + chunk_at<chunks>(row_ + i * apart, chunk_);
    }
    int row_, chunk_;
    int64_t below_, next_; // elements from chunk to chunk, from stage to stage
    const bf16 *from_;
    int32_t rows_left_, columns_left_; // from the next stage's first chunk on
};

// Adds one block of 16 of k to the accumulators. SCALED multiplies the block's
// sum by alpha as it is added.
template <class F, class T, bool SCALED>
__device__ __forceinline__ void multiply_step(float acc[T::warp_rows / 16][T::warp_columns / 8][4], const bf16 *a_tile, const bf16 *b_tile,
                                              int row0, int column0, int k0, float alpha) {
    uint32_t a[T::warp_rows / 16][4];
#pragma unroll
    for (int i = 0; i < T::warp_rows / 16; i++) {
        if (F::a_along_k) {
            load_a_along_k<8>(a[i], a_tile, row0 + i * 16, k0);
        } else {
            load_a_across<T::rows / 8>(a[i], a_tile, row0 + i * 16, k0);
        }
    }
#pragma unroll
    for (int j = 0; j < T::warp_columns / 16; j++) {
        uint32_t b[4];
        if (F::b_along_k) {
            load_b_along_k<8>(b, b_tile, column0 + j * 16, k0);
        } else {
            load_b_across<T::columns / 8>(b, b_tile, column0 + j * 16, k0);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int i = 0; i < T::warp_rows / 16; i++) {
                float *d = acc[i][j * 2 + half];
                if (SCALED) {
                    float block[4] = {0, 0, 0, 0};
                    mma_bf16_16x8x16(block, a[i], b + half * 2);
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        d[e] = fmaf(alpha, block[e], d[e]);
                    }
                } else {
                    mma_bf16_16x8x16(d, a[i], b + half * 2);
                }
            }
        }
    }
}

// Tiles of y are taken in groups of 8 tile rows, column by column within a
// group, so that blocks that run at once share operands in the L2 cache.
__device__ __forceinline__ void place_of_tile(int32_t tile, int32_t tiles_down, int32_t tiles_across, int32_t &down, int32_t &across) {
    constexpr int32_t group_rows = 8;
    int32_t group = tile / (group_rows * tiles_across), within = tile % (group_rows * tiles_across);
    int32_t first = group * group_rows;
    int32_t size = tiles_down - first < group_rows ? tiles_down - first : group_rows;
    down = first + within % size;
    across = within / size;
}

// Calls f(acc[4], row, column) for each quad of accumulators: elements 0 and 1
// belong to (row, column) and (row, column+1), 2 and 3 to row+8.
template <class T, class Function>
__device__ __forceinline__ void for_each_quad(float acc[T::warp_rows / 16][T::warp_columns / 8][4], int32_t row0, int32_t column0,
                                              Function f) {
    int lane = lane_index();
#pragma unroll
    for (int i = 0; i < T::warp_rows / 16; i++) {
#pragma unroll
        for (int j = 0; j < T::warp_columns / 8; j++) {
            f(acc[i][j], row0 + i * 16 + (lane >> 2), column0 + j * 8 + (lane & 3) * 2);
        }
    }
}

// Neighbouring results of a row are read and written together where they may be,
// which takes half the requests for the same sectors. Element is that of y.
template <class Element>
__device__ __forceinline__ bool pairs_aligned(const Product &p) {
    return p.ldy % 2 == 0 && reinterpret_cast<uintptr_t>(p.y) % (2 * sizeof(Element)) == 0;
}

// A pair of float results and their way back to y, which is at a column of which
// `left` are left in the row, itself one of them. paired: y is aligned to 8 bytes.
__device__ __forceinline__ void load_pair(const float *y, int32_t left, float &first, float &second, bool paired) {
    if (paired && left > 1) {
        const float2 both = *reinterpret_cast<const float2 *>(y);
        first = both.x;
        second = both.y;
        return;
    }
    if (left > 0) {
        first = y[0];
    }
    if (left > 1) {
        second = y[1];
    }
}
__device__ __forceinline__ void store_pair(float *y, int32_t left, float first, float second, bool paired) {
    if (paired && left > 1) {
        *reinterpret_cast<float2 *>(y) = make_float2(first, second);
        return;
    }
    if (left > 0) {
        y[0] = first;
    }
    if (left > 1) {
        y[1] = second;
    }
}

// Writes a pair of results, alpha·sum + bias [+ y], to y, which is at a column
// of which `left` are left in the row, itself one of them. paired: y is aligned to 4 bytes.
__device__ __forceinline__ void store_pair(const Product &p, bf16 *y, int32_t column, int32_t left, float first, float second,
                                           bool paired) {
    if (left <= 0) {
        return;
    }
    const bool both = left > 1;
    float bias0 = 0, bias1 = 0;
    if (p.bias != nullptr) {
        bias0 = to_float(p.bias[column]);
        bias1 = both ? to_float(p.bias[column + 1]) : 0;
    }
    first = fmaf(p.alpha, first, bias0);
    second = fmaf(p.alpha, second, bias1);
    if (p.accumulate) {
        if (paired && both) {
            const uint32_t before = *reinterpret_cast<const uint32_t *>(y);
            first += bits_float(before << 16);
            second += bits_float(before & 0xffff0000u);
        } else {
            first += to_float(y[0]);
            second += both ? to_float(y[1]) : 0;
        }
    }
    if (paired && both) {
        *reinterpret_cast<uint32_t *>(y) = pack_bf16(first, second);
        return;
    }
    y[0] = from_float<bf16>(first);
    if (both) {
        y[1] = from_float<bf16>(second);
    }
}

// F the operands' form, T the tile. GRADIENT: y is float, the accumulators
// start from it. SCALED: alpha is not 1 in a gradient. ALIGNED: both operands
// start at multiples of 16 bytes and so do all their rows.
template <class F, class T, bool GRADIENT, bool SCALED, bool ALIGNED>
__global__ void __launch_bounds__(T::threads, T::blocks_per_multiprocessor) product_kernel(Product p) {
    DYNAMIC_SHARED(bf16, shared);
    int32_t down, across;
    place_of_tile(blockIdx.x, ceil_div(p.rows, T::rows), ceil_div(p.columns, T::columns), down, across);
    const int32_t tile_row = down * T::rows, tile_column = across * T::columns;
    const int warp = warp_index();
    const int row0 = warp / T::warps_across * T::warp_rows, column0 = warp % T::warps_across * T::warp_columns;
    const int32_t stages_of_k = ceil_div(p.sum, T::depth);

    OperandCopy<F::a_along_k, T::rows, T::threads, ALIGNED> a_copy(p.a, p.lda, p.rows, p.sum, tile_row);
    OperandCopy<F::b_along_k, T::columns, T::threads, ALIGNED> b_copy(p.b, p.ldb, p.columns, p.sum, tile_column);
    int32_t loaded = 0;
    int load_slot = 0, slot = 0; // where the stages to load and to multiply next lie
    auto next = [](int &of) { of = of + 1 == T::stages ? 0 : of + 1; };
    auto load_stage = [&]() {
        if (loaded < stages_of_k) {
            bf16 *a_tile = shared + load_slot * T::stage_elements;
            a_copy.copy(a_tile);
            b_copy.copy(a_tile + T::rows * T::depth);
        }
        loaded++;
        next(load_slot);
        cp_async_commit(); // an empty group where there is nothing left: the waits below count groups
    };

    float acc[T::warp_rows / 16][T::warp_columns / 8][4] = {};
#pragma unroll 1
    for (int s = 0; s < T::stages - 1; s++) {
        load_stage();
    }
    const bool paired = GRADIENT ? pairs_aligned<float>(p) : pairs_aligned<bf16>(p);
    const bool computes = T::loaders == 0 || warp < T::computing_warps;
    if (GRADIENT && computes) {
        for_each_quad<T>(acc, tile_row + row0, tile_column + column0, [&](float *d, int32_t row, int32_t column) {
            const float *y = static_cast<const float *>(p.y) + row * p.ldy + column;
            load_pair(y, row < p.rows ? p.columns - column : 0, d[0], d[1], paired);
            load_pair(y + 8 * p.ldy, row + 8 < p.rows ? p.columns - column : 0, d[2], d[3], paired);
        });
    }
#pragma unroll 1
    for (int32_t stage = 0; stage < stages_of_k; stage++) {
        cp_async_wait<T::stages - 2>();
        __syncthreads(); // the stage has arrived, and everyone has left the one that is overwritten now
        load_stage();
        const bf16 *a_tile = shared + slot * T::stage_elements, *b_tile = a_tile + T::rows * T::depth;
        next(slot);
        if (!computes) {
            continue;
        }
        int32_t left = p.sum - stage * T::depth;
        if (left >= T::depth) {
#pragma unroll
            for (int k0 = 0; k0 < T::depth; k0 += 16) {
                multiply_step<F, T, SCALED>(acc, a_tile, b_tile, row0, column0, k0, p.alpha);
            }
        } else {
#pragma unroll 1
            for (int k0 = 0; k0 < left; k0 += 16) {
                multiply_step<F, T, SCALED>(acc, a_tile, b_tile, row0, column0, k0, p.alpha);
            }
        }
    }
    if (!computes) {
        return;
    }
    for_each_quad<T>(acc, tile_row + row0, tile_column + column0, [&](float *d, int32_t row, int32_t column) {
        if (!GRADIENT) {
            bf16 *y = static_cast<bf16 *>(p.y) + row * p.ldy + column;
            store_pair(p, y, column, row < p.rows ? p.columns - column : 0, d[0], d[1], paired);
            store_pair(p, y + 8 * p.ldy, column, row + 8 < p.rows ? p.columns - column : 0, d[2], d[3], paired);
            return;
        }
        float *y = static_cast<float *>(p.y) + row * p.ldy + column;
        store_pair(y, row < p.rows ? p.columns - column : 0, d[0], d[1], paired);
        store_pair(y + 8 * p.ldy, row + 8 < p.rows ? p.columns - column : 0, d[2], d[3], paired);
    });
}

// The tiles, from the smallest; gemm.h's ProductTile numbers them. The narrow ones
// are few, and the memory is kept busy by what each of them has under way: hence
// all the stages that fit. A warp by itself would spend its time on copies.
using Tile16x16 = Tile<16, 16, 1, 1, 24, 3>;
using Tile16x64 = Tile<16, 64, 1, 4, 6>;
using Tile64x16 = Tile<64, 16, 4, 1, 9>;
using Tile64x32 = Tile<64, 32, 4, 1, 5>;
using Tile64x64 = Tile<64, 64, 2, 2, 4>;
using Tile128x128 = Tile<128, 128, 2, 2, 3>;
using Tile128x256 = Tile<128, 256, 2, 4, 3>;
// The same tile by twice the warps, for operands across, whose fragments want
// more registers than are left beside accumulators of 64 × 64.
using Tile128x128Gradient = Tile<128, 128, 2, 4, 3>;
static_assert(Tile128x256::shared_bytes <= widest_tile_shared, "the tile is chosen where there is room for it");
static_assert(Tile16x16::shared_bytes <= least_block_shared && Tile16x64::shared_bytes <= least_block_shared &&
                  Tile64x16::shared_bytes <= least_block_shared && Tile64x32::shared_bytes <= least_block_shared &&
                  Tile64x64::shared_bytes <= least_block_shared && Tile128x128::shared_bytes <= least_block_shared &&
                  Tile128x128Gradient::shared_bytes <= least_block_shared,
              "all others run on every device");

template <class F, class T, bool GRADIENT, bool SCALED, bool ALIGNED>
void launch_tile(Stream stream, const Product &p) {
    auto *kernel = product_kernel<F, T, GRADIENT, SCALED, ALIGNED>;
    int64_t tiles = int64_t{1} * ceil_div(p.rows, T::rows) * ceil_div(p.columns, T::columns);
    LAUNCH(kernel, dim3(static_cast<unsigned>(tiles)), dim3(T::threads), T::shared_bytes, stream, p);
}

inline bool rows_aligned(const bf16 *p, int64_t ld) { return reinterpret_cast<uintptr_t>(p) % 16 == 0 && ld % 8 == 0; }

// Chooses the tile and launches.
template <class F, bool GRADIENT, bool SCALED>
void launch_product(Stream stream, const Product &p) {
    if (!rows_aligned(p.a, p.lda) || !rows_aligned(p.b, p.ldb)) {
        launch_tile<F, Tile64x64, GRADIENT, SCALED, false>(stream, p);
        return;
    }
    const ProductTile tile = choose_tile(p.rows, p.columns);
    // The largest tiles of a gradient would not fit the registers: with operands
    // across, and more so with a second set of accumulators.
    if constexpr (!SCALED) {
        if constexpr (!GRADIENT) {
            if (tile == ProductTile::rows128_columns256) {
                return launch_tile<F, Tile128x256, GRADIENT, SCALED, true>(stream, p);
            }
        }
        if (tile >= ProductTile::rows128_columns128) {
            return launch_tile<F, std::conditional_t<GRADIENT, Tile128x128Gradient, Tile128x128>, GRADIENT, SCALED, true>(stream, p);
        }
    }
    switch (tile) {
    case ProductTile::rows16_columns16: return launch_tile<F, Tile16x16, GRADIENT, SCALED, true>(stream, p);
    case ProductTile::rows16_columns64: return launch_tile<F, Tile16x64, GRADIENT, SCALED, true>(stream, p);
    case ProductTile::rows64_columns16: return launch_tile<F, Tile64x16, GRADIENT, SCALED, true>(stream, p);
    case ProductTile::rows64_columns32: return launch_tile<F, Tile64x32, GRADIENT, SCALED, true>(stream, p);
    default: return launch_tile<F, Tile64x64, GRADIENT, SCALED, true>(stream, p);
    }
}

} // namespace lathe
