// optim.cu: the gradients' norm, AdamW, and conversions of whole arrays.
//
// AdamW (Loshchilov and Hutter, 2019) with the clipped gradient ĝ = scale·g, in
// the operations of pkg/vec.AdamW one by one, so that equal gradients give
// equal bits:
//   m ← β1·m + (1−β1)·ĝ;  v ← β2·v + (1−β2)·ĝ²;
//   w ← w·(1 − lr·decay) − lr/c1 · m/(√v/√c2 + ε).
// It moves 30 bytes per element with float32 state and bfloat16 weights, 16
// with bfloat16 state.
#include <math.h>

#include "kernels.h"
#include "philox.cuh"
#include "rows.cuh"

namespace lathe {

constexpr int threads = 256;
constexpr int64_t segment = 65536;

int64_t norm_segment() { return segment; }

// Block s sums the squares of segment s in float64.
static __global__ void __launch_bounds__(threads) squares_kernel(double *partial, const float *x, int64_t n) {
    SHARED(double, scratch, [32]);
    const int64_t begin = blockIdx.x * segment, left = n - begin < segment ? n - begin : segment;
    double sum = 0;
    for (int64_t i = first_column(); i < left; i += column_stride()) {
        const Vec8 v = load8(x + begin + i, left - i);
        for (int j = 0; j < 8; j++) sum = fma(static_cast<double>(v.at[j]), static_cast<double>(v.at[j]), sum);
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block; its first thread adds what all have loaded.
static __global__ void __launch_bounds__(threads) add_squares_kernel(double *total, const double *partial, int64_t n) {
    SHARED(double, loaded, [threads]);
    double sum = threadIdx.x == 0 ? *total : 0;
    for (int64_t begin = 0; begin < n; begin += threads) {
        const int64_t i = begin + threadIdx.x;
        if (i < n) loaded[threadIdx.x] = partial[i];
        __syncthreads();
        if (threadIdx.x == 0)
            for (int64_t k = 0; k < threads && begin + k < n; k++) sum += loaded[k];
        __syncthreads();
    }
    if (threadIdx.x == 0) *total = sum;
}

// The settings as pkg/vec.AdamWParams.factors has them.
struct Factors {
    float beta1, one_minus_beta1, beta2, one_minus_beta2, root_scale, epsilon, decay, negated_step;
    double max_grad_norm;
    uint32_t key[2], sample;
};

static Factors factors(const AdamW &s) {
    return {s.beta1, 1 - s.beta1, s.beta2, 1 - s.beta2, 1 / sqrtf(s.correction2), s.epsilon, 1 - s.learning_rate * s.weight_decay,
            -(s.learning_rate / s.correction1), s.max_grad_norm, {s.key[0], s.key[1]}, s.sample};
}

// The random bits that round element `at` of all parameters: two elements share
// a block of the stream, in which each has two words.
struct Noise {
    uint32_t weight, first, second;
};
__device__ inline Noise noise(const PhiloxBlock &block, int64_t at) {
    const uint32_t low = at & 1 ? block.word[2] : block.word[0], high = at & 1 ? block.word[3] : block.word[1];
    return {low & 0xffff, low >> 16, high & 0xffff};
}

__device__ inline float round_state(float x, uint32_t, float) { return x; }
__device__ inline float round_state(float x, uint32_t random, bf16) { return to_float(round_randomly(x, random)); }

// Four elements per thread. The weights come from master, or, without, from
// weights themselves.
template <class T, class S>
static __global__ void __launch_bounds__(threads)
    adamw_kernel(T *weights, float *master, S *exp_avg, S *exp_avg_sq, const float *gradient, const double *total, Factors f, int64_t first,
                 int64_t n) {
    constexpr bool random = sizeof(S) == 2;
    const int64_t i = first_of_four(), left = n - i;
    if (left <= 0) return;
    const double norm = sqrt(*total);
    if (!isfinite(norm)) return;
    const float scale = f.max_grad_norm > 0 ? static_cast<float>(fmin(1.0, f.max_grad_norm / (norm + 1e-6))) : 1.0f;

    Vec4 m = load4(exp_avg + i, left), v = load4(exp_avg_sq + i, left);
    Vec4 w = master != nullptr ? load4(master + i, left) : load4(weights + i, left);
    const Vec4 g = load4(gradient + i, left);
    PhiloxBlock block;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float grad = g.at[j] * scale;
        const float mj = fmaf(m.at[j], f.beta1, grad * f.one_minus_beta1);
        const float vj = fmaf(v.at[j], f.beta2, grad * f.one_minus_beta2 * grad);
        const float update = mj / fmaf(sqrtf(vj), f.root_scale, f.epsilon);
        w.at[j] = fmaf(f.negated_step, update, w.at[j] * f.decay);
        m.at[j] = mj;
        v.at[j] = vj;
        if (random) {
            const int64_t at = first + i + j;
            if (j == 0 || (at & 1) == 0) block = philox(f.key[0], f.key[1], f.sample, static_cast<uint64_t>(at) / 2);
            const Noise z = noise(block, at);
            m.at[j] = round_state(mj, z.first, S());
            v.at[j] = round_state(vj, z.second, S());
            w.at[j] = round_state(w.at[j], z.weight, T());
        }
    }
    store4(exp_avg + i, m, left);
    store4(exp_avg_sq + i, v, left);
    if (master != nullptr) store4(master + i, w, left);
    store4(weights + i, w, left);
}

template <class To, class From>
static __global__ void __launch_bounds__(threads) convert_kernel(To *to, const From *from, int64_t n) {
    const int64_t i = first_of_four();
    if (i < n) store4(to + i, load4(from + i, n - i), n - i);
}

static int64_t vector_blocks(int64_t n) { return ceil_div(n, int64_t(4 * threads)); }

void squares(Stream stream, double *partial, const float *x, int64_t n) {
    LAUNCH(squares_kernel, ceil_div(n, segment), threads, 0, stream, partial, x, n);
}

void add_squares(Stream stream, double *total, const double *partial, int64_t n) {
    if (n > 0) LAUNCH(add_squares_kernel, 1, threads, 0, stream, total, partial, n);
}

template <class T, class S>
void adamw(Stream stream, T *weights, float *master, S *exp_avg, S *exp_avg_sq, const float *gradient, const double *total, AdamW settings,
           int64_t first, int64_t n) {
    LAUNCH((adamw_kernel<T, S>), vector_blocks(n), threads, 0, stream, weights, master, exp_avg, exp_avg_sq, gradient, total,
           factors(settings), first, n);
}

template <class To, class From>
void convert(Stream stream, To *to, const From *from, int64_t n) {
    LAUNCH((convert_kernel<To, From>), vector_blocks(n), threads, 0, stream, to, from, n);
}

void add_float(Stream stream, float *y, const float *x, int64_t n) { add<float>(stream, y, y, x, n); }

#define INSTANTIATE(A, B)                                                                                                           \
    template void adamw<A, B>(Stream, A *, float *, B *, B *, const float *, const double *, AdamW, int64_t, int64_t); \
    template void convert<A, B>(Stream, A *, const B *, int64_t);
INSTANTIATE(float, float)
INSTANTIATE(float, bf16)
INSTANTIATE(bf16, float)
INSTANTIATE(bf16, bf16)
#undef INSTANTIATE

} // namespace lathe
