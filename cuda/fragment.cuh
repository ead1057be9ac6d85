// fragment.cuh: tiles of bfloat16 in shared memory and the operands that
// mma_bf16_16x8x16 takes from them.
//
// A tile is stored row by row in chunks of 16 bytes (8 elements), and the
// chunks of a row are permuted by its index, so that the eight rows that one
// phase of ldmatrix reads at the same column lie in eight different groups of
// four banks: the reads have no bank conflict, and neither have the writes of
// consecutive chunks.
#pragma once

#include "mma.cuh"

namespace lathe {

// Offset, in elements, of a chunk of a row in a tile with CHUNKS chunks a row.
template <int CHUNKS>
__device__ __forceinline__ int chunk_at(int row, int chunk) {
    static_assert((CHUNKS & (CHUNKS - 1)) == 0, "rows are a power of two long");
    constexpr int rows_of_128_bytes = CHUNKS >= 8 ? 1 : 8 / CHUNKS;
    constexpr int mask = CHUNKS >= 8 ? 7 : CHUNKS - 1;
    return (row * CHUNKS + (chunk ^ ((row / rows_of_128_bytes) & mask))) * 8;
}

// Copies 8 elements to shared memory, of which the first `valid` (0 … 8) are
// read and the others become 0. Aligned pointers go by an asynchronous copy;
// others by plain loads, which are finished when the thread goes on.
template <bool ALIGNED>
__device__ __forceinline__ void copy_chunk(bf16 *to, const bf16 *from, int valid) {
    if constexpr (ALIGNED) {
        cp_async_16(to, from, valid * 2);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            to[i] = i < valid ? from[i] : bf16{0};
        }
    }
}

// Rows and columns of operands are counted from the tile's corner, and row0,
// k0 and column0 are multiples of 8 (of 16 where two blocks of 8 are read).
// "Along k" says that a row of the tile runs along the sum; "across" that it
// runs along the operand's own index, with the sum from row to row.
//
// Chunks are permuted alike in every eighth row. So rows in multiples of 8 are a
// distance apart that does not depend on the lane, and stands in the instruction
// where it is known: the tensor cores wait for what else computes addresses.

// The distance of so many rows, a multiple of 8, in elements.
template <int CHUNKS>
__device__ __forceinline__ int rows_further(int rows) {
    return rows * CHUNKS * 8;
}

// A (16 rows, 16 of k).
template <int CHUNKS>
__device__ __forceinline__ void load_a_along_k(uint32_t a[4], const bf16 *tile, int row0, int k0) {
    int lane = lane_index();
    ldmatrix_x4(a, tile + chunk_at<CHUNKS>(lane & 15, (k0 >> 3) + (lane >> 4)) + rows_further<CHUNKS>(row0));
}
template <int CHUNKS>
__device__ __forceinline__ void load_a_across(uint32_t a[4], const bf16 *tile, int row0, int k0) {
    int lane = lane_index();
    int k = (lane & 7) + ((lane >> 4) << 3);
    ldmatrix_x4_trans(a, tile + chunk_at<CHUNKS>(k, (row0 >> 3) + ((lane >> 3) & 1)) + rows_further<CHUNKS>(k0));
}

// B (16 of k, 16 columns): b[0..1] belong to the first 8 columns, b[2..3] to the others.
template <int CHUNKS>
__device__ __forceinline__ void load_b_along_k(uint32_t b[4], const bf16 *tile, int column0, int k0) {
    int lane = lane_index();
    int column = (lane & 7) + ((lane >> 4) << 3);
    ldmatrix_x4(b, tile + chunk_at<CHUNKS>(column, (k0 >> 3) + ((lane >> 3) & 1)) + rows_further<CHUNKS>(column0));
}
template <int CHUNKS>
__device__ __forceinline__ void load_b_across(uint32_t b[4], const bf16 *tile, int column0, int k0) {
    int lane = lane_index();
    ldmatrix_x4_trans(b, tile + chunk_at<CHUNKS>(lane & 15, (column0 >> 3) + (lane >> 4)) + rows_further<CHUNKS>(k0));
}

} // namespace lathe
