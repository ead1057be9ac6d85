// forward.cu: eng_forward: a pass over packed sequences, and log-probability and
// entropy of each target.
#include <math.h>
#include <string.h>

#include <algorithm>

#include "model.h"

namespace lathe {

void check_sampling(const eng_sampling &s) {
    REQUIRE(s.temperature >= 0 && isfinite(s.temperature), "temperature is %g; it must be finite and not negative", s.temperature);
    REQUIRE(s.top_p >= 0 && s.top_p <= 1, "top_p is %g; it must lie in [0, 1]", s.top_p);
}

template <class T>
Packing packing_of(const Engine<T> &e) {
    const Plan &plan = e.kept.plan;
    return {on_device(e, plan.starts), on_device(e, plan.lengths), on_device(e, plan.tiles), plan.sequences,
            int32_t(plan.tiles.count / 2), plan.trunks.count > 0 ? on_device(e, plan.trunks) : nullptr};
}

template <class T>
void attend(Engine<T> &e, const Activations<T> &a) {
    const eng_config &c = e.config;
    attention_forward<T>(e.stream, a.mixed, a.lse, a.qkv, packing_of(e), c.heads, c.kv_heads, c.head_dim);
    e.flops += 4 * e.kept.plan.pairs * query_width(c); // q·kᵀ and p·v
}

template <class T>
void head_chunk(Engine<T> &e, int64_t from, int64_t count, bool logits) {
    const eng_config &c = e.config;
    const HeadBuffers<T> &b = e.buffers.head;
    gather_rows<T>(e.stream, b.states, e.buffers.final, on_device(e, e.kept.plan.target_rows) + from, count, c.hidden);
    rmsnorm_forward<T>(e.stream, b.normed, b.rstd, nullptr, b.states, nullptr, e.model.final_norm.weight, count, c.hidden, c.rms_eps);
    if (!logits) return;
    product_nt<T>(e.stream, b.logits, logit_width(c), b.normed, c.hidden, e.model.head.weight, c.hidden, nullptr, count, c.vocabulary,
                  c.hidden, 1, false);
    e.flops += 2 * count * c.vocabulary * c.hidden;
}

namespace {

// The blocks of the model: from tokens to the residual stream after the last.
template <class T>
void run_blocks(Engine<T> &e) {
    const Plan &plan = e.kept.plan;
    const PassScratch<T> &scratch = e.buffers.scratch;
    const T *stream = e.buffers.layers[0].input, *branch = nullptr;
    embed_forward<T>(e.stream, e.buffers.layers[0].input, e.model.embedding.weight, on_device(e, plan.ids), plan.rows, e.config.hidden);
    for (size_t i = 0; i < e.model.layers.size(); i++) {
        const Layer<T> &layer = e.model.layers[i];
        const Activations<T> &a = e.buffers.layers[i];
        project(e, layer, a, stream, branch, on_device(e, plan.positions), {}, plan.rows, scratch.low);
        // The next block's input takes its place, in the order of the stream.
        if (T *input = e.kept.valid ? offloaded_input(e, i) : nullptr) to_host(e, input, a.input, plan.rows * e.config.hidden);
        attend(e, a);
        combine(e, layer, a, scratch.branch, plan.rows, scratch.low, mlp_rows(e.config));
        stream = a.middle;
        branch = scratch.branch;
    }
    add<T>(e.stream, e.buffers.final, stream, branch, plan.rows * e.config.hidden);
}

template <class T>
void run_head(Engine<T> &e, bool values) {
    const eng_config &c = e.config;
    const Plan &plan = e.kept.plan;
    const HeadBuffers<T> &b = e.buffers.head;
    for (int64_t from = 0; from < plan.targets; from += c.head_tokens) {
        const int64_t count = std::min<int64_t>(c.head_tokens, plan.targets - from);
        head_chunk(e, from, count, true);
        head_forward<T>(e.stream, b.logprobs + from, b.statistics + from, b.logits, logit_width(c), on_device(e, plan.target_ids) + from,
                        count, c.vocabulary, e.kept.sampling);
        if (values) value_forward<T>(e.stream, b.values + from, b.normed, e.model.value_head.weight, count, c.hidden);
    }
}

} // namespace

template <class T>
void forward(Engine<T> &e, const eng_batch &batch, const eng_sampling &sampling, bool keep, float *logprobs, float *entropy,
             float *values) {
    const eng_config &c = e.config;
    REQUIRE(!keep || c.train, "a forward pass whose activations are to be kept, by an engine that was opened without train");
    REQUIRE(values == nullptr || c.value_head, "a forward pass for values, but the engine was opened without a value head");
    check_sampling(sampling);
    e.kept.valid = e.kept.logits = false;
    Plan &plan = e.kept.plan;
    plan.set(c, batch);
    REQUIRE(plan.tokens == 0 || (logprobs != nullptr && entropy != nullptr), "a forward pass without room for its results");
    for (float *results : {logprobs, entropy, values})
        if (results) std::fill_n(results, plan.tokens, 0.0f);
    e.kept.sampling = sampling;
    e.kept.valid = keep;
    if (plan.targets == 0) return;

    Timed<T> timed(e);
    memcpy(e.pass_inputs.data(), plan.words.data(), plan.words.size() * sizeof(int32_t));
    to_device(e, e.buffers.pass_inputs, e.pass_inputs.data(), plan.words.size());
    run_blocks(e);
    run_head(e, values != nullptr);
    float *host_logprobs = e.pass_values.data(), *host_values = host_logprobs + plan.targets;
    to_host(e, host_logprobs, e.buffers.head.logprobs, plan.targets);
    to_host(e, e.statistics.data(), e.buffers.head.statistics, plan.targets);
    if (values) to_host(e, host_values, e.buffers.head.values, plan.targets);
    timed.finish();
    e.kept.logits = keep && plan.targets <= c.head_tokens;
    for (int64_t i = 0; i < plan.targets; i++) {
        const int32_t token = plan.target_tokens[i];
        if (token < 0) continue;
        logprobs[token] = host_logprobs[i];
        entropy[token] = e.statistics[i].entropy;
        if (values) values[token] = host_values[i];
    }
}

#define INSTANTIATE(T) \
    template Packing packing_of(const Engine<T> &); \
    template void attend(Engine<T> &, const Activations<T> &); \
    template void head_chunk(Engine<T> &, int64_t, int64_t, bool); \
    template void forward(Engine<T> &, const eng_batch &, const eng_sampling &, bool, float *, float *, float *);
INSTANTIATE(float)
INSTANTIATE(bf16)

} // namespace lathe
