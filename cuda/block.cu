// block.cu: the two halves of a block of the model but for attention between
// them. Passes over sequences, prefill and decoding all go through them, so
// that a row gets the same bits in each.
//
//     input  = stream + branch          the residual stream
//     normed = norm1(input)
//     qkv    = rope(normed·Wqkvᵀ + b)    queries and keys normed before, in some models
//     mixed  = attention(qkv)
//     middle = input + mixed·Woᵀ
//     normed = norm2(middle)
//     branch = (silu(gate)·up)·Wdownᵀ   with gate and up = normed·Wguᵀ
//
// The sum with a branch is fused with the norm that follows it, so a block
// leaves its last branch to the next block.
#include <algorithm>

#include "model.h"

namespace lathe {

template <class T>
void project(Engine<T> &e, const Layer<T> &l, const Activations<T> &a, const T *stream, const T *branch, const int32_t *positions,
             const CacheRows<T> &cache, int64_t rows, T *low) {
    const eng_config &c = e.config;
    rmsnorm_forward<T>(e.stream, a.normed1, a.rstd1, branch ? a.input : nullptr, stream, branch, l.input_norm.weight, rows, c.hidden,
                       c.rms_eps);
    apply(e, a.qkv, a.normed1, l.qkv, rows, low);
    rope_forward<T>(e.stream, a.qkv, a.rstd_heads, a.before, l.q_norm.weight, l.k_norm.weight, l.frequencies, positions, cache,
                    rows, c.heads, c.kv_heads, c.head_dim, c.rms_eps);
}

template <class T>
void gates(Engine<T> &e, const Layer<T> &l, const Activations<T> &a, int64_t from, int64_t rows, T *low) {
    apply(e, a.gate_up, a.normed2 + from * e.config.hidden, l.gate_up, rows, low);
    swiglu_forward<T>(e.stream, a.mlp, a.gate_up, rows, e.config.intermediate);
}

template <class T>
void combine(Engine<T> &e, const Layer<T> &l, const Activations<T> &a, T *branch, int64_t rows, T *low, int64_t at_once) {
    const eng_config &c = e.config;
    apply(e, branch, a.mixed, l.output, rows, low);
    rmsnorm_forward<T>(e.stream, a.normed2, a.rstd2, a.middle, a.input, branch, l.post_norm.weight, rows, c.hidden, c.rms_eps);
    for (int64_t from = 0; at_once > 0 && from < rows; from += at_once) {
        const int64_t count = std::min(at_once, rows - from);
        gates(e, l, a, from, count, low);
        apply(e, branch + from * c.hidden, a.mlp, l.down, count, low);
    }
}

#define INSTANTIATE(T) \
    template void project(Engine<T> &, const Layer<T> &, const Activations<T> &, const T *, const T *, const int32_t *, \
                          const CacheRows<T> &, int64_t, T *); \
    template void gates(Engine<T> &, const Layer<T> &, const Activations<T> &, int64_t, int64_t, T *); \
    template void combine(Engine<T> &, const Layer<T> &, const Activations<T> &, T *, int64_t, T *, int64_t);
INSTANTIATE(float)
INSTANTIATE(bf16)

} // namespace lathe
