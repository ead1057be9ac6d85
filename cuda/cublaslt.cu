// cublaslt.cu: products by cuBLASLt, an option beside our own kernels.
//
// The library is never linked: it has half a gigabyte and its name carries the
// toolkit's major version. It is loaded when it is asked for, and called
// through the few functions below, whose descriptors are opaque and made by the
// library itself; their signatures and the numbers of their attributes are the
// same from CUDA 11 to 13.
//
// Every product gets a workspace of 0 bytes and the reduction scheme NONE, so
// that no algorithm can split the sum over k among blocks.
#include "cublaslt.h"

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

#include "gemm.h"
#include "gemm_bf16.cuh"

#ifdef LATHE_HOST

namespace lathe {

int32_t enable_cublaslt(bool) { return 0; }
int64_t cublaslt_declined() { return 0; }
int32_t cublaslt_version() { return 0; }
bool cublaslt_product(Stream, const Product &, bool) { return false; }

} // namespace lathe

#else

#include <dlfcn.h>

namespace lathe {

namespace {

using Handle = void *;
using Descriptor = void *;
using Layout = void *;
using Preference = void *;

struct Algorithm {
    uint64_t data[8];
};
struct Heuristic {
    Algorithm algorithm;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

// Numbers of cublasLt.h, library_types.h and cublas_api.h.
enum { type_float = 0, type_bf16 = 14, compute_float = 68, operation_none = 0, operation_transpose = 1, epilogue_bias = 4 };
enum { descriptor_transpose_a = 3, descriptor_transpose_b = 4, descriptor_epilogue = 7, descriptor_bias_pointer = 8 };
enum { preference_workspace = 1, preference_reduction_mask = 3 };

struct Library {
    int (*create)(Handle *);
    int (*descriptor_create)(Descriptor *, int compute, int scale);
    int (*descriptor_set)(Descriptor, int attribute, const void *value, size_t bytes);
    int (*layout_create)(Layout *, int type, uint64_t rows, uint64_t columns, int64_t ld);
    int (*preference_create)(Preference *);
    int (*preference_set)(Preference, int attribute, const void *value, size_t bytes);
    int (*preference_destroy)(Preference);
    int (*heuristic)(Handle, Descriptor, Layout a, Layout b, Layout c, Layout d, Preference, int wanted, Heuristic *found, int *count);
    int (*matmul)(Handle, Descriptor, const void *alpha, const void *a, Layout, const void *b, Layout, const void *beta, const void *c,
                  Layout, void *d, Layout, const Algorithm *, void *workspace, size_t workspace_bytes, Stream);
    size_t (*version)();
};

template <class Function>
bool resolve(void *library, const char *name, Function &function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

// The library, or null where there is none; it is looked for once.
const Library *load() {
    static Library library;
    static const bool loaded = [] {
        void *file = nullptr;
        for (const char *name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}) {
            if ((file = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) {
                break;
            }
        }
        return file != nullptr && resolve(file, "cublasLtCreate", library.create) &&
               resolve(file, "cublasLtMatmulDescCreate", library.descriptor_create) &&
               resolve(file, "cublasLtMatmulDescSetAttribute", library.descriptor_set) &&
               resolve(file, "cublasLtMatrixLayoutCreate", library.layout_create) &&
               resolve(file, "cublasLtMatmulPreferenceCreate", library.preference_create) &&
               resolve(file, "cublasLtMatmulPreferenceSetAttribute", library.preference_set) &&
               resolve(file, "cublasLtMatmulPreferenceDestroy", library.preference_destroy) &&
               resolve(file, "cublasLtMatmulAlgoGetHeuristic", library.heuristic) &&
               resolve(file, "cublasLtMatmul", library.matmul) && resolve(file, "cublasLtGetVersion", library.version);
    }();
    return loaded ? &library : nullptr;
}

std::atomic<bool> enabled{false};
std::atomic<int64_t> declined{0};
std::mutex plans_lock;

// One form and shape of product: its descriptors and the algorithm, or none.
struct Plan {
    Descriptor descriptor = nullptr;
    Layout a = nullptr, b = nullptr, y = nullptr;
    Algorithm algorithm{};
    bool usable = false;
};

// Device, form, bias, accumulate, shape and leading dimensions.
using Shape = std::tuple<int, bool, bool, bool, int32_t, int32_t, int32_t, int64_t, int64_t, int64_t>;

Plan make_plan(const Library &l, Handle handle, const Product &p, bool b_along_k) {
    Plan plan;
    // Column-major, as the library sees it, yᵀ = b · aᵀ.
    const int32_t transpose = b_along_k ? operation_transpose : operation_none, none = operation_none;
    const uint64_t b_rows = b_along_k ? p.sum : p.columns, b_columns = b_along_k ? p.columns : p.sum;
    bool made = l.descriptor_create(&plan.descriptor, compute_float, type_float) == 0 &&
                l.descriptor_set(plan.descriptor, descriptor_transpose_a, &transpose, sizeof transpose) == 0 &&
                l.descriptor_set(plan.descriptor, descriptor_transpose_b, &none, sizeof none) == 0 &&
                l.layout_create(&plan.b, type_bf16, b_rows, b_columns, p.ldb) == 0 &&
                l.layout_create(&plan.a, type_bf16, p.sum, p.rows, p.lda) == 0 &&
                l.layout_create(&plan.y, type_bf16, p.columns, p.rows, p.ldy) == 0;
    if (made && p.bias != nullptr) {
        const int32_t epilogue = epilogue_bias;
        made = l.descriptor_set(plan.descriptor, descriptor_epilogue, &epilogue, sizeof epilogue) == 0 &&
               l.descriptor_set(plan.descriptor, descriptor_bias_pointer, &p.bias, sizeof p.bias) == 0;
    }
    Preference preference = nullptr;
    const uint64_t workspace = 0;
    const uint32_t no_reduction = 0;
    Heuristic found{};
    int count = 0;
    plan.usable = made && l.preference_create(&preference) == 0 &&
                  l.preference_set(preference, preference_workspace, &workspace, sizeof workspace) == 0 &&
                  l.preference_set(preference, preference_reduction_mask, &no_reduction, sizeof no_reduction) == 0 &&
                  l.heuristic(handle, plan.descriptor, plan.b, plan.a, plan.y, plan.y, preference, 1, &found, &count) == 0 && count > 0 &&
                  found.state == 0;
    plan.algorithm = found.algorithm;
    if (preference != nullptr) {
        l.preference_destroy(preference);
    }
    return plan;
}

// The handle of a device, made once; null if that fails.
Handle handle_of(const Library &l, int device) {
    static std::map<int, Handle> handles;
    Handle &handle = handles[device];
    if (handle == nullptr && l.create(&handle) != 0) {
        handle = nullptr;
    }
    return handle;
}

} // namespace

int32_t enable_cublaslt(bool on) {
    declined = 0;
    enabled = on && load() != nullptr;
    return cublaslt_version();
}

int32_t cublaslt_version() { return enabled ? static_cast<int32_t>(load()->version()) : 0; }

int64_t cublaslt_declined() { return declined; }

namespace {

bool try_product(Stream stream, const Product &p, bool b_along_k) {
    const bool aligned = rows_aligned(p.a, p.lda) && rows_aligned(p.b, p.ldb) && rows_aligned(static_cast<bf16 *>(p.y), p.ldy) &&
                         reinterpret_cast<uintptr_t>(p.bias) % 16 == 0;
    if (!enabled || !aligned || p.rows == 0 || p.columns == 0 || p.sum == 0) {
        return false;
    }
    const Library &l = *load();
    int device = 0;
    CHECK(cudaGetDevice(&device));
    std::lock_guard<std::mutex> hold(plans_lock);
    Handle handle = handle_of(l, device);
    if (handle == nullptr) {
        return false;
    }
    static std::map<Shape, Plan> plans;
    const Shape shape{device, b_along_k, p.bias != nullptr, p.accumulate, p.rows, p.columns, p.sum, p.lda, p.ldb, p.ldy};
    auto at = plans.find(shape);
    if (at == plans.end()) {
        at = plans.emplace(shape, make_plan(l, handle, p, b_along_k)).first;
    }
    const Plan &plan = at->second;
    if (!plan.usable) {
        return false;
    }
    if (p.bias != nullptr && l.descriptor_set(plan.descriptor, descriptor_bias_pointer, &p.bias, sizeof p.bias) != 0) {
        return false;
    }
    const float beta = p.accumulate ? 1 : 0;
    return l.matmul(handle, plan.descriptor, &p.alpha, p.b, plan.b, p.a, plan.a, &beta, p.y, plan.y, p.y, plan.y, &plan.algorithm, nullptr,
                    0, stream) == 0;
}

} // namespace

bool cublaslt_product(Stream stream, const Product &p, bool b_along_k) {
    const bool done = try_product(stream, p, b_along_k);
    if (enabled && !done) declined++;
    return done;
}

} // namespace lathe

#endif
