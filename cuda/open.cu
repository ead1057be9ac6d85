// open.cu: eng_open: what a configuration must be, the memory it takes, and the
// model that lies in it.
#include <math.h>
#include <string.h>

#include <algorithm>

#include "model.h"

namespace lathe {

void DeviceMemory::allocate(int64_t bytes) {
    if (bytes > 0) CHECK(cudaMalloc(&data_, bytes));
    bytes_ = bytes;
}

void validate(const eng_config &c) {
    struct Size {
        const char *name;
        int64_t value, least, most;
    };
    // A row's masses of 44 bits each are added up in 64 (kept_set.cuh).
    const int64_t most_tokens = (1 << 20) - 1, large = (1 << 24) - 1, huge = INT32_MAX;
    const Size sizes[] = {
        {"vocabulary", c.vocabulary, 1, most_tokens},
        {"hidden", c.hidden, 1, large},
        {"intermediate", c.intermediate, 1, large},
        {"layers", c.layers, 1, large},
        {"heads", c.heads, 1, large},
        {"kv_heads", c.kv_heads, 1, large},
        {"head_dim", c.head_dim, 2, 256},
        {"max_positions", c.max_positions, 1, large},
        {"qkv_bias", c.qkv_bias, 0, 1},
        {"qk_norm", c.qk_norm, 0, 1},
        {"tied", c.tied, 0, 1},
        {"dtype", c.dtype, ENG_F32, ENG_BF16},
        {"state_dtype", c.state_dtype, ENG_F32, ENG_BF16},
        {"train", c.train, 0, ENG_GRADIENTS},
        {"value_head", c.value_head, 0, 1},
        {"lora_rank", c.lora_rank, 0, 1 << 14},
        {"lora_targets", c.lora_targets, c.lora_rank > 0 ? 1 : 0, c.lora_rank > 0 ? 127 : 0},
        {"pass_tokens", c.pass_tokens, 0, huge - ENG_ROW_ALIGN},
        {"pass_sequences", c.pass_sequences, c.pass_tokens > 0 ? 1 : 0, huge / 4},
        {"recompute", c.recompute, ENG_KEEP, ENG_OFFLOAD},
        {"mlp_tokens", c.mlp_tokens, 0, huge - ENG_ROW_ALIGN},
        {"head_tokens", c.head_tokens, c.pass_tokens > 0 ? ENG_ROW_ALIGN : 0, huge - ENG_ROW_ALIGN},
        {"slots", c.slots, 0, 1 << 16},
        {"cache_pages", c.cache_pages, c.slots > 0 ? 1 : 0, huge},
        {"prefill_tokens", c.prefill_tokens, c.slots > 0 ? 1 : 0, large},
        {"gradient_sums", c.gradient_sums, 0, c.train ? 64 : 0},
        {"spilled_sums", c.spilled_sums, 0, c.train ? 64 : 0},
        {"host_state", c.host_state, 0, c.train == 1 ? 1 : 0},
    };
    for (const Size &size : sizes)
        REQUIRE(size.value >= size.least && size.value <= size.most, "%s is %lld; it must lie between %lld and %lld", size.name,
                static_cast<long long>(size.value), static_cast<long long>(size.least), static_cast<long long>(size.most));
    REQUIRE(c.head_dim % 2 == 0, "head_dim is %d; rotary embedding needs it even", c.head_dim);
    REQUIRE(c.heads % c.kv_heads == 0, "%d heads are not a multiple of %d kv_heads", c.heads, c.kv_heads);
    REQUIRE(c.rms_eps > 0 && c.rms_eps < 1, "rms_eps is %g; it must lie between 0 and 1", c.rms_eps);
    REQUIRE(c.head_tokens % ENG_ROW_ALIGN == 0, "head_tokens is %d; it must be a multiple of %d", c.head_tokens, ENG_ROW_ALIGN);
    REQUIRE(c.mlp_tokens % ENG_ROW_ALIGN == 0, "mlp_tokens is %d; it must be a multiple of %d", c.mlp_tokens, ENG_ROW_ALIGN);
    REQUIRE(c.rope_frequencies != nullptr, "there are no rope_frequencies");
    REQUIRE(c.lora_rank == 0 || isfinite(c.lora_scale), "lora_scale is %g", c.lora_scale);
}

namespace {

constexpr double GIB = 1024.0 * 1024 * 1024;

// Allocates what each use takes, or refuses with what is needed and what there is.
template <class T>
void allocate(Engine<T> &e) {
    const Memory m = memory_of(e.config);
    size_t free_bytes = 0, all_bytes = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
    auto refuse = [&]() {
        throw Failure(ENG_MEMORY,
                      "the engine needs %.2f GiB (weights %.2f, gradients %.2f, their sums %.2f, optimizer state %.2f, activations %.2f, "
                      "head %.2f, cache %.2f, other %.2f), %lld bytes, and %.2f GiB beside it; the device has %.2f GiB free of %.2f, "
                      "%lld bytes",
                      m.total() / GIB, m.weights / GIB, m.gradients / GIB, m.sums / GIB, m.state / GIB, m.activations / GIB, m.head / GIB,
                      m.cache / GIB, m.other / GIB, static_cast<long long>(m.total()), ENG_RESERVE_BYTES / GIB, free_bytes / GIB,
                      all_bytes / GIB, static_cast<long long>(free_bytes));
    };
    if (m.total() > int64_t(free_bytes) - ENG_RESERVE_BYTES) refuse();
    try {
        e.weights.allocate(m.weights);
        e.gradients.allocate(m.gradients);
        e.sums.allocate(m.sums);
        e.state.allocate(m.state);
        e.activations.allocate(m.activations);
        e.head.allocate(m.head);
        e.cache.allocate(m.cache);
        e.other.allocate(m.other);
    } catch (const CudaError &error) {
        cudaGetLastError(); // it is told once
        if (error.code == cudaErrorMemoryAllocation) refuse();
        throw;
    }
    for (const DeviceMemory *memory : {&e.weights, &e.gradients, &e.sums, &e.state, &e.activations, &e.head, &e.cache, &e.other})
        set_zero(e, static_cast<char *>(memory->data()), memory->bytes());
}

template <class T>
void place_all(Engine<T> &e) {
    Arena weights(e.weights.data()), gradients(e.gradients.data()), activations(e.activations.data()), head(e.head.data()),
        cache(e.cache.data()), other(e.other.data()), state(e.config.host_state ? e.host_state.data() : e.state.data());
    e.groups = groups_of(e.config);
    place_weights(weights, e.groups, e.config);
    place_gradients(gradients, e.groups, &e.model.lookups, e.config);
    place_state(state, e.groups, e.config);
    e.buffers.place_activations(activations, e.config);
    e.buffers.place_head(head, e.config);
    e.buffers.place_cache(cache, e.config);
    e.buffers.place_other(other, e.config, e.groups);
}

// Page-locked memory is scarcer than other memory of the host.
template <class T>
void allocate_spilled(Engine<T> &e) {
    try {
        e.spilled.allocate(e.config.spilled_sums * sum_elements(e.config));
        e.offloaded.allocate(offloaded_rows(e.config) * e.config.hidden);
        if (e.config.host_state) {
            e.host_state.allocate(state_bytes(e.config));
            memset(e.host_state.data(), 0, state_bytes(e.config));
        }
    } catch (const CudaError &error) {
        cudaGetLastError(); // it is told once
        if (error.code != cudaErrorMemoryAllocation) throw;
        throw Failure(ENG_MEMORY,
                      "%d partial sums of gradients, inputs of %lld rows and %.2f GiB of optimizer state need %.2f GiB of page-locked "
                      "memory, which the host does not give",
                      e.config.spilled_sums, static_cast<long long>(offloaded_rows(e.config)),
                      (e.config.host_state ? state_bytes(e.config) : 0) / GIB, memory_of(e.config).spilled / GIB);
    }
    e.held.assign(e.config.gradient_sums + e.config.spilled_sums, false);
}

template <class T>
void allocate_host(Engine<T> &e) {
    const eng_config &c = e.config;
    e.pass_inputs.allocate(pass_input_limit(c));
    e.pass_values.allocate(3 * int64_t(c.pass_tokens));
    e.statistics.allocate(c.pass_tokens);
    e.staging.allocate(2 * STAGING);
    e.total.allocate(2);
    allocate_spilled(e);
    if (c.slots == 0) return;
    e.slots.allocate(SLOT_INTS * c.slots);
    e.page_tables.allocate(c.slots * table_width(c));
    e.sampled.allocate(c.slots * DECODE_STEPS);
    e.sampled_logprobs.allocate(c.slots * DECODE_STEPS);
    e.slot_states.allocate(2 * c.slots);
    e.prefill_inputs.allocate(prefill_input_limit(c));
}

// The tensor of a role, with its gradient; null if there is none.
template <class W, class T>
Vector<W> find(const Engine<T> &e, int32_t role, int32_t layer) {
    for (const Group &group : e.groups) {
        int64_t at = 0;
        for (const Part &part : group.parts) {
            if (part.role == role && part.layer == layer)
                return {static_cast<W *>(group.weights) + at, group.gradient ? group.gradient + at : nullptr};
            at += part.elements;
        }
    }
    return {};
}

// A projection, or several of one input, with what of them is adapted.
template <class T>
Linear<T> linear(const Engine<T> &e, int32_t layer, int64_t in, std::initializer_list<std::pair<eng_role, int64_t>> projections,
                 bool biased) {
    Linear<T> l;
    l.in = in;
    l.weight = find<T>(e, projections.begin()->first, layer);
    if (biased) l.bias = find<T>(e, ENG_Q_BIAS, layer);
    for (const auto &[role, out] : projections) {
        if (const Vector<T> down = find<T>(e, ENG_LORA_A + role, layer); down.weight) {
            if (l.parts.empty()) l.down = down;
            l.parts.push_back({l.low, l.out, out, find<T>(e, ENG_LORA_B + role, layer)});
            l.low += e.config.lora_rank;
        }
        l.out += out;
    }
    return l;
}

template <class T>
void build(Engine<T> &e) {
    const eng_config &c = e.config;
    const int64_t h = c.hidden, inner = c.intermediate, q = query_width(c), kv = key_width(c);
    Model<T> &m = e.model;
    m.embedding = find<T>(e, ENG_EMBEDDING, 0);
    m.layers.resize(c.layers);
    for (int32_t i = 0; i < c.layers; i++) {
        Layer<T> &l = m.layers[i];
        l.input_norm = find<T>(e, ENG_INPUT_NORM, i);
        l.qkv = linear(e, i, h, {{ENG_Q, q}, {ENG_K, kv}, {ENG_V, kv}}, c.qkv_bias);
        l.q_norm = find<T>(e, ENG_Q_NORM, i);
        l.k_norm = find<T>(e, ENG_K_NORM, i);
        l.output = linear(e, i, q, {{ENG_O, h}}, false);
        l.post_norm = find<T>(e, ENG_POST_NORM, i);
        l.gate_up = linear(e, i, h, {{ENG_GATE, inner}, {ENG_UP, inner}}, false);
        l.down = linear(e, i, inner, {{ENG_DOWN, h}}, false);
        l.frequencies = e.buffers.frequencies + i * int64_t(c.head_dim / 2 + 1);
    }
    m.final_norm = find<T>(e, ENG_FINAL_NORM, 0);
    m.head = c.tied ? m.embedding : find<T>(e, ENG_HEAD, 0);
    if (c.value_head) m.value_head = find<float>(e, ENG_VALUE_HEAD, 0);
    if (!c.tied) m.lookups = m.embedding.gradient;
}

// What never changes on the device, and slots that are idle.
template <class T>
void fill(Engine<T> &e) {
    const eng_config &c = e.config;
    // In the engine's stream, which does not wait for the default one: there a copy
    // of memory that is not page-locked may still be under way when the call returns.
    auto copy = [&](auto *to, const auto &values) {
        if (values.empty()) return;
        CHECK(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(values[0]), cudaMemcpyHostToDevice, e.stream));
        CHECK(cudaStreamSynchronize(e.stream)); // the values go with their caller
    };
    copy(e.buffers.frequencies, std::vector<float>(c.rope_frequencies, c.rope_frequencies + int64_t(c.layers) * (c.head_dim / 2 + 1)));
    std::vector<int32_t> blocks;
    for (int32_t row = 0; c.pass_tokens > 0 && row <= c.head_tokens; row += ENG_ROW_ALIGN) blocks.push_back(row);
    copy(e.buffers.head_blocks, blocks);
    if (c.slots == 0) return;
    std::vector<int32_t> numbers(c.slots);
    for (int32_t slot = 0; slot < c.slots; slot++) numbers[slot] = slot;
    copy(e.buffers.decode_inputs + 4 * int64_t(c.slots), numbers);
    std::fill_n(e.slots.data(), SLOT_INTS * c.slots, 0);
    std::fill_n(slots_at(e.slots.data(), c.slots).state, c.slots, int32_t(ENG_IDLE));
    std::fill_n(e.page_tables.data(), c.slots * table_width(c), -1);
    e.stale_tables.assign(c.slots, true);
}

} // namespace

template <class T>
void open(Engine<T> &e) {
    for (Stream *stream : {&e.stream, &e.arriving, &e.leaving}) CHECK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&e.began));
    CHECK(cudaEventCreate(&e.ended));
    for (int half = 0; half < 2; half++)
        for (cudaEvent_t *event : {&e.copied[half], &e.arrived[half], &e.done[half], &e.left[half]})
            CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    allocate(e);
    allocate_host(e);
    place_all(e);
    build(e);
    fill(e);
    e.config.rope_frequencies = nullptr; // the caller's
}

template <class T>
Engine<T>::~Engine() {
    for (Stream own : {stream, arriving, leaving})
        if (own) cudaStreamSynchronize(own);
    for (const auto &entry : steps)
        if (entry.second.graph) cudaGraphExecDestroy(entry.second.graph);
    for (cudaEvent_t event : {began, ended, copied[0], copied[1], arrived[0], arrived[1], done[0], done[1], left[0], left[1]})
        if (event) cudaEventDestroy(event);
    for (Stream own : {stream, arriving, leaving})
        if (own) cudaStreamDestroy(own);
}

template struct Engine<float>;
template struct Engine<bf16>;
template void open(Engine<float> &);
template void open(Engine<bf16> &);

} // namespace lathe
