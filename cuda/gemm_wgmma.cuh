// gemm_wgmma.cuh: products of bfloat16 matrices by the warpgroups of compute
// capability 9.0, for the same three forms as gemm_bf16.cuh.
//
// A block has one or two warpgroups that compute and, as its last, one warp that
// fetches: a single thread of it has boxes of a and b copied to shared memory,
// STAGES blocks of 64 elements of k ahead of those that compute. Two barriers for
// each stage say that it is full, and that it may be overwritten. Blocks are as
// many as the device holds at once, and go from tile to tile, so that the
// next tile's operands arrive while the last one's results are written.
//
// Every element of y is one chain of products over 16 of k, in ascending order,
// as on the path of mma_bf16_16x8x16; k is never split, and blocks of 16 that lie
// wholly behind the end are left out. So a row's bits depend neither on the
// tile nor on the rows around it, on the condition that the hardware adds up the
// 16 products of a step in the same way for every N of m64nNk16 and every place
// in the tile: test/invariance.cu looks.
//
// What lies outside the matrices the copy unit replaces by 0; the results there
// are not written.
#pragma once

#include "gemm_bf16.cuh"
#include "hopper.cuh"

namespace lathe {

// A tile of 64·WARPGROUPS × COLUMNS.
template <int WARPGROUPS, int COLUMNS, int STAGES, int BLOCKS>
struct WarpgroupTile {
    static constexpr int rows = 64 * WARPGROUPS, columns = COLUMNS, stages = STAGES;
    static constexpr int blocks_per_multiprocessor = BLOCKS;
    static constexpr int consumer_warps = 4 * WARPGROUPS, threads = 32 * consumer_warps + 32;
    static constexpr int depth = swizzled_columns; // of a stage, in elements of k
    static constexpr int a_bytes = rows * depth * 2, b_bytes = COLUMNS * depth * 2, stage_bytes = a_bytes + b_bytes;
    // With what aligning the first stage may take.
    static constexpr int shared_bytes = swizzled_period + STAGES * (stage_bytes + 2 * int(sizeof(Barrier)));
    static_assert(a_bytes % swizzled_period == 0 && b_bytes % swizzled_period == 0, "each operand of a stage begins a swizzling");
    // Of a multiprocessor's 228 KiB each block takes one more for CUDA itself.
    static_assert(BLOCKS * (shared_bytes + 1024) <= 228 * 1024, "the stages fit into a multiprocessor's shared memory");
};

// Where a stage of an operand lies, and how it is fetched and stepped through.
// ALONG_K: one box of 64 of k and all FREE rows. Else a box of 64 × 64 for each 64
// of FREE.
template <bool ALONG_K, int FREE>
struct StagedOperand {
    static constexpr int box_bytes = 64 * 64 * 2;
    static constexpr int box_rows = ALONG_K ? FREE : 64; // of swizzled_columns columns
    // Between the 64s of FREE in shared memory: the same for both layouts.
    static constexpr uint32_t further_bytes = box_bytes;
    static constexpr uint32_t step_bytes = ALONG_K ? 16 * 2 : 16 * 128; // of 16 of k
    static_assert(ALONG_K || FREE % 64 == 0, "boxes are 64 wide");

    static __device__ __forceinline__ void fetch(char *to, const TensorMap *map, Barrier *full, int32_t free0, int32_t k0) {
        if constexpr (ALONG_K) {
            copy_box(to, map, full, k0, free0);
        } else {
#pragma unroll
            for (int i = 0; i < FREE / 64; i++) {
                copy_box(to + i * box_bytes, map, full, free0 + i * 64, k0);
            }
        }
    }
    // Of the operand that begins at `from`, a multiple of further_bytes after the stage's first byte.
    static __device__ __forceinline__ uint64_t descriptor(const char *from) {
        return matrix_descriptor(from, ALONG_K ? 16 : further_bytes);
    }
};

// The stage that a thread uses next, and the parity of its barriers' phases.
template <int STAGES>
struct Turn {
    int stage = 0;
    uint32_t parity = 0;
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// Calls f(y, first, second, left) for each pair of a thread's accumulators: y is
// the first one's place in a row of which `left` columns are left from there.
template <int COLUMNS, class Element, class Function>
__device__ __forceinline__ void for_each_pair(const Product &p, float (&acc)[COLUMNS / 2], int32_t row, int32_t column, Function f) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        Element *y = static_cast<Element *>(p.y) + (row + half * 8) * p.ldy + column;
        const int32_t left = row + half * 8 < p.rows ? p.columns - column : 0;
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++) {
            f(y + j * 8, acc[4 * j + 2 * half], acc[4 * j + 2 * half + 1], left - j * 8);
        }
    }
}

