// backward.cu: eng_backward: from the derivatives by each target's
// log-probability, entropy and value to the gradients of what is trained.
//
// Products over rows add up in the order of rows, gradients of norms and biases
// block of rows by block of rows, and the embedding's token by token, each from
// what the gradient holds already. So a batch leaves the bits that its
// sequences do in several calls.
#include <string.h>

#include <algorithm>

#include "model.h"

namespace lathe {

namespace {

// Rows by blocks: those of the pass, or the head's.
struct Blocks {
    const int32_t *rows;
    int64_t count;
    float *partials;
};

// d_stream += the gradient through a norm, given that of its output; x is what was normed.
template <class T>
void norm_backward(Engine<T> &e, T *d_stream, const T *d_normed, const T *x, const float *rstd, const Vector<T> &norm, const Blocks &b) {
    float *partials = norm.gradient ? b.partials : nullptr;
    rmsnorm_backward<T>(e.stream, d_stream, partials, d_normed, x, rstd, norm.weight, b.rows, b.count, e.config.hidden);
    if (norm.gradient) add_partials(e.stream, norm.gradient, partials, b.count, e.config.hidden);
}

// One norm again, with the bits that it had.
template <class T>
void norm_again(Engine<T> &e, T *normed, const T *x, const Vector<T> &norm) {
    rmsnorm_forward<T>(e.stream, normed, nullptr, nullptr, x, nullptr, norm.weight, e.kept.plan.rows, e.config.hidden, e.config.rms_eps);
}

// The targets' coefficients, gathered as the targets are. Nothing is copied of a null.
template <class T>
void upload_coefficients(Engine<T> &e, const float *of_tokens[3]) {
    const Plan &plan = e.kept.plan;
    float *device[3] = {e.buffers.head.logprobs, e.buffers.head.entropy, e.buffers.head.values};
    for (int kind = 0; kind < 3; kind++) {
        if (!of_tokens[kind]) continue;
        float *gathered = e.pass_values.data() + kind * plan.targets;
        for (int64_t i = 0; i < plan.targets; i++)
            gathered[i] = plan.target_tokens[i] < 0 ? 0 : of_tokens[kind][plan.target_tokens[i]];
        to_device(e, device[kind], gathered, plan.targets);
    }
}

// Through the head and the last norm, to the gradient of the residual stream
// after the last block.
template <class T>
void head_gradients(Engine<T> &e, bool of_logprob, bool of_entropy, bool of_value) {
    const eng_config &c = e.config;
    const Plan &plan = e.kept.plan;
    const HeadBuffers<T> &b = e.buffers.head;
    const Model<T> &m = e.model;
    const bool logits = of_logprob || of_entropy;
    set_zero(e, e.buffers.scratch.stream, plan.rows * c.hidden);
    for (int64_t from = 0; from < plan.targets; from += c.head_tokens) {
        const int64_t count = std::min<int64_t>(c.head_tokens, plan.targets - from);
        const Blocks blocks = {e.buffers.head_blocks, count / ENG_ROW_ALIGN, b.partials};
        if (!e.kept.logits) head_chunk(e, from, count, logits);
        if (logits) {
            head_backward<T>(e.stream, b.logits, logit_width(c), b.statistics + from, on_device(e, plan.target_ids) + from,
                             of_logprob ? b.logprobs + from : nullptr, of_entropy ? b.entropy + from : nullptr, count, c.vocabulary,
                             e.kept.sampling);
            product_nn<T>(e.stream, b.d_normed, c.hidden, b.logits, logit_width(c), m.head.weight, c.hidden, count, c.vocabulary, c.hidden,
                          1, false);
            e.flops += 2 * count * c.vocabulary * c.hidden;
            if (m.head.gradient) {
                product_tn<T>(e.stream, m.head.gradient, c.hidden, b.logits, logit_width(c), b.normed, c.hidden, count, c.vocabulary,
                              c.hidden, 1);
                e.flops += 2 * count * c.vocabulary * c.hidden;
            }
        } else {
            set_zero(e, b.d_normed, count * c.hidden);
        }
        if (of_value) {
            value_backward<T>(e.stream, b.d_normed, b.partials, b.values + from, b.normed, m.value_head.weight, blocks.rows, blocks.count,
                              count, c.hidden);
            add_partials(e.stream, m.value_head.gradient, b.partials, blocks.count, c.hidden);
        }
        set_zero(e, b.d_states, count * c.hidden);
        norm_backward(e, b.d_states, b.d_normed, b.states, b.rstd, m.final_norm, blocks);
        scatter_add_rows<T>(e.stream, e.buffers.scratch.stream, b.d_states, on_device(e, plan.target_rows) + from, count, c.hidden);
    }
}

// Makes of a layer what the forward pass did not keep of it.
template <class T>
void again(Engine<T> &e, size_t layer) {
    const Layer<T> &l = e.model.layers[layer];
    const Activations<T> &a = e.buffers.layers[layer];
    const PassScratch<T> &s = e.buffers.scratch;
    switch (e.config.recompute) {
    case ENG_KEEP:
        break;
    case ENG_RECOMPUTE_MLP:
        norm_again(e, a.normed1, a.input, l.input_norm);
        norm_again(e, a.normed2, a.middle, l.post_norm);
        swiglu_forward<T>(e.stream, a.mlp, a.gate_up, e.kept.plan.rows, e.config.intermediate);
        break;
    case ENG_OFFLOAD:
        if (const T *input = offloaded_input(e, layer)) to_device(e, a.input, input, e.kept.plan.rows * e.config.hidden);
        [[fallthrough]];
    case ENG_RECOMPUTE_BLOCK:
        if (layer + 1 == e.model.layers.size()) break; // its activations are still there
        project(e, l, a, a.input, static_cast<const T *>(nullptr), on_device(e, e.kept.plan.positions), {}, e.kept.plan.rows, s.low);
        attend(e, a);
        combine(e, l, a, s.branch, e.kept.plan.rows, s.low, 0);
        break;
    }
}

// Through combine (block.cu): from the gradient of the stream after the block
// to that of its middle, in place.
template <class T>
void combine_gradients(Engine<T> &e, const Layer<T> &l, const Activations<T> &a, const Blocks &blocks) {
    const PassScratch<T> &s = e.buffers.scratch;
    const int64_t rows = e.kept.plan.rows, at_once = mlp_rows(e.config), h = e.config.hidden;
    for (int64_t from = 0; from < rows; from += at_once) {
        const int64_t count = std::min(at_once, rows - from);
        if (e.config.recompute >= ENG_RECOMPUTE_BLOCK) gates(e, l, a, from, count, s.low);
        weight_gradient(e, s.stream + from * h, a.mlp, l.down, count, s.low);
        input_gradient(e, s.mlp, s.stream + from * h, l.down, count, s.low);
        swiglu_backward<T>(e.stream, a.gate_up, s.mlp, a.gate_up, count, e.config.intermediate);
        weight_gradient(e, a.gate_up, a.normed2 + from * h, l.gate_up, count, s.low);
        input_gradient(e, s.branch + from * h, a.gate_up, l.gate_up, count, s.low);
    }
    norm_backward(e, s.stream, s.branch, a.middle, a.rstd2, l.post_norm, blocks);
    weight_gradient(e, s.stream, a.mixed, l.output, rows, s.low);
    input_gradient(e, s.mixed, s.stream, l.output, rows, s.low);
}

// Through attention and project, to the gradient of the stream before the
// block; that is left out where nothing below is trained.
template <class T>
void project_gradients(Engine<T> &e, const Layer<T> &l, const Activations<T> &a, const Blocks &blocks, bool below) {
    const eng_config &c = e.config;
    const Plan &plan = e.kept.plan;
    const PassScratch<T> &s = e.buffers.scratch;
    attention_backward<T>(e.stream, s.qkv, s.delta, s.mixed, a.mixed, a.lse, a.qkv, packing_of(e), plan.rows, c.heads, c.kv_heads,
                          c.head_dim);
    e.flops += 14 * plan.pairs * query_width(c); // four products over blocks of keys, three over blocks of queries
    float *head_norms = l.q_norm.gradient ? blocks.partials : nullptr;
    rope_backward<T>(e.stream, s.qkv, head_norms, a.rstd_heads, a.before, l.q_norm.weight, l.k_norm.weight, l.frequencies,
                     on_device(e, plan.positions), blocks.rows, blocks.count, plan.rows, c.heads, c.kv_heads, c.head_dim);
    if (head_norms) add_partials(e.stream, l.q_norm.gradient, head_norms, blocks.count, 2 * c.head_dim);
    if (l.qkv.bias.gradient) {
        bias_partials<T>(e.stream, blocks.partials, s.qkv, l.qkv.out, blocks.rows, blocks.count, l.qkv.out);
        add_partials(e.stream, l.qkv.bias.gradient, blocks.partials, blocks.count, l.qkv.out);
    }
    weight_gradient(e, s.qkv, a.normed1, l.qkv, plan.rows, s.low);
    if (!below) return;
    input_gradient(e, s.branch, s.qkv, l.qkv, plan.rows, s.low);
    norm_backward(e, s.stream, s.branch, a.input, a.rstd1, l.input_norm, blocks);
}

// The embedding's use as a table. The rows are sorted by token while the device
// is busy with what was launched before.
template <class T>
void lookup_gradients(Engine<T> &e) {
    Lookups lookups;
    lookups.set(e.kept.plan);
    const int64_t at = e.kept.plan.words.size();
    int32_t *host = e.pass_inputs.data() + at, *device = e.buffers.pass_inputs + at;
    memcpy(host, lookups.words.data(), lookups.words.size() * sizeof(int32_t));
    to_device(e, device, host, lookups.words.size());
    embed_backward<T>(e.stream, e.model.lookups, e.buffers.scratch.stream, device + lookups.ids.at, device + lookups.starts.at,
                      device + lookups.order.at, lookups.distinct, e.config.hidden);
}

} // namespace

template <class T>
void backward(Engine<T> &e, const float *logprob, const float *entropy, const float *value) {
    REQUIRE(e.config.train, "a backward pass, but the engine was opened without train");
    REQUIRE(!frozen(e.config) || e.adapter_on, "a backward pass while the adapter, which is what is trained, is switched off");
    REQUIRE(e.kept.valid, "a backward pass, but no forward pass was kept for it");
    REQUIRE(value == nullptr || e.config.value_head, "coefficients for values, but the engine was opened without a value head");
    e.kept.valid = false;
    if (e.kept.plan.targets == 0 || (!logprob && !entropy && !value)) return;

    Timed<T> timed(e);
    const float *coefficients[3] = {logprob, entropy, value};
    upload_coefficients(e, coefficients);
    head_gradients(e, logprob != nullptr, entropy != nullptr, value != nullptr);
    const Span &rows = e.kept.plan.blocks;
    const Blocks blocks = {on_device(e, rows), rows.count - 1, e.buffers.scratch.partials};
    for (size_t i = e.model.layers.size(); i-- > 0;) {
        const Layer<T> &layer = e.model.layers[i];
        again(e, i);
        combine_gradients(e, layer, e.buffers.layers[i], blocks);
        project_gradients(e, layer, e.buffers.layers[i], blocks, i > 0 || layer.input_norm.gradient);
    }
    if (e.model.lookups) lookup_gradients(e);
    timed.finish();
    e.kept.logits = false;
}

#define INSTANTIATE(T) template void backward(Engine<T> &, const float *, const float *, const float *);
INSTANTIATE(float)
INSTANTIATE(bf16)

} // namespace lathe
