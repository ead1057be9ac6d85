// test_hopper.cu: hopper.cuh against what it says: where the copy unit puts the
// elements of a box, and which elements wgmma multiplies. The same on a GPU and
// emulated, so that a mistake in one of them shows on the other.
#include "../gemm.h"
#include "harness.h"

#if defined(LATHE_SM90A) || defined(LATHE_HOST)

#include "../hopper.cuh"

namespace lathe::test {

namespace {

// What on a GPU without these instructions is left out; the emulated device has them.
bool left_out(Test &t) {
    const char *obstacle = wgmma_obstacle();
#ifdef LATHE_HOST
    t.expect(obstacle == nullptr, "the emulated device has wgmma");
#else
    if (obstacle != nullptr) printf("    left out: %s\n", obstacle);
#endif
    return obstacle != nullptr;
}

constexpr int shared_bytes = swizzled_period + 5 * 64 * 128 + 64; // operands of 64 × 64 and 256 × 64, and a barrier

// The first place in shared memory where swizzling may begin; its barrier lies behind what there is for boxes.
__device__ char *first_place(char *unaligned) {
    return unaligned + (swizzled_period - shared_address(unaligned) % swizzled_period) % swizzled_period;
}
__device__ Barrier *barrier_behind(char *shared) { return reinterpret_cast<Barrier *>(shared + 5 * 64 * 128); }

// Copies one box and shows shared memory as it is then. 64 threads.
template <int ROWS>
__global__ void copy_kernel(uint16_t *out, GRID_CONSTANT const TensorMap map, int32_t x, int32_t y) {
    DYNAMIC_SHARED(char, unaligned);
    char *shared = first_place(unaligned);
    Barrier *barrier = barrier_behind(shared);
    if (threadIdx.x == 0) {
        barrier_init(barrier, 1);
        barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        barrier_arrive_expecting(barrier, ROWS * 128);
        copy_box(shared, &map, barrier, x, y);
    }
    barrier_wait(barrier, 0);
    for (int row = 0; row < ROWS; row++) out[row * 64 + threadIdx.x] = reinterpret_cast<const uint16_t *>(shared)[row * 64 + threadIdx.x];
}

template <int ROWS>
void check_copy(Test &t, const std::vector<bf16> &matrix, int64_t columns, int64_t rows, int64_t ld, int32_t x, int32_t y) {
    t.describe("a box of %d rows at column %d, row %d of %lld x %lld", ROWS, x, y, static_cast<long long>(rows),
               static_cast<long long>(columns));
    Buffer<bf16> device(matrix);
    Buffer<uint16_t> out(ROWS * 64);
    LAUNCH((copy_kernel<ROWS>), 1, 64, shared_bytes, t.stream, out, (tensor_map(device.get(), columns, rows, ld, ROWS)), x, y);
    std::vector<uint16_t> want(ROWS * 64);
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < 64; column++) {
            const bool inside = x + column < columns && y + row < rows;
            const int chunk = column / 8 ^ row % 8;
            want[row * 64 + chunk * 8 + column % 8] = inside ? matrix[(y + row) * ld + x + column].bits : 0;
        }
    t.equal("shared memory", out.read(), want);
}

// d (64,N) = one product over 16 of k, from step·16 on, of a (64 of its index, 64
// of k) and b (N, 64), either of which may lie across. One warpgroup.
template <int N, bool A_ACROSS, bool B_ACROSS>
__global__ void __launch_bounds__(128) wgmma_kernel(float *d, GRID_CONSTANT const TensorMap a_map, GRID_CONSTANT const TensorMap b_map,
                                                    int step) {
    DYNAMIC_SHARED(char, unaligned);
    char *a_place = first_place(unaligned), *b_place = a_place + 64 * 128;
    Barrier *barrier = barrier_behind(a_place);
    if (threadIdx.x == 0) {
        barrier_init(barrier, 1);
        barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        barrier_arrive_expecting(barrier, (64 + N) * 128);
        copy_box(a_place, &a_map, barrier, 0, 0);
        for (int i = 0; i < (B_ACROSS ? N / 64 : 1); i++) copy_box(b_place + i * 64 * 128, &b_map, barrier, i * 64, 0);
    }
    barrier_wait(barrier, 0);
    const uint64_t a = matrix_further(matrix_descriptor(a_place, 64 * 128), step * (A_ACROSS ? 2048 : 32));
    const uint64_t b = matrix_further(matrix_descriptor(b_place, 64 * 128), step * (B_ACROSS ? 2048 : 32));
    const int lane = lane_index(), row = warp_index() * 16 + lane / 4, column = lane % 4 * 2;
    float acc[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; i++) acc[i] = d[(row + i / 2 % 2 * 8) * N + column + i / 4 * 8 + i % 2];
    wgmma_fence();
    wgmma<A_ACROSS, B_ACROSS>(acc, a, b);
    wgmma_commit();
    wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < N / 2; i++) d[(row + i / 2 % 2 * 8) * N + column + i / 4 * 8 + i % 2] = acc[i];
}

