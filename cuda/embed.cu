// embed.cu: looking up rows of the embedding and its gradient; gathering rows
// and scattering their gradients. All of it moves memory and adds.
#include "kernels.h"
#include "rows.cuh"

namespace lathe {

constexpr int most_threads = 256;

// Block r writes row r of out (rows,width): row index[r] of x, zeros for -1.
template <class T>
static __global__ void __launch_bounds__(most_threads) gather_kernel(T *out, const T *x, const int32_t *index, int64_t width) {
    const int64_t row = blockIdx.x;
    const int64_t from = index[row];
    for (int64_t i = first_column(); i < width; i += column_stride())
        store8(out + row * width + i, from < 0 ? zeros8() : load8(x + from * width + i, width - i), width - i);
}

// Block r adds row r of in (n,width) to row index[r] of x, none for -1.
template <class T>
static __global__ void __launch_bounds__(most_threads) scatter_add_kernel(T *x, const T *in, const int32_t *index, int64_t width) {
    const int64_t row = blockIdx.x;
    const int64_t to = index[row];
    if (to < 0) return;
    for (int64_t i = first_column(); i < width; i += column_stride()) {
        Vec8 sum = load8(x + to * width + i, width - i);
        const Vec8 term = load8(in + row * width + i, width - i);
        for (int j = 0; j < 8; j++) sum.at[j] += term.at[j];
        store8(x + to * width + i, sum, width - i);
    }
}

// Block (u, c) adds rows of dout to four columns per thread of row ids[u] of
// gradient. Rows are loaded four at a time and added one after the other.
template <class T>
static __global__ void __launch_bounds__(most_threads)
    embed_backward_kernel(float *gradient, const T *dout, const int32_t *ids, const int32_t *starts, const int32_t *order, int64_t hidden) {
    const int64_t column = 4 * (static_cast<int64_t>(threadIdx.x) + static_cast<int64_t>(blockIdx.y) * blockDim.x), left = hidden - column;
    if (left <= 0) return;
    float *to = gradient + ids[blockIdx.x] * hidden + column;
    const int32_t end = starts[blockIdx.x + 1];
    Vec4 sum = load4(to, left);
    for (int32_t i = starts[blockIdx.x]; i < end; i += 4) {
        Vec4 term[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < end) term[k] = load4(dout + order[i + k] * hidden + column, left);
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < end)
                for (int j = 0; j < 4; j++) sum.at[j] += term[k].at[j];
    }
    store4(to, sum, left);
}

template <class T>
void gather_rows(Stream stream, T *out, const T *x, const int32_t *index, int64_t n, int64_t width) {
    LAUNCH((gather_kernel<T>), n, row_threads(width, most_threads), 0, stream, out, x, index, width);
}

template <class T>
void scatter_add_rows(Stream stream, T *x, const T *in, const int32_t *index, int64_t n, int64_t width) {
    LAUNCH((scatter_add_kernel<T>), n, row_threads(width, most_threads), 0, stream, x, in, index, width);
}

template <class T>
void embed_forward(Stream stream, T *out, const T *table, const int32_t *tokens, int64_t rows, int64_t hidden) {
    gather_rows(stream, out, table, tokens, rows, hidden);
}

template <class T>
void embed_backward(Stream stream, float *gradient, const T *dout, const int32_t *ids, const int32_t *starts, const int32_t *order,
                    int64_t distinct, int64_t hidden) {
    const unsigned threads = row_threads(hidden, 64); // few per block: many columns run beside each other
    const dim3 grid(distinct, ceil_div(hidden, int64_t(4 * threads)));
    LAUNCH((embed_backward_kernel<T>), grid, threads, 0, stream, gradient, dout, ids, starts, order, hidden);
}

#define INSTANTIATE(T)                                                                                                     \
    template void embed_forward<T>(Stream, T *, const T *, const int32_t *, int64_t, int64_t);                             \
    template void embed_backward<T>(Stream, float *, const T *, const int32_t *, const int32_t *, const int32_t *, int64_t, \
                                    int64_t);                                                                              \
    template void gather_rows<T>(Stream, T *, const T *, const int32_t *, int64_t, int64_t);                               \
    template void scatter_add_rows<T>(Stream, T *, const T *, const int32_t *, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(bf16)
#undef INSTANTIATE

} // namespace lathe
