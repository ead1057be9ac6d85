// common.cuh: types, conversions, reductions and launching, for every .cu file.
//
// The sources compile in two ways: by nvcc for a GPU, and by a C++ compiler
// with LATHE_HOST defined, where host/cuda_host.h runs the same kernels on the
// CPU, block after block with a fiber for each thread, so that their arithmetic
// and their synchronization are tested where there is no GPU. Hence
//
//   - kernels are launched by LAUNCH;
//   - shared memory is declared by SHARED and DYNAMIC_SHARED, not __shared__;
//   - tensor core and asynchronous copy instructions are called through
//     functions of mma.cuh;
//   - blocks that use warp functions have a multiple of 32 threads, and no
//     thread leaves a kernel before the last barrier of its block.
//
// # Rounding
//
// nvcc runs with -fmad=false and g++ with -ffp-contract=off: a product and a
// sum are fused where the source says fmaf and nowhere else. Division and
// square root round correctly on both. So a kernel without transcendental
// functions and tensor cores gives the same bits on a GPU and on the host.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <stdexcept>
#include <string>
#include <utility>

#ifdef LATHE_HOST
#include "host/cuda_host.h"
#else
#include <cuda_runtime.h>
// SHARED(float, name, [4][32]) declares shared memory, aligned to 16 bytes.
#define SHARED(type, name, ...) __shared__ __align__(16) type name __VA_ARGS__
// DYNAMIC_SHARED(float, name) points name at the dynamic shared memory, aligned to 128 bytes.
#define DYNAMIC_SHARED(type, name)                                       \
    extern __shared__ __align__(128) unsigned char lathe_dynamic_shared[]; \
    type *name = reinterpret_cast<type *>(lathe_dynamic_shared)
#endif

namespace lathe {

using Stream = cudaStream_t;

// ---------------------------------------------------------------- errors and launching

// A CUDA call that failed.
struct CudaError : std::runtime_error {
    cudaError_t code;
    CudaError(cudaError_t code, const std::string &doing)
        : std::runtime_error(doing + ": " + cudaGetErrorString(code) + " (CUDA error " + std::to_string(int(code)) + ")"), code(code) {}
};

inline void check(cudaError_t code, const char *doing) {
    if (code != cudaSuccess) throw CudaError(code, doing);
}

// CHECK throws a CudaError if a runtime call failed.
#define CHECK(call) ::lathe::check((call), #call)

// Dynamic shared memory that a kernel may have without being asked for more.
constexpr size_t default_dynamic_shared = 48 * 1024;

// Launches with the parameters already converted to the kernel's types.
template <class... Parameters>
void launch_with(const char *name, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, Stream stream,
                 Parameters... parameters) {
#ifdef LATHE_HOST
    check(host::launch(name, kernel, grid, block, shared_bytes, stream, parameters...), name);
#else
    void *pointers[] = {&parameters..., nullptr};
    check(cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, pointers, shared_bytes, stream), name);
#endif
}

// Launches a kernel; a grid without blocks launches nothing. See LAUNCH.
template <class... Parameters, class... Arguments>
void launch(const char *name, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, Stream stream,
            Arguments &&...arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments), "a kernel takes as many arguments as it has parameters");
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    if (shared_bytes > default_dynamic_shared)
        check(cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared_bytes)), name);
    launch_with<Parameters...>(name, kernel, grid, block, shared_bytes, stream, static_cast<Parameters>(arguments)...);
}

