// hopper.cuh: what compute capability 9.0 adds for products, as functions:
// barriers in shared memory (mbarrier), copies of boxes of a matrix (TMA) and
// products of warpgroups (wgmma).
//
// The names and numbers are those of the PTX ISA (9.0: sections 9.7.9.25 on
// cp.async.bulk.tensor, 9.7.13.15 on mbarrier, 9.7.15 on wgmma) and of
// cuTensorMapEncodeTiled in cuda.h. wgmma exists for sm_90a alone, so these
// functions are for files that the Makefile compiles for it (LATHE_SM90A). On
// the host (LATHE_HOST) host/hopper.cpp does what the same sections say.
#pragma once

#include "mma.cuh"

#ifdef LATHE_HOST
#define GRID_CONSTANT
#else
#include <cuda.h>
#define GRID_CONSTANT __grid_constant__
#endif

namespace lathe {

// Elements of bfloat16 in a row of a swizzled box: 128 bytes.
constexpr int swizzled_columns = 64;
// Bytes after which the swizzling of 128 bytes repeats: 8 rows of 128. What is
// swizzled starts at a multiple of it (PTX ISA, matrix descriptor: else the
// descriptor would need a base offset).
constexpr int swizzled_period = 1024;

// A matrix in global memory and the box of it that one copy takes, as the copy
// unit is told of them. It is passed to a kernel by value, as GRID_CONSTANT const
// TensorMap.
#ifdef LATHE_HOST
using TensorMap = host::TensorMap;
#else
using TensorMap = CUtensorMap;
#endif

// The map of a row-major matrix (rows, columns; ld) in boxes of swizzled_columns
// columns and box_rows rows, at most 256. The matrix and all its rows begin at
// multiples of 16 bytes; it is not empty.
TensorMap tensor_map(const bf16 *from, int64_t columns, int64_t rows, int64_t ld, int box_rows);

// ---------------------------------------------------------------- barriers

// A barrier goes through phases, numbered from 0. A phase ends when as many
// arrivals as it was made for and the bytes that were announced have come.
struct alignas(8) Barrier {
    uint64_t state;
};

__device__ __forceinline__ void barrier_init(Barrier *barrier, uint32_t arrivals) {
#ifdef LATHE_HOST
    host::barrier_init(barrier, arrivals);
#else
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
#endif
}

// After a thread's barrier_init and before the block's __syncthreads: the copy
// unit and the other threads see the barriers as they are.
__device__ __forceinline__ void barriers_ready() {
#ifndef LATHE_HOST
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ __forceinline__ void barrier_arrive(Barrier *barrier) {
#ifdef LATHE_HOST
    host::barrier_arrive(barrier, 0);
#else
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}

// Arrives and announces bytes that copies will bring in the same phase.
__device__ __forceinline__ void barrier_arrive_expecting(Barrier *barrier, uint32_t bytes) {
#ifdef LATHE_HOST
    host::barrier_arrive(barrier, bytes);
#else
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
#endif
}

// Waits until the phase of this parity has ended: of the phase that is under way
// and the one before it, the one whose number has the parity. So a barrier that
// was just made lets a wait for parity 1 through.
__device__ __forceinline__ void barrier_wait(Barrier *barrier, uint32_t parity) {
#ifdef LATHE_HOST
    host::barrier_wait(barrier, parity);
#else
    uint32_t ended;
    do {
        asm volatile("{\n.reg .pred ended;\nmbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\nselp.u32 %0, 1, 0, ended;\n}"
                     : "=r"(ended)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
    } while (ended == 0);
#endif
}

// ---------------------------------------------------------------- copies

// Starts to copy the box of the map's matrix whose first element is in column x
// of row y to shared memory, swizzled, and lets its bytes arrive at the
// barrier. What lies outside the matrix becomes 0 and counts among the bytes.
//
// Row r of the box begins 128·r bytes after `to_shared`, a multiple of
// swizzled_period, with its eight chunks of 16 bytes permuted: chunk c is
// stored as chunk c XOR r mod 8 (CU_TENSOR_MAP_SWIZZLE_128B, "swizzle 16B chunks
// within 128B span").
__device__ __forceinline__ void copy_box(void *to_shared, const TensorMap *map, Barrier *barrier, int32_t x, int32_t y) {
#ifdef LATHE_HOST
    host::copy_box(to_shared, map, barrier, x, y);
#else
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
                     shared_address(to_shared)),
                 "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y)
                 : "memory");
#endif
}

// ---------------------------------------------------------------- products of warpgroups

#ifdef LATHE_HOST
__device__ inline uint32_t shared_address(const void *shared) { return host::shared_address(shared); }
#endif

// What wgmma is told of an operand in shared memory (PTX ISA, "Matrix
// Descriptor Format"): bits 0-13 the address, 16-29 the leading and 32-45 the
// stride dimension's byte offset, all in units of 16 bytes, 62-63 the swizzling,
// 1 for 128 bytes. The operand begins at a multiple of swizzled_period.
//
// With T = 8 elements of bfloat16 in 16 bytes, the ISA's canonical layouts under
// this swizzling are ("Canonical Layouts"; the same in CUTLASS,
// mma_traits_sm90_gmma.hpp, make_gmma_desc):
//
//   K-major   ((8,m),(T,2k)) : ((8T,stride),(1,T))
//             Rows of the operand's own index are 128 bytes apart, groups of 8 of
//             them `stride`; the leading offset is not used and assumed 1.
//   MN-major  ((T,8,m),(8,k)) : ((1,T,leading),(8T,stride))
//             Rows of k are 128 bytes apart, groups of 8 of them `stride`, and
//             the next 64 of the operand's own index `leading`.
//
// Both are boxes of 64 elements across as copy_box leaves them, with a stride of
// 1024: K-major one box along k of all the operand's rows, MN-major one box of 64
// rows of k for each 64 of the operand's index, `leading` apart. (ThunderKittens
// gives its transposed tiles the same two numbers: 1024, and 2048 for each 16
// rows of k.) The next 16 of k are then 32 bytes further in a K-major operand,
// 2048 in an MN-major one; the swizzling goes by the address, so it stays right.
__device__ __forceinline__ uint64_t matrix_descriptor(const void *shared, uint32_t leading_bytes) {
    constexpr uint64_t stride_bytes = swizzled_period, swizzle_128 = 1;
    return (shared_address(shared) & 0x3ffff) >> 4 | uint64_t(leading_bytes >> 4) << 16 | stride_bytes >> 4 << 32 | swizzle_128 << 62;
}

// Adds the bytes of a step along k to a descriptor.
__device__ __forceinline__ uint64_t matrix_further(uint64_t descriptor, uint32_t bytes) { return descriptor + (bytes >> 4); }

// Before a warpgroup's first product, and whenever its accumulators were
// touched since the last.
__device__ __forceinline__ void wgmma_fence() {
#ifdef LATHE_HOST
    host::wgmma_fence();
#else
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

// Says that accumulators are read and written here, so that the compiler leaves
// on its side of this place whatever else it does with them: instructions in
// flight write them without its knowing.
template <int N>
__device__ __forceinline__ void settle(float (&d)[N]) {
#ifndef LATHE_HOST
#pragma unroll
    for (int i = 0; i < N; i++) {
        asm volatile("" : "+f"(d[i])::"memory");
    }
#else
    (void)d;
#endif
}

// Makes a group of the products since the last group.
__device__ __forceinline__ void wgmma_commit() {
#ifdef LATHE_HOST
    host::wgmma_commit();
#else
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Waits until at most N of this warp's latest groups are under way. Those that
// have finished have read their operands and written their accumulators.
template <int N>
__device__ __forceinline__ void wgmma_wait() {
#ifdef LATHE_HOST
    host::wgmma_wait(N);
#else
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#endif
}

// Starts d (64,N) += a (64,16) · b (16,N), bfloat16 to float32, by the four
// warps of a warpgroup: PTX wgmma.mma_async.sync.aligned.m64nNk16. A_ACROSS and
// B_ACROSS say that an operand is MN-major. Warp w of the four has rows 16w …
// 16w+15, in fragments like those of mma_bf16_16x8x16: with g = lane/4 and
// t = lane%4, d[4j+0,1] = D[16w+g][8j+2t,2t+1] and d[4j+2,3] = D[16w+g+8][…]
// (figure "WGMMA .m64nNk16 register fragment layout for accumulator matrix D").
//
// N is 16, 64, 128 or 256, by the size of d. Nothing may touch d until the
// group that the product becomes part of has been waited for.
#ifdef LATHE_HOST

template <bool A_ACROSS, bool B_ACROSS, int HALF>
__device__ __forceinline__ void wgmma(float (&d)[HALF], uint64_t a, uint64_t b) {
    static_assert(HALF == 8 || HALF == 32 || HALF == 64 || HALF == 128, "N is 16, 64, 128 or 256");
    host::wgmma(d, 2 * HALF, a, b, A_ACROSS, B_ACROSS);
}

#else

// The accumulators as operands, by their number.
#define LATHE_D_7 "%0,%1,%2,%3,%4,%5,%6,%7"
#define LATHE_D_31 \
    LATHE_D_7 ",%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define LATHE_D_63                                                                                  \
    LATHE_D_31 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51"   \
               ",%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define LATHE_D_127                                                                                 \
    LATHE_D_63 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"                   \
               ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"                   \
               ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"       \
               ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define LATHE_F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LATHE_F8(i) LATHE_F4(i), LATHE_F4(i + 4)
#define LATHE_F32(i) LATHE_F8(i), LATHE_F8(i + 8), LATHE_F8(i + 16), LATHE_F8(i + 24)
#define LATHE_WGMMA(n, half, numbers, a_at, b_at, a_across_at, b_across_at, ...)                                                          \
    template <bool A_ACROSS, bool B_ACROSS>                                                                                               \
    __device__ __forceinline__ void wgmma(float (&d)[half], uint64_t a, uint64_t b) {                                                     \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32.bf16.bf16 {" numbers "}, %" a_at ", %" b_at ", 1, 1, 1, %" a_across_at \
                     ", %" b_across_at ";"                                                                                                \
                     : __VA_ARGS__                                                                                                        \
                     : "l"(a), "l"(b), "n"(int(A_ACROSS)), "n"(int(B_ACROSS)));                                                           \
    }
LATHE_WGMMA("16", 8, LATHE_D_7, "8", "9", "10", "11", LATHE_F8(0))
LATHE_WGMMA("64", 32, LATHE_D_31, "32", "33", "34", "35", LATHE_F32(0))
LATHE_WGMMA("128", 64, LATHE_D_63, "64", "65", "66", "67", LATHE_F32(0), LATHE_F32(32))
LATHE_WGMMA("256", 128, LATHE_D_127, "128", "129", "130", "131", LATHE_F32(0), LATHE_F32(32), LATHE_F32(64), LATHE_F32(96))
#undef LATHE_WGMMA
#undef LATHE_F32
#undef LATHE_F8
#undef LATHE_F4
#undef LATHE_D_127
#undef LATHE_D_63
#undef LATHE_D_31
#undef LATHE_D_7

#endif

} // namespace lathe
