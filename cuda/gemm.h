// gemm.h: how products are computed; for gemm.cu, tests and benchmarks.
#pragma once

#include <stdint.h>

namespace lathe {

// The tiles of y that a block may compute. A choice of speed alone: every
// tile gives the same bits.
enum class ProductTile {
    rows16_columns16,
    rows16_columns64,
    rows64_columns16,
    rows64_columns32,
    rows64_columns64,
    rows128_columns128,
    rows128_columns256,
};
constexpr int product_tiles = 7;

// The instructions that compute products of bfloat16. mma works on every device
// that the engine does. wgmma needs compute capability 9.0 and a library that
// was compiled for sm_90a. Their results may differ in the last bits, so the
// path is chosen once for an engine, never by a product's number of rows; what
// wgmma cannot take (operands whose rows do not start at multiples of 16
// bytes, which is up to the weights' shape) goes the other path for every number
// of rows.
enum class ProductPath { mma, wgmma };
constexpr int product_paths = 2;
const char *path_name(ProductPath path);

// The path of the products that this thread launches from now on: mma at first.
void use_path(ProductPath path);
ProductPath path_in_use();

// Why the current device cannot take the path of wgmma, or null if it can.
const char *wgmma_obstacle();

// Tiles of that path, from the smallest. Products whose second operand lies
// across have none narrower than 64 columns.
enum class WarpgroupTileSize {
    rows64_columns16,
    rows64_columns64,
    rows128_columns128,
    rows128_columns256,
};
constexpr int warpgroup_tiles = 4;
WarpgroupTileSize choose_warpgroup_tile(int64_t rows, int64_t columns, int64_t multiprocessors);

// Multiprocessors of the current device, asked for once a device.
int multiprocessors_here();

// Shared memory of a block that every device of compute capability 8.0 and
// later gives, and what the widest tile takes, which not all of them do.
constexpr int64_t least_block_shared = 99 * 1024, widest_tile_shared = 144 * 1024;

// The tile for a result of so many rows and columns: the largest that still
// gives every multiprocessor one to compute, of those for which a block has
// enough shared memory.
ProductTile choose_tile(int64_t rows, int64_t columns, int64_t multiprocessors, int64_t block_shared);
// The same for the current device, unless a tile is forced.
ProductTile choose_tile(int64_t rows, int64_t columns);

// Makes every product use one tile of the path in use, as a test or a benchmark
// wants; -1 ends it.
void force_tile(int tile);
int tile_forced();

// cuBLASLt (cublaslt.cu) instead of our kernels in product_nt and product_nn of
// bfloat16, without a workspace and without splitting k. Off until
// enable_cublaslt(true), which loads the library and gives its version, or 0 if
// there is none; enable_cublaslt(false) switches it off and gives 0. Whether
// it keeps the promise that a row's bits do not depend on the number of rows is
// up to the library and the device: product_nt's invariance test says.
int32_t enable_cublaslt(bool on);
int32_t cublaslt_version();
// Products since then that it did not take, which our kernels computed.
int64_t cublaslt_declined();

} // namespace lathe
