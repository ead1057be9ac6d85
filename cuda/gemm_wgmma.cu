// gemm_wgmma.cu: launching products by warpgroups. The Makefile compiles this
// file for sm_90a where nvcc knows it (LATHE_SM90A); else there is no such path.
#include "gemm_wgmma.h"

#include <algorithm>

#include "gemm.h"
#include "gemm_bf16.cuh"

#if defined(LATHE_SM90A) || defined(LATHE_HOST)

#include "gemm_wgmma.cuh"

namespace lathe {

namespace {

// An operand with `free` rows or columns of its own and `sum` of k.
template <bool ALONG_K, int FREE>
TensorMap map_of(const bf16 *from, int64_t ld, int64_t free, int64_t sum) {
    return tensor_map(from, ALONG_K ? sum : free, ALONG_K ? free : sum, ld, StagedOperand<ALONG_K, FREE>::box_rows);
}

template <class F, class T, bool GRADIENT>
void launch_warpgroup_tile(Stream stream, const Product &p) {
    auto *kernel = warpgroup_product_kernel<F, T, GRADIENT>;
    const int64_t tiles = int64_t{1} * ceil_div(p.rows, T::rows) * ceil_div(p.columns, T::columns);
    const int64_t at_once = int64_t{1} * multiprocessors_here() * T::blocks_per_multiprocessor;
    LAUNCH(kernel, dim3(static_cast<unsigned>(std::min(tiles, at_once))), dim3(T::threads), T::shared_bytes, stream,
           (map_of<F::a_along_k, T::rows>(p.a, p.lda, p.rows, p.sum)), (map_of<F::b_along_k, T::columns>(p.b, p.ldb, p.columns, p.sum)), p);
}

using WideTile64x16 = WarpgroupTile<1, 16, 10, 2>;
using WideTile64x64 = WarpgroupTile<1, 64, 6, 2>;
using WideTile128x128 = WarpgroupTile<2, 128, 3, 2>;
using WideTile128x256 = WarpgroupTile<2, 256, 4, 1>;

} // namespace

template <class F, bool GRADIENT>
bool wgmma_product(Stream stream, const Product &p) {
    const bool empty = p.rows == 0 || p.columns == 0 || p.sum == 0;
    if (path_in_use() != ProductPath::wgmma || empty || !rows_aligned(p.a, p.lda) || !rows_aligned(p.b, p.ldb)) {
        return false;
    }
    const int forced = tile_forced();
    switch (forced >= 0 ? static_cast<WarpgroupTileSize>(forced) : choose_warpgroup_tile(p.rows, p.columns, multiprocessors_here())) {
    case WarpgroupTileSize::rows64_columns16:
        if constexpr (F::b_along_k) {
            launch_warpgroup_tile<F, WideTile64x16, GRADIENT>(stream, p);
            break;
        }
        [[fallthrough]];
    case WarpgroupTileSize::rows64_columns64: launch_warpgroup_tile<F, WideTile64x64, GRADIENT>(stream, p); break;
    case WarpgroupTileSize::rows128_columns128: launch_warpgroup_tile<F, WideTile128x128, GRADIENT>(stream, p); break;
    case WarpgroupTileSize::rows128_columns256: launch_warpgroup_tile<F, WideTile128x256, GRADIENT>(stream, p); break;
    }
    return true;
}

#else

namespace lathe {

template <class F, bool GRADIENT>
bool wgmma_product(Stream, const Product &) {
    return false;
}

#endif

template bool wgmma_product<FormNT, false>(Stream, const Product &);
template bool wgmma_product<FormNN, false>(Stream, const Product &);
template bool wgmma_product<FormTN, true>(Stream, const Product &);

} // namespace lathe
