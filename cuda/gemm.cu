// gemm.cu: the choice of a product's path and tile. The products are in
// gemm_nt.cu, gemm_nn.cu and gemm_tn.cu, their kernels in gemm_bf16.cuh,
// gemm_wgmma.cuh and gemm_float.cuh.
#include "gemm.h"

#include <atomic>

#include "common.cuh"

namespace lathe {

namespace {

std::atomic<int> forced_tile{-1};

thread_local ProductPath path = ProductPath::mma;

} // namespace

// A number that the current device has of something, asked for once a device.
template <cudaDeviceAttr ATTRIBUTE>
static int number_here() {
    constexpr int devices = 64;
    static std::atomic<int> numbers[devices];
    int device = 0;
    CHECK(cudaGetDevice(&device));
    std::atomic<int> &number = numbers[device % devices];
    if (number == 0) {
        int asked = 0;
        CHECK(cudaDeviceGetAttribute(&asked, ATTRIBUTE, device));
        number = asked;
    }
    return number;
}

int multiprocessors_here() { return number_here<cudaDevAttrMultiProcessorCount>(); }

const char *path_name(ProductPath of) { return of == ProductPath::mma ? "mma" : "wgmma"; }
void use_path(ProductPath next) { path = next; }
ProductPath path_in_use() { return path; }

void force_tile(int tile) { forced_tile = tile; }
int tile_forced() { return forced_tile; }

// With few rows a product is a stream of weights, and what counts is that
// every multiprocessor takes part in it: k is never split, so narrow tiles are
// the only way. With many rows what counts is how often a tile's operands are
// used once they are in shared memory.
ProductTile choose_tile(int64_t rows, int64_t columns, int64_t multiprocessors, int64_t block_shared) {
    auto tiles = [&](int64_t tile_rows, int64_t tile_columns) { return ceil_div(rows, tile_rows) * ceil_div(columns, tile_columns); };
    if (rows <= 16) {
        return tiles(16, 64) >= multiprocessors ? ProductTile::rows16_columns64 : ProductTile::rows16_columns16;
    }
    if (rows > 64 && columns > 64) {
        if (columns > 128 && tiles(128, 256) >= multiprocessors && block_shared >= widest_tile_shared) {
            return ProductTile::rows128_columns256;
        }
        if (tiles(128, 128) >= multiprocessors) {
            return ProductTile::rows128_columns128;
        }
    }
    if (columns > 32 && tiles(64, 64) >= multiprocessors) {
        return ProductTile::rows64_columns64;
    }
    return columns <= 16 || 2 * tiles(64, 32) <= multiprocessors ? ProductTile::rows64_columns16 : ProductTile::rows64_columns32;
}

ProductTile choose_tile(int64_t rows, int64_t columns) {
    const int tile = forced_tile;
    return tile >= 0 ? static_cast<ProductTile>(tile)
                     : choose_tile(rows, columns, multiprocessors_here(), number_here<cudaDevAttrMaxSharedMemoryPerBlockOptin>());
}

WarpgroupTileSize choose_warpgroup_tile(int64_t rows, int64_t columns, int64_t multiprocessors) {
    auto tiles = [&](int64_t tile_rows, int64_t tile_columns) { return ceil_div(rows, tile_rows) * ceil_div(columns, tile_columns); };
    if (rows > 64 && columns > 64) {
        if (columns > 128 && tiles(128, 256) >= multiprocessors) {
            return WarpgroupTileSize::rows128_columns256;
        }
        if (tiles(128, 128) >= multiprocessors) {
            return WarpgroupTileSize::rows128_columns128;
        }
    }
    return columns > 16 && tiles(64, 64) >= multiprocessors ? WarpgroupTileSize::rows64_columns64 : WarpgroupTileSize::rows64_columns16;
}

} // namespace lathe