// F the operands' form, T the tile. GRADIENT: y is float, the accumulators start from it.
template <class F, class T, bool GRADIENT>
__global__ void __launch_bounds__(T::threads, T::blocks_per_multiprocessor)
    warpgroup_product_kernel(GRID_CONSTANT const TensorMap a_map, GRID_CONSTANT const TensorMap b_map, Product p) {
#if defined(LATHE_HOST) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    using A = StagedOperand<F::a_along_k, T::rows>;
    using B = StagedOperand<F::b_along_k, T::columns>;
    DYNAMIC_SHARED(char, unaligned);
    char *shared = unaligned + (swizzled_period - shared_address(unaligned) % swizzled_period) % swizzled_period;
    Barrier *full = reinterpret_cast<Barrier *>(shared + T::stages * T::stage_bytes), *empty = full + T::stages;
    if (threadIdx.x == 0) {
        for (int s = 0; s < T::stages; s++) {
            barrier_init(full + s, 1);
            barrier_init(empty + s, T::consumer_warps);
        }
        barriers_ready();
    }
    __syncthreads();

    const int32_t tiles_down = ceil_div(p.rows, T::rows), tiles_across = ceil_div(p.columns, T::columns);
    const int32_t tiles = tiles_down * tiles_across, stages_of_k = ceil_div(p.sum, T::depth);
    const int warp = __shfl_sync(all_lanes, warp_index(), 0); // the same in all lanes, and known to be
    Turn<T::stages> turn;
    if (warp == T::consumer_warps) {
        if (lane_index() != 0) {
            return;
        }
        for (int32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int32_t down, across;
            place_of_tile(tile, tiles_down, tiles_across, down, across);
            for (int32_t k = 0; k < stages_of_k; k++, turn.next()) {
                char *a_stage = shared + turn.stage * T::stage_bytes;
                barrier_wait(empty + turn.stage, turn.parity ^ 1);
                barrier_arrive_expecting(full + turn.stage, T::stage_bytes);
                A::fetch(a_stage, &a_map, full + turn.stage, down * T::rows, k * T::depth);
                B::fetch(a_stage + T::a_bytes, &b_map, full + turn.stage, across * T::columns, k * T::depth);
            }
        }
        return;
    }

    const int warpgroup = warp / 4;
    const int32_t whole_stages = p.sum / T::depth, last_steps = ceil_div(p.sum % T::depth, 16);
    auto leave = [&](int stage) {
        if (lane_index() == 0) {
            barrier_arrive(empty + stage);
        }
    };
    for (int32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int32_t down, across;
        place_of_tile(tile, tiles_down, tiles_across, down, across);
        const int32_t row = down * T::rows + warpgroup * 64 + warp % 4 * 16 + (lane_index() >> 2);
        const int32_t column = across * T::columns + (lane_index() & 3) * 2;
        float acc[T::columns / 2];
#pragma unroll
        for (int i = 0; i < T::columns / 2; i++) {
            acc[i] = 0;
        }
        const bool paired = GRADIENT ? pairs_aligned<float>(p) : pairs_aligned<bf16>(p);
        if (GRADIENT) {
            for_each_pair<T::columns, float>(p, acc, row, column, [&](const float *y, float &first, float &second, int32_t left) {
                // One by one: ptxas serializes the products below if a load of two defines their accumulators.
                if (left > 0) {
                    first = y[0];
                }
                if (left > 1) {
                    second = y[1];
                }
            });
        }
        settle(acc);
        int last = 0; // the stage before this one
        for (int32_t k = 0; k < whole_stages; k++, turn.next()) {
            const char *a_stage = shared + turn.stage * T::stage_bytes;
            const uint64_t a = A::descriptor(a_stage + warpgroup * A::further_bytes), b = B::descriptor(a_stage + T::a_bytes);
            barrier_wait(full + turn.stage, turn.parity);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < T::depth / 16; step++) {
                wgmma<!F::a_along_k, !F::b_along_k>(acc, matrix_further(a, step * A::step_bytes), matrix_further(b, step * B::step_bytes));
            }
            wgmma_commit();
            wgmma_wait<1>();
            if (k > 0) {
                leave(last);
            }
            last = turn.stage;
        }
        wgmma_wait<0>();
        if (whole_stages > 0) {
            leave(last);
        }
        if (last_steps > 0) {
            const char *a_stage = shared + turn.stage * T::stage_bytes;
            const uint64_t a = A::descriptor(a_stage + warpgroup * A::further_bytes), b = B::descriptor(a_stage + T::a_bytes);
            barrier_wait(full + turn.stage, turn.parity);
#pragma unroll 1
            for (int step = 0; step < last_steps; step++) {
                wgmma_fence();
                wgmma<!F::a_along_k, !F::b_along_k>(acc, matrix_further(a, step * A::step_bytes), matrix_further(b, step * B::step_bytes));
                wgmma_commit();
                wgmma_wait<0>();
            }
            leave(turn.stage);
            turn.next();
        }
        settle(acc);
        if (GRADIENT) {
            for_each_pair<T::columns, float>(
                p, acc, row, column, [&](float *y, float first, float second, int32_t left) { store_pair(y, left, first, second, paired); });
        } else {
            for_each_pair<T::columns, bf16>(p, acc, row, column, [&](bf16 *y, float first, float second, int32_t left) {
                store_pair(p, y, p.columns - left, left, first, second, paired);
            });
        }
    }
#endif
}

} // namespace lathe