template <int N, bool A_ACROSS, bool B_ACROSS>
void check_wgmma(Test &t) {
    Random random(41);
    const std::vector<bf16> a = random.values<bf16>(64 * 64), b = random.values<bf16>(N * 64);
    const std::vector<float> before = random.values<float>(64 * N);
    Buffer<bf16> device_a(a), device_b(b);
    for (int step = 0; step < 4; step++) {
        t.describe("n = %d, a %s, b %s, step %d", N, A_ACROSS ? "across" : "along k", B_ACROSS ? "across" : "along k", step);
        Buffer<float> d(before);
        LAUNCH((wgmma_kernel<N, A_ACROSS, B_ACROSS>), 1, 128, shared_bytes, t.stream, d, (tensor_map(device_a.get(), 64, 64, 64, 64)),
               (tensor_map(device_b.get(), B_ACROSS ? N : 64, B_ACROSS ? 64 : N, B_ACROSS ? N : 64, B_ACROSS ? 64 : N)), step);
        std::vector<double> want = widen(before);
        for (int row = 0; row < 64; row++)
            for (int column = 0; column < N; column++)
                for (int k = step * 16; k < step * 16 + 16; k++)
                    want[row * N + column] += double(to_float(a[A_ACROSS ? k * 64 + row : row * 64 + k])) *
                                              to_float(b[B_ACROSS ? k * N + column : column * 64 + k]);
        // 16 products of up to 3, added in an unknown order, cut to 24 bits or a few less.
        t.close("d", d.read(), want, {0, 16 * 3 * 4 * unit_roundoff<float>()});
    }
}

} // namespace

TEST(hopper_copies_boxes_swizzled) {
    if (left_out(t)) return;
    Random random(40);
    const int64_t columns = 150, rows = 90, ld = 152;
    const std::vector<bf16> matrix = random.values<bf16>(rows * ld);
    check_copy<64>(t, matrix, columns, rows, ld, 0, 0);
    check_copy<64>(t, matrix, columns, rows, ld, 64, 16);
    check_copy<64>(t, matrix, columns, rows, ld, 128, 64); // reaches beyond both ends
    check_copy<16>(t, matrix, columns, rows, ld, 3, 88);   // from any element
    check_copy<16>(t, matrix, columns, rows, ld, 0, 96);   // wholly beyond
    check_copy<256>(t, matrix, columns, rows, ld, 64, 0);  // the highest
}

TEST(hopper_wgmma_is_a_product) {
    if (left_out(t)) return;
    check_wgmma<16, false, false>(t);
    check_wgmma<16, true, false>(t);
    check_wgmma<64, false, false>(t);
    check_wgmma<64, false, true>(t);
    check_wgmma<64, true, true>(t);
    check_wgmma<128, false, false>(t);
    check_wgmma<128, false, true>(t);
    check_wgmma<128, true, true>(t);
    check_wgmma<256, false, false>(t);
    check_wgmma<256, false, true>(t);
    check_wgmma<256, true, true>(t);
}

