// gemm_nt.cu: y (M,N) = alpha · x (M,K) · w (N,K)ᵀ + bias [+ y], the products of
// every forward pass.
#include "cublaslt.h"
#include "gemm_bf16.cuh"
#include "gemm_float.cuh"
#include "gemm_wgmma.h"
#include "kernels.h"

namespace lathe {

template <>
void product_nt<bf16>(Stream stream, bf16 *y, int64_t ldy, const bf16 *x, int64_t ldx, const bf16 *w, int64_t ldw, const bf16 *bias,
                      int64_t M, int64_t N, int64_t K, float alpha, bool accumulate) {
    Product p{y, x, w, bias, ldy, ldx, ldw, int32_t(M), int32_t(N), int32_t(K), alpha, accumulate};
    if (!cublaslt_product(stream, p, true) && !wgmma_product<FormNT, false>(stream, p)) {
        launch_product<FormNT, false, false>(stream, p);
    }
}

template <>
void product_nt<float>(Stream stream, float *y, int64_t ldy, const float *x, int64_t ldx, const float *w, int64_t ldw, const float *bias,
                       int64_t M, int64_t N, int64_t K, float alpha, bool accumulate) {
    FloatProduct p{y, x, w, bias, ldy, ldx, ldw, int32_t(M), int32_t(N), int32_t(K), alpha, accumulate};
    launch_float_product<true, true, false>(stream, p);
}

} // namespace lathe
