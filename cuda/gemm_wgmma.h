// gemm_wgmma.h: products by warpgroups, where they are switched on (gemm.h,
// use_path) and able to.
#pragma once

#include "common.cuh"

namespace lathe {

struct Product; // gemm_bf16.cuh

// Computes p by gemm_wgmma.cuh if that is this thread's path and p's operands are
// such as the copy unit takes; else does nothing and says false. For products
// with something in all three dimensions.
template <class F, bool GRADIENT>
bool wgmma_product(Stream stream, const Product &p);

} // namespace lathe
