// hopper.cu: what the host does for hopper.cuh: whether the device has it, and
// the maps of matrices for the copy unit. Compiled for sm_90a with the files that
// use it (LATHE_SM90A).
#include "common.cuh"
#include "gemm.h"

#if defined(LATHE_SM90A) || defined(LATHE_HOST)

#include <string>

#include "hopper.cuh"

namespace lathe {

namespace {

#ifdef LATHE_HOST

const char *copy_unit_obstacle() { return nullptr; }

void encode(TensorMap *map, const bf16 *from, const uint64_t size[2], uint64_t row_bytes, const uint32_t box[2]) {
    check(host::encode_tensor_map(map, from, size, row_bytes, box), "a matrix for the copy unit");
}

#else

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function, found through the runtime: the library is not linked
// with the driver, so that it loads where there is none.
Encode find_encode() {
    void *function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    cudaError_t code = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
#else
    cudaError_t code = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
    if (code != cudaSuccess) {
        cudaGetLastError(); // it is told by the obstacle
        return nullptr;
    }
    return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

Encode encode_function() {
    static const Encode function = find_encode();
    return function;
}

const char *copy_unit_obstacle() {
    return encode_function() == nullptr ? "the driver has no cuTensorMapEncodeTiled, which came with CUDA 12.0" : nullptr;
}

void encode(TensorMap *map, const bf16 *from, const uint64_t size[2], uint64_t row_bytes, const uint32_t box[2]) {
    const cuuint64_t sizes[2] = {size[0], size[1]}, strides[1] = {row_bytes};
    const cuuint32_t boxes[2] = {box[0], box[1]}, steps[2] = {1, 1};
    const CUresult result = encode_function()(
        map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<bf16 *>(from), sizes, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        throw CudaError(cudaErrorInvalidValue, "cuTensorMapEncodeTiled gave " + std::to_string(result));
    }
}

#endif

bool has_capability() {
    int device = 0, major = 0, minor = 0;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    return major == 9 && minor == 0;
}

} // namespace

const char *wgmma_obstacle() { return has_capability() ? copy_unit_obstacle() : "the device's compute capability is not 9.0"; }

TensorMap tensor_map(const bf16 *from, int64_t columns, int64_t rows, int64_t ld, int box_rows) {
    const uint64_t size[2] = {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)};
    const uint32_t box[2] = {swizzled_columns, static_cast<uint32_t>(box_rows)};
    TensorMap map;
    encode(&map, from, size, static_cast<uint64_t>(ld) * sizeof(bf16), box);
    return map;
}

} // namespace lathe

#else

namespace lathe {

const char *wgmma_obstacle() { return "the library was compiled without sm_90a"; }

} // namespace lathe

#endif
