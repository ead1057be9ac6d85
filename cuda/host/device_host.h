// device_host.h: what device code sees: indices, shared memory, barriers, warp
// functions and intrinsics.
#pragma once

#include <algorithm>

struct __align__(8) uint2 { uint32_t x, y; };
struct uint3 { uint32_t x, y, z; };
struct __align__(16) uint4 { uint32_t x, y, z, w; };
struct __align__(8) int2 { int32_t x, y; };
struct __align__(16) int4 { int32_t x, y, z, w; };
struct __align__(8) float2 { float x, y; };
struct __align__(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline int2 make_int2(int32_t x, int32_t y) { return {x, y}; }
inline int4 make_int4(int32_t x, int32_t y, int32_t z, int32_t w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct dim3 {
    uint32_t x, y, z;
    // Whatever integers a caller has: on a GPU they would be cut to 32 bits,
    // here one that does not fit becomes a dimension that no launch allows.
    dim3(uint64_t x = 1, uint64_t y = 1, uint64_t z = 1) : x(fit(x)), y(fit(y)), z(fit(z)) {}

  private:
    static uint32_t fit(uint64_t n) { return n > 0xffffffffu ? 0xffffffffu : static_cast<uint32_t>(n); }
};

namespace lathe::host {

// Where in the source a thread waits.
struct Site {
    const char *file;
    int line;
};
#define LATHE_SITE (::lathe::host::Site{__FILE__, __LINE__})

// The indices of the thread that runs, and its place in its warp.
struct Indices {
    uint3 thread, block;
    dim3 block_size, grid_size;
    int lane;
};
extern __thread Indices *indices __attribute__((tls_model("initial-exec")));

// Shared memory of the block, the same for all of its threads: of one
// declaration, and the dynamic one.
void *shared_memory(const void *declaration, size_t bytes);
void *dynamic_shared_memory();

// Waits for all threads of the block; results are over all of their predicates.
struct Votes {
    int count, threads;
};
Votes block_barrier(Site site, bool predicate);

// Waits for all lanes in mask. The last one runs combine on the arguments of
// all (null where a lane is not in mask), which stay where they are until then.
using Combine = void (*)(void *const arguments[32], Site site);
void warp_exchange(Site site, uint32_t mask, void *arguments, Combine combine);
// Ends the kernel with an error.
[[noreturn]] void fault(Site site, const char *what);

inline int lane() { return indices->lane; }

template <class T>
struct Shuffle {
    T value;
    int source; // lane, or -1: its own
    T result;
};

template <class T>
T shuffle(Site site, uint32_t mask, T value, int source) {
    Shuffle<T> own{value, source, value};
    warp_exchange(site, mask, &own, [](void *const arguments[32], Site site) {
        for (int i = 0; i < 32; i++) {
            auto *to = static_cast<Shuffle<T> *>(arguments[i]);
            if (to == nullptr || to->source < 0) continue;
            auto *from = static_cast<Shuffle<T> *>(arguments[to->source]);
            if (from == nullptr) fault(site, "a lane shuffles from one that its mask leaves out");
            to->result = from->value;
        }
    });
    return own.result;
}

// Lanes of a shuffle within groups of `width` lanes.
inline int shuffle_up(int delta, int width) { return lane() % width >= delta ? lane() - delta : -1; }
inline int shuffle_down(int delta, int width) { return lane() % width + delta < width ? lane() + delta : -1; }
inline int shuffle_xor(int bits, int width) {
    int to = lane() ^ bits;
    return to / width <= lane() / width ? to : -1;
}
inline int shuffle_index(int index, int width) { return lane() / width * width + (index & (width - 1)); }

template <class T>
T shfl_sync(Site site, uint32_t mask, T value, int index, int width = 32) {
    return shuffle(site, mask, value, shuffle_index(index, width));
}
template <class T>
T shfl_xor_sync(Site site, uint32_t mask, T value, int bits, int width = 32) {
    return shuffle(site, mask, value, shuffle_xor(bits, width));
}
template <class T>
T shfl_up_sync(Site site, uint32_t mask, T value, unsigned delta, int width = 32) {
    return shuffle(site, mask, value, shuffle_up(static_cast<int>(delta), width));
}
template <class T>
T shfl_down_sync(Site site, uint32_t mask, T value, unsigned delta, int width = 32) {
    return shuffle(site, mask, value, shuffle_down(static_cast<int>(delta), width));
}
void syncwarp(Site site, uint32_t mask = 0xffffffffu);
uint32_t ballot(Site site, uint32_t mask, bool predicate);
enum class Reduction { add, min, max, bit_and, bit_or, bit_xor };
uint32_t reduce_unsigned(Site site, uint32_t mask, uint32_t value, Reduction reduction);
int32_t reduce_signed(Site site, uint32_t mask, int32_t value, Reduction reduction);

// mma.cuh has the layouts.
void mma_bf16_16x8x16(float d[4], const uint32_t a[4], const uint32_t b[2]);
void ldmatrix_x4(uint32_t fragment[4], const void *row, bool transposed);
void cp_async_16(void *to_shared, const void *from, int bytes_valid);
void cp_async_commit();
void cp_async_wait(int pending);

// hopper.cuh has the layouts.

// A matrix of bfloat16 in global memory, and the box of it that a copy takes:
// sizes are columns, then rows.
struct __align__(64) TensorMap {
    const char *from;
    uint64_t size[2], row_bytes;
    uint32_t box[2];
};
uint32_t shared_address(const void *shared);
void barrier_init(const void *barrier, uint32_t arrivals);
void barrier_arrive(const void *barrier, uint32_t bytes);
void barrier_wait(const void *barrier, uint32_t parity);
void copy_box(void *to, const TensorMap *map, const void *barrier, int32_t x, int32_t y);
void wgmma(float *d, int columns, uint64_t a, uint64_t b, bool a_across, bool b_across);
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(int pending);

} // namespace lathe::host

#define threadIdx (::lathe::host::indices->thread)
#define blockIdx (::lathe::host::indices->block)
#define blockDim (::lathe::host::indices->block_size)
#define gridDim (::lathe::host::indices->grid_size)

// See common.cuh. A declaration is known by the address of a variable of its own.
#define SHARED(type, name, ...)                \
    static const char name##_declaration = 0; \
    typedef type name##_type __VA_ARGS__;     \
    name##_type &name = *static_cast<name##_type *>(::lathe::host::shared_memory(&name##_declaration, sizeof(name##_type)))
#define DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(::lathe::host::dynamic_shared_memory())

#define __syncthreads() ((void)::lathe::host::block_barrier(LATHE_SITE, false))
#define __syncthreads_or(predicate) (::lathe::host::block_barrier(LATHE_SITE, (predicate) != 0).count > 0)
#define __syncthreads_and(predicate) (::lathe::host::block_barrier(LATHE_SITE, (predicate) == 0).count == 0)
#define __syncthreads_count(predicate) (::lathe::host::block_barrier(LATHE_SITE, (predicate) != 0).count)
#define __syncwarp(...) (::lathe::host::syncwarp(LATHE_SITE __VA_OPT__(, ) __VA_ARGS__))
#define __shfl_sync(...) (::lathe::host::shfl_sync(LATHE_SITE, __VA_ARGS__))
#define __shfl_xor_sync(...) (::lathe::host::shfl_xor_sync(LATHE_SITE, __VA_ARGS__))
#define __shfl_up_sync(...) (::lathe::host::shfl_up_sync(LATHE_SITE, __VA_ARGS__))
#define __shfl_down_sync(...) (::lathe::host::shfl_down_sync(LATHE_SITE, __VA_ARGS__))
#define __ballot_sync(mask, predicate) (::lathe::host::ballot(LATHE_SITE, mask, (predicate) != 0))
#define __any_sync(mask, predicate) (::lathe::host::ballot(LATHE_SITE, mask, (predicate) != 0) != 0)
#define __all_sync(mask, predicate) (::lathe::host::ballot(LATHE_SITE, mask, (predicate) == 0) == 0)
#define __reduce_add_sync(mask, value) (::lathe::host::reduce(LATHE_SITE, mask, value, ::lathe::host::Reduction::add))
#define __reduce_min_sync(mask, value) (::lathe::host::reduce(LATHE_SITE, mask, value, ::lathe::host::Reduction::min))
#define __reduce_max_sync(mask, value) (::lathe::host::reduce(LATHE_SITE, mask, value, ::lathe::host::Reduction::max))
#define __reduce_and_sync(mask, value) (::lathe::host::reduce(LATHE_SITE, mask, value, ::lathe::host::Reduction::bit_and))
#define __reduce_or_sync(mask, value) (::lathe::host::reduce(LATHE_SITE, mask, value, ::lathe::host::Reduction::bit_or))
#define __reduce_xor_sync(mask, value) (::lathe::host::reduce(LATHE_SITE, mask, value, ::lathe::host::Reduction::bit_xor))

namespace lathe::host {
inline uint32_t reduce(Site site, uint32_t mask, uint32_t value, Reduction r) { return reduce_unsigned(site, mask, value, r); }
inline int32_t reduce(Site site, uint32_t mask, int32_t value, Reduction r) { return reduce_signed(site, mask, value, r); }
} // namespace lathe::host

using std::max;
using std::min;

template <class To, class From>
inline To lathe_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
inline uint32_t __float_as_uint(float x) { return lathe_bits<uint32_t>(x); }
inline int32_t __float_as_int(float x) { return lathe_bits<int32_t>(x); }
inline float __uint_as_float(uint32_t x) { return lathe_bits<float>(x); }
inline float __int_as_float(int32_t x) { return lathe_bits<float>(x); }
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32); }
inline int __popc(uint32_t x) { return __builtin_popcount(x); }
inline int __clz(int32_t x) { return x == 0 ? 32 : __builtin_clz(static_cast<uint32_t>(x)); }
inline int __ffs(int32_t x) { return __builtin_ffs(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float rsqrtf(float x) { return static_cast<float>(1 / sqrt(static_cast<double>(x))); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
template <class T>
inline T __ldg(const T *from) {
    return *from;
}
inline void __threadfence() {}
inline void __threadfence_block() {}

// Atomics: on integers alone. Threads change at barriers only, so that plain
// reads and writes are atomic.
template <class T>
inline T atomicAdd(T *to, std::common_type_t<T> value) {
    static_assert(std::is_integral_v<T>, "no atomics on floating-point numbers: their order is not fixed");
    T before = *to;
    *to = before + value;
    return before;
}
template <class T>
inline T atomicMax(T *to, std::common_type_t<T> value) {
    static_assert(std::is_integral_v<T>);
    T before = *to;
    *to = std::max(before, value);
    return before;
}
template <class T>
inline T atomicMin(T *to, std::common_type_t<T> value) {
    static_assert(std::is_integral_v<T>);
    T before = *to;
    *to = std::min(before, value);
    return before;
}
template <class T>
inline T atomicOr(T *to, std::common_type_t<T> value) {
    static_assert(std::is_integral_v<T>);
    T before = *to;
    *to = before | value;
    return before;
}
template <class T>
inline T atomicExch(T *to, std::common_type_t<T> value) {
    static_assert(std::is_integral_v<T>);
    T before = *to;
    *to = value;
    return before;
}
template <class T>
inline T atomicCAS(T *to, std::common_type_t<T> expected, std::common_type_t<T> value) {
    static_assert(std::is_integral_v<T>);
    T before = *to;
    if (before == expected) *to = value;
    return before;
}
