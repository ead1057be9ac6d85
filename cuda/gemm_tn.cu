// gemm_tn.cu: dw (N,K) += alpha · dy (M,N)ᵀ · x (M,K) in float32, the gradients
// of weights.
//
// The accumulators start from dw, so that a gradient is one chain over all
// rows of all calls. With alpha = 1 that is the chain of the tensor cores; else
// each block of 16 rows is summed from zero and added by one fused product with
// alpha, by mma alone. Either way calls may be cut at multiples of 16 rows.
#include "gemm_bf16.cuh"
#include "gemm_float.cuh"
#include "gemm_wgmma.h"
#include "kernels.h"

namespace lathe {

template <>
void product_tn<bf16>(Stream stream, float *dw, int64_t lddw, const bf16 *dy, int64_t lddy, const bf16 *x, int64_t ldx, int64_t M,
                      int64_t N, int64_t K, float alpha) {
    Product p{dw, dy, x, nullptr, lddw, lddy, ldx, int32_t(N), int32_t(K), int32_t(M), alpha, true};
    if (alpha != 1) {
        launch_product<FormTN, true, true>(stream, p);
    } else if (!wgmma_product<FormTN, true>(stream, p)) {
        launch_product<FormTN, true, false>(stream, p);
    }
}

template <>
void product_tn<float>(Stream stream, float *dw, int64_t lddw, const float *dy, int64_t lddy, const float *x, int64_t ldx, int64_t M,
                       int64_t N, int64_t K, float alpha) {
    FloatProduct p{dw, dy, x, nullptr, lddw, lddy, ldx, int32_t(N), int32_t(K), int32_t(M), alpha, true};
    launch_float_product<false, false, true>(stream, p);
}

} // namespace lathe