// LAUNCH(kernel, grid, block, shared_bytes, stream, arguments…) launches and
// throws a CudaError if that fails. The name of a template kernel goes in
// parentheses: LAUNCH((norm_kernel<T>), …). More than 48 KiB of dynamic shared
// memory is asked for by itself.
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    ::lathe::launch(#kernel, kernel, grid, block, shared_bytes, stream, __VA_ARGS__)

// ---------------------------------------------------------------- numbers

template <class A, class B>
__host__ __device__ constexpr auto ceil_div(A a, B b) {
    return (a + b - 1) / b;
}

// A bfloat16: the upper half of a float.
struct bf16 {
    uint16_t bits;
};

__host__ __device__ inline uint32_t float_bits(float x) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(x);
#else
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

__host__ __device__ inline float bits_float(uint32_t bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

__host__ __device__ inline float to_float(float x) { return x; }
__host__ __device__ inline float to_float(bf16 x) { return bits_float(static_cast<uint32_t>(x.bits) << 16); }

template <class T>
__host__ __device__ T from_float(float x);

template <>
__host__ __device__ inline float from_float<float>(float x) {
    return x;
}

// Rounds to the nearest, ties to the even mantissa; a NaN stays one.
template <>
__host__ __device__ inline bf16 from_float<bf16>(float x) {
#ifdef __CUDA_ARCH__
    uint16_t rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
    return {rounded};
#else
    uint32_t bits = float_bits(x);
    if (x != x) return {static_cast<uint16_t>((bits | 1u << 22) >> 16)};
    return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
#endif
}

// Rounds to one of the two neighbours, to the one further from zero with a
// probability that is the distance from the other: random is uniform in
// 0 … 65535. As pkg/vec.RoundBF16Randomly.
__host__ __device__ inline bf16 round_randomly(float x, uint32_t random) {
    uint32_t bits = float_bits(x);
    if (x != x) return {static_cast<uint16_t>((bits | 1u << 22) >> 16)};
    return {static_cast<uint16_t>((bits + (random & 0xffff)) >> 16)};
}

// x as T holds it.
template <class T>
__host__ __device__ inline float rounded(float x) {
    return to_float(from_float<T>(x));
}

// Two bfloat16 in a word, low in the lower half: what tensor cores take.
__host__ __device__ inline uint32_t pack_bf16(float low, float high) {
#ifdef __CUDA_ARCH__
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
#else
    return from_float<bf16>(low).bits | static_cast<uint32_t>(from_float<bf16>(high).bits) << 16;
#endif
}

// An unsigned key in the order of the numbers: -0 and 0 have the same.
__host__ __device__ inline uint32_t ordered_key(float x) {
    uint32_t bits = float_bits(x + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__host__ __device__ inline float from_ordered_key(uint32_t key) {
    return bits_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

// ---------------------------------------------------------------- vectors

// Eight consecutive elements, as floats.
struct Vec8 {
    float at[8];
};

__device__ inline bool aligned_16(const void *pointer) { return (reinterpret_cast<uintptr_t>(pointer) & 15) == 0; }

// 16 bytes from an aligned address.
__device__ inline uint4 load16(const void *from) { return *static_cast<const uint4 *>(from); }
__device__ inline void store16(void *to, uint4 words) { *static_cast<uint4 *>(to) = words; }

// The eight elements at from, of which `left` exist: the others are zero and
// are not touched. Loads 16 bytes at a time where all exist and from is aligned.
__device__ inline Vec8 load8(const float *from, int64_t left) {
    Vec8 x;
    if (left >= 8 && aligned_16(from)) {
        for (int half = 0; half < 2; half++) {
            uint4 words = load16(from + 4 * half);
            x.at[4 * half + 0] = __uint_as_float(words.x);
            x.at[4 * half + 1] = __uint_as_float(words.y);
            x.at[4 * half + 2] = __uint_as_float(words.z);
            x.at[4 * half + 3] = __uint_as_float(words.w);
        }
    } else {
        for (int i = 0; i < 8; i++) x.at[i] = i < left ? from[i] : 0;
    }
    return x;
}

__device__ inline Vec8 load8(const bf16 *from, int64_t left) {
    Vec8 x;
    if (left >= 8 && aligned_16(from)) {
        uint4 words = load16(from);
        const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
        for (int i = 0; i < 4; i++) {
            x.at[2 * i] = __uint_as_float(pairs[i] << 16);
            x.at[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
        }
    } else {
        for (int i = 0; i < 8; i++) x.at[i] = i < left ? to_float(from[i]) : 0;
    }
    return x;
}

// Writes the first `left` of eight elements, rounded to nearest.
__device__ inline void store8(float *to, const Vec8 &x, int64_t left) {
    if (left >= 8 && aligned_16(to)) {
        for (int half = 0; half < 2; half++)
            store16(to + 4 * half, make_uint4(__float_as_uint(x.at[4 * half]), __float_as_uint(x.at[4 * half + 1]),
                                              __float_as_uint(x.at[4 * half + 2]), __float_as_uint(x.at[4 * half + 3])));
    } else {
        for (int i = 0; i < 8; i++)
            if (i < left) to[i] = x.at[i];
    }
}

__device__ inline void store8(bf16 *to, const Vec8 &x, int64_t left) {
    if (left >= 8 && aligned_16(to)) {
        store16(to, make_uint4(pack_bf16(x.at[0], x.at[1]), pack_bf16(x.at[2], x.at[3]), pack_bf16(x.at[4], x.at[5]),
                               pack_bf16(x.at[6], x.at[7])));
    } else {
        for (int i = 0; i < 8; i++)
            if (i < left) to[i] = from_float<bf16>(x.at[i]);
    }
}

// Four consecutive elements, as floats. Where floats are read or written once,
// threads next to each other take four each: with eight, each access of 16 bytes
// would touch every sector of 32 and use half of it.
struct Vec4 {
    float at[4];
};

// As load8 and store8, 16 bytes of float and 8 of bf16 at a time.
__device__ inline Vec4 load4(const float *from, int64_t left) {
    if (left >= 4 && aligned_16(from)) {
        const uint4 words = load16(from);
        return {{__uint_as_float(words.x), __uint_as_float(words.y), __uint_as_float(words.z), __uint_as_float(words.w)}};
    }
    Vec4 x;
    for (int i = 0; i < 4; i++) x.at[i] = i < left ? from[i] : 0;
    return x;
}

__device__ inline bool aligned_8(const void *pointer) { return (reinterpret_cast<uintptr_t>(pointer) & 7) == 0; }

__device__ inline Vec4 load4(const bf16 *from, int64_t left) {
    if (left >= 4 && aligned_8(from)) {
        const uint2 pairs = *reinterpret_cast<const uint2 *>(from);
        return {{__uint_as_float(pairs.x << 16), __uint_as_float(pairs.x & 0xffff0000u), __uint_as_float(pairs.y << 16),
                 __uint_as_float(pairs.y & 0xffff0000u)}};
    }
    Vec4 x;
    for (int i = 0; i < 4; i++) x.at[i] = i < left ? to_float(from[i]) : 0;
    return x;
}

__device__ inline void store4(float *to, const Vec4 &x, int64_t left) {
    if (left >= 4 && aligned_16(to)) {
        store16(to, make_uint4(__float_as_uint(x.at[0]), __float_as_uint(x.at[1]), __float_as_uint(x.at[2]), __float_as_uint(x.at[3])));
    } else {
        for (int i = 0; i < 4; i++)
            if (i < left) to[i] = x.at[i];
    }
}

__device__ inline void store4(bf16 *to, const Vec4 &x, int64_t left) {
    if (left >= 4 && aligned_8(to)) {
        *reinterpret_cast<uint2 *>(to) = make_uint2(pack_bf16(x.at[0], x.at[1]), pack_bf16(x.at[2], x.at[3]));
    } else {
        for (int i = 0; i < 4; i++)
            if (i < left) to[i] = from_float<bf16>(x.at[i]);
    }
}

// ---------------------------------------------------------------- reductions

constexpr uint32_t all_lanes = 0xffffffffu;

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x & 31); }
__device__ inline int warp_index() { return static_cast<int>(threadIdx.x >> 5); }
__device__ inline int warp_count() { return static_cast<int>(blockDim.x >> 5); }

// The sum over the 32 lanes in every lane: a butterfly over distances 16, 8, 4,
// 2, 1, which gives all lanes the same bits.
__device__ inline float warp_sum(float x) {
    for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(all_lanes, x, distance);
    return x;
}

__device__ inline double warp_sum(double x) {
    for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(all_lanes, x, distance);
    return x;
}

// The largest over the 32 lanes in every lane; NaN is passed over.
__device__ inline float warp_max(float x) {
    for (int distance = 16; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(all_lanes, x, distance));
    return x;
}

// The sum over a one-dimensional block in every thread: warp_sum of each warp,
// then of the warps' sums. scratch is shared, one value per warp (32 do); it may be
// used again at once. The order depends on the block's size alone.
template <class T>
__device__ inline T block_sum(T x, T *scratch) {
    x = warp_sum(x);
    if (lane_index() == 0) scratch[warp_index()] = x;
    __syncthreads();
    x = warp_sum(lane_index() < warp_count() ? scratch[lane_index()] : T(0));
    __syncthreads();
    return x;
}

// The largest over a one-dimensional block in every thread; NaN is passed over.
__device__ inline float block_max(float x, float *scratch) {
    x = warp_max(x);
    if (lane_index() == 0) scratch[warp_index()] = x;
    __syncthreads();
    x = warp_max(scratch[lane_index() < warp_count() ? lane_index() : 0]);
    __syncthreads();
    return x;
}

} // namespace lathe
