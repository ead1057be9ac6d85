// gemm_float.cuh: products of float matrices, in float32 throughout.
//
// Every element of y is one chain of fused multiply-adds over k in ascending
// order, whatever tile it is computed in. This is the arithmetic of parity
// runs, not of training: it uses no tensor cores.
#pragma once

#include "common.cuh"

namespace lathe {

struct FloatProduct {
    float *y;
    const float *a, *b, *bias;
    int64_t ldy, lda, ldb;
    int32_t rows, columns, sum;
    float alpha;
    bool accumulate;
};

// A block of 256 threads computes 16·MICRO rows and 64 columns of y, each
// thread MICRO rows and 4 columns of them: rows r, r+16, … and columns c, c+16, ….
// Blocks are counted in one dimension, row of tiles by row of tiles: the others
// end at 65535. Three fit a multiprocessor, if they are told to: else nvcc 11.8
// spills registers to have a fourth.
// A_ALONG_K and B_ALONG_K say how the operands lie, as in gemm_bf16.cuh.
// GRADIENT: the chains start from y and alpha multiplies a's elements; else
// y = alpha·sum + bias [+ y].
template <bool A_ALONG_K, bool B_ALONG_K, bool GRADIENT, int MICRO>
__global__ void __launch_bounds__(256, 3) float_product_kernel(FloatProduct p) {
    constexpr int depth = 16, tile_rows = 16 * MICRO, tile_columns = 64;
    SHARED(float, a_tile, [depth][tile_rows + 1]);
    SHARED(float, b_tile, [depth][tile_columns + 1]);
    const uint32_t across_all = ceil_div(p.columns, tile_columns);
    const int32_t row0 = blockIdx.x / across_all * tile_rows, column0 = blockIdx.x % across_all * tile_columns;
    const int down = threadIdx.x / 16, across = threadIdx.x % 16;

    float acc[MICRO][4] = {};
    if (GRADIENT) {
        for (int i = 0; i < MICRO; i++) {
            for (int j = 0; j < 4; j++) {
                int32_t row = row0 + down + i * 16, column = column0 + across + j * 16;
                acc[i][j] = row < p.rows && column < p.columns ? p.y[row * p.ldy + column] : 0;
            }
        }
    }
    for (int32_t k0 = 0; k0 < p.sum; k0 += depth) {
        __syncthreads();
        for (int index = threadIdx.x; index < depth * tile_rows; index += 256) {
            int k = A_ALONG_K ? index % depth : index / tile_rows, r = A_ALONG_K ? index / depth : index % tile_rows;
            bool inside = k0 + k < p.sum && row0 + r < p.rows;
            int64_t at = A_ALONG_K ? (row0 + r) * p.lda + k0 + k : (k0 + k) * p.lda + row0 + r;
            float x = inside ? p.a[at] : 0;
            a_tile[k][r] = GRADIENT ? p.alpha * x : x;
        }
        for (int index = threadIdx.x; index < depth * tile_columns; index += 256) {
            int k = B_ALONG_K ? index % depth : index / tile_columns, c = B_ALONG_K ? index / depth : index % tile_columns;
            bool inside = k0 + k < p.sum && column0 + c < p.columns;
            int64_t at = B_ALONG_K ? (column0 + c) * p.ldb + k0 + k : (k0 + k) * p.ldb + column0 + c;
            b_tile[k][c] = inside ? p.b[at] : 0;
        }
        __syncthreads();
        const int32_t left = p.sum - k0 < depth ? p.sum - k0 : depth;
        for (int k = 0; k < left; k++) {
#pragma unroll
            for (int i = 0; i < MICRO; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    acc[i][j] = fmaf(a_tile[k][down + i * 16], b_tile[k][across + j * 16], acc[i][j]);
                }
            }
        }
    }
    for (int i = 0; i < MICRO; i++) {
        for (int j = 0; j < 4; j++) {
            int32_t row = row0 + down + i * 16, column = column0 + across + j * 16;
            if (row >= p.rows || column >= p.columns) {
                continue;
            }
            float *y = p.y + row * p.ldy + column;
            if (GRADIENT) {
                *y = acc[i][j];
                continue;
            }
            float value = fmaf(p.alpha, acc[i][j], p.bias == nullptr ? 0 : p.bias[column]);
            *y = p.accumulate ? value + *y : value;
        }
    }
}

template <bool A_ALONG_K, bool B_ALONG_K, bool GRADIENT>
void launch_float_product(Stream stream, const FloatProduct &p) {
    const unsigned across = static_cast<unsigned>(ceil_div(p.columns, 64));
    if (p.rows <= 16) {
        LAUNCH((float_product_kernel<A_ALONG_K, B_ALONG_K, GRADIENT, 1>), dim3(across), dim3(256), 0, stream, p);
        return;
    }
    const unsigned down = static_cast<unsigned>(ceil_div(p.rows, 64));
    LAUNCH((float_product_kernel<A_ALONG_K, B_ALONG_K, GRADIENT, 4>), dim3(across * down), dim3(256), 0, stream, p);
}

} // namespace lathe
