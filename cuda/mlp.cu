// mlp.cu: SwiGLU forward and backward, and plain sums.
//
// With s = 1/(1 + exp(-gate)): out = gate·s·up; d_up = dout·gate·s;
// d_gate = dout·up·s·(1 + gate·(1 − s)). All of it is bound by memory.
#include "kernels.h"
#include "rows.cuh"

namespace lathe {

constexpr int most_threads = 256;

template <class T>
static __global__ void __launch_bounds__(most_threads) swiglu_forward_kernel(T *out, const T *gate_up, int64_t width) {
    const int64_t row = blockIdx.x;
    const T *gate = gate_up + row * 2 * width, *up = gate + width;
    for (int64_t i = first_column(); i < width; i += column_stride()) {
        const Vec8 g = load8(gate + i, width - i), u = load8(up + i, width - i);
        Vec8 y;
        for (int j = 0; j < 8; j++) y.at[j] = g.at[j] / (1 + expf(-g.at[j])) * u.at[j];
        store8(out + row * width + i, y, width - i);
    }
}

template <class T>
static __global__ void __launch_bounds__(most_threads) swiglu_backward_kernel(T *d_gate_up, const T *dout, const T *gate_up, int64_t width) {
    const int64_t row = blockIdx.x, begin = row * 2 * width;
    for (int64_t i = first_column(); i < width; i += column_stride()) {
        const Vec8 g = load8(gate_up + begin + i, width - i), u = load8(gate_up + begin + width + i, width - i);
        const Vec8 d = load8(dout + row * width + i, width - i);
        Vec8 d_gate, d_up;
        for (int j = 0; j < 8; j++) {
            const float denominator = 1 + expf(-g.at[j]);
            const float sigmoid = 1 / denominator;
            d_gate.at[j] = d.at[j] * u.at[j] * (sigmoid * fmaf(g.at[j], 1 - sigmoid, 1));
            d_up.at[j] = d.at[j] * (g.at[j] / denominator);
        }
        store8(d_gate_up + begin + i, d_gate, width - i);
        store8(d_gate_up + begin + width + i, d_up, width - i);
    }
}

template <class T>
static __global__ void __launch_bounds__(most_threads) add_kernel(T *y, const T *x, const T *branch, int64_t n) {
    const int64_t i = first_of_four();
    if (i >= n) return;
    Vec4 sum = load4(x + i, n - i);
    const Vec4 term = load4(branch + i, n - i);
    for (int j = 0; j < 4; j++) sum.at[j] += term.at[j];
    store4(y + i, sum, n - i);
}

template <class T>
void swiglu_forward(Stream stream, T *out, const T *gate_up, int64_t rows, int64_t width) {
    LAUNCH((swiglu_forward_kernel<T>), rows, row_threads(width, most_threads), 0, stream, out, gate_up, width);
}

template <class T>
void swiglu_backward(Stream stream, T *d_gate_up, const T *dout, const T *gate_up, int64_t rows, int64_t width) {
    LAUNCH((swiglu_backward_kernel<T>), rows, row_threads(width, most_threads), 0, stream, d_gate_up, dout, gate_up, width);
}

template <class T>
void add(Stream stream, T *y, const T *x, const T *branch, int64_t n) {
    LAUNCH((add_kernel<T>), ceil_div(n, int64_t(4 * most_threads)), most_threads, 0, stream, y, x, branch, n);
}

#define INSTANTIATE(T)                                                                         \
    template void swiglu_forward<T>(Stream, T *, const T *, int64_t, int64_t);                 \
    template void swiglu_backward<T>(Stream, T *, const T *, const T *, int64_t, int64_t);     \
    template void add<T>(Stream, T *, const T *, const T *, int64_t);
INSTANTIATE(float)
INSTANTIATE(bf16)
#undef INSTANTIATE

} // namespace lathe
