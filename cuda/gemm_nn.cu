// gemm_nn.cu: dx (M,K) = alpha · dy (M,N) · w (N,K) [+ dx], the gradients of inputs.
#include "cublaslt.h"
#include "gemm_bf16.cuh"
#include "gemm_float.cuh"
#include "gemm_wgmma.h"
#include "kernels.h"

namespace lathe {

template <>
void product_nn<bf16>(Stream stream, bf16 *dx, int64_t lddx, const bf16 *dy, int64_t lddy, const bf16 *w, int64_t ldw, int64_t M,
                      int64_t N, int64_t K, float alpha, bool accumulate) {
    Product p{dx, dy, w, nullptr, lddx, lddy, ldw, int32_t(M), int32_t(K), int32_t(N), alpha, accumulate};
    if (!cublaslt_product(stream, p, false) && !wgmma_product<FormNN, false>(stream, p)) {
        launch_product<FormNN, false, false>(stream, p);
    }
}

template <>
void product_nn<float>(Stream stream, float *dx, int64_t lddx, const float *dy, int64_t lddy, const float *w, int64_t ldw, int64_t M,
                       int64_t N, int64_t K, float alpha, bool accumulate) {
    FloatProduct p{dx, dy, w, nullptr, lddx, lddy, ldw, int32_t(M), int32_t(K), int32_t(N), alpha, accumulate};
    launch_float_product<true, false, false>(stream, p);
}

} // namespace lathe