#if defined(LATHE_HOST) && !defined(LATHE_THREAD_SANITIZER)

namespace {

enum Mistake {
    none,
    unaligned_place,
    wrong_bytes,
    no_wait,
    no_fence,
    no_group_wait,
    no_commit,
    half_a_warpgroup,
    given_back_early,
    mistakes
};

// Two stages of one product each through one place in shared memory, with one
// mistake, if any.
__global__ void mistaken_kernel(float *out, GRID_CONSTANT const TensorMap map, int mistake) {
    DYNAMIC_SHARED(char, unaligned);
    char *place = first_place(unaligned);
    Barrier *full = barrier_behind(place), *empty = full + 1;
    if (threadIdx.x == 0) {
        barrier_init(full, 1);
        barrier_init(empty, 4);
    }
    __syncthreads();
    const int warp = warp_index();
    if (warp == 4) {
        for (int stage = 0; lane_index() == 0 && stage < 2; stage++) {
            barrier_wait(empty, static_cast<uint32_t>(stage & 1) ^ 1);
            barrier_arrive_expecting(full, mistake == wrong_bytes ? 8 : 64 * 128);
            copy_box(place + (mistake == unaligned_place ? 128 : 0), &map, full, 0, stage * 64);
        }
        return;
    }
    float acc[8] = {};
    for (int stage = 0; stage < 2; stage++) {
        if (mistake != no_wait) barrier_wait(full, static_cast<uint32_t>(stage));
        if (mistake != no_fence) wgmma_fence();
        if (mistake != half_a_warpgroup || warp < 2) wgmma<false, false>(acc, matrix_descriptor(place, 16), matrix_descriptor(place, 16));
        if (mistake != no_commit) wgmma_commit();
        if (mistake == given_back_early && lane_index() == 0) barrier_arrive(empty);
        if (mistake == given_back_early && stage == 0) barrier_wait(full, 1);
        if (mistake != no_group_wait) wgmma_wait<0>();
        if (mistake != given_back_early && mistake != no_wait && lane_index() == 0) barrier_arrive(empty);
    }
    for (int i = 0; i < 8; i++) out[threadIdx.x * 8 + i] = acc[i];
}

} // namespace

TEST(hopper_mistakes_are_found) {
    Random random(42);
    std::vector<bf16> matrix = random.values<bf16>(128 * 64);
    std::vector<double> want;
    for (int thread = 0; thread < 128; thread++)
        for (int i = 0; i < 8; i++) {
            const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
            double sum = 0;
            for (int stage = 0; stage < 2; stage++)
                for (int k = 0; k < 16; k++)
                    sum += double(to_float(matrix[(stage * 64 + row) * 64 + k])) * to_float(matrix[(stage * 64 + column) * 64 + k]);
            want.push_back(sum);
        }
    const char *names[mistakes] = {"none",     "a box out of place",            "another number of bytes", "a box that is not waited for",
                                   "no fence", "a group that is not waited for", "no group",               "two warps of four",
                                   "a stage given back early"};
    for (int mistake = none; mistake < mistakes; mistake++) {
        t.describe("%s", names[mistake]);
        Buffer<bf16> device(matrix);
        Buffer<float> out(128 * 8);
        bool failed = false;
        std::vector<float> got(out.size(), NAN);
        host::quiet(true);
        try {
            LAUNCH(mistaken_kernel, 1, 160, shared_bytes, t.stream, out, (tensor_map(device.get(), 64, 128, 64, 64)), mistake);
            got = out.read();
        } catch (const CudaError &) {
            failed = true;
        }
        host::quiet(false);
        host::reset();
        double most = 0;
        for (size_t i = 0; i < got.size(); i++) most = std::fmax(most, std::isnan(got[i]) ? INFINITY : std::fabs(got[i] - want[i]));
        if (mistake == none) t.expect(!failed && most < 1e-4, "a kernel without a mistake is right");
        else t.expect(failed || most > 1e-2, "is not found");
    }
}

#endif

} // namespace lathe::test

#endif
