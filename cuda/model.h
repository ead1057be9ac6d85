// model.h: what is behind an engine's handle: a policy's weights as the passes go
// through them, and the memory that they compute in.
//
// T is the type of weights and activations, float or bf16. What is done with an
// Engine are functions, declared below and instantiated for both types in the
// files named beside them.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "buffers.h"
#include "failure.h"
#include "gemm.h"
#include "kernels.h"
#include "memory.h"
#include "plan.h"

// What the functions of engine.h know of any engine.
struct eng {
    int device = 0;
    eng_config config{};
    char error[lathe::ERROR_BYTES] = "";
    eng_status broken = ENG_OK; // why it can only be closed
    lathe::ProductPath path = lathe::ProductPath::mma; // of all its products
    virtual ~eng() = default;
};

namespace lathe {

// ---------------------------------------------------------------- memory

// DeviceMemory is an allocation on the current device, of zeros.
class DeviceMemory {
public:
    DeviceMemory() = default;
    DeviceMemory(const DeviceMemory &) = delete;
    ~DeviceMemory() { cudaFree(data_); }
    void allocate(int64_t bytes);
    void *data() const { return data_; }
    int64_t bytes() const { return bytes_; }

private:
    void *data_ = nullptr;
    int64_t bytes_ = 0;
};

// HostMemory is page-locked memory of the host, from and to which copies are
// asynchronous.
template <class T>
class HostMemory {
public:
    HostMemory() = default;
    HostMemory(const HostMemory &) = delete;
    ~HostMemory() { cudaFreeHost(data_); }
    void allocate(int64_t count) {
        void *data = nullptr;
        if (count > 0) CHECK(cudaMallocHost(&data, count * sizeof(T)));
        data_ = static_cast<T *>(data);
    }
    T *data() const { return data_; }
    T &operator[](int64_t i) const { return data_[i]; }

private:
    T *data_ = nullptr;
};

// ---------------------------------------------------------------- weights

// Vector is the weight of a norm; the gradient is null where it is frozen.
template <class T>
struct Vector {
    const T *weight = nullptr;
    float *gradient = nullptr;
};

// Linear is a projection y = x·Wᵀ + bias, or several of one input whose weights
// lie one below the other, with an adapter: with u = s·x·Aᵀ it adds u·Bᵀ to the
// columns of each projection that is adapted. Gradients are null where frozen.
template <class T>
struct Linear {
    int64_t in = 0, out = 0;
    Vector<T> weight; // (out, in)
    Vector<T> bias;   // (out), or null

    struct Part {
        int64_t low, column, out; // its first column in u and in y, its columns in y
        Vector<T> up;             // (out, rank): B
    };
    int64_t low = 0;   // columns of u: the rank times the parts
    Vector<T> down;    // (low, in): the A of all parts
    std::vector<Part> parts;
};

// Layer is one block of the model.
template <class T>
struct Layer {
    Vector<T> input_norm;
    Linear<T> qkv;
    Vector<T> q_norm, k_norm; // or null; their gradients lie together
    Linear<T> output;
    Vector<T> post_norm;
    Linear<T> gate_up, down;
    const float *frequencies; // (head_dim/2 + 1)
};

template <class T>
struct Model {
    Vector<T> embedding; // (vocabulary, h)
    std::vector<Layer<T>> layers;
    Vector<T> final_norm;
    Vector<T> head; // (vocabulary, h); the embedding where it is tied
    Vector<float> value_head;
    // Gradient of the embedding as a table; where it is tied a buffer beside the
    // head's, so that either is one chain over the rows however they are divided
    // among calls, and null where it is frozen.
    float *lookups = nullptr;
};

// ---------------------------------------------------------------- engine

// What a backward pass needs of the last forward pass.
struct Kept {
    bool valid = false;
    Plan plan;
    eng_sampling sampling{};
    bool logits = false; // the head's buffers still hold all targets
};

// A step of so many slots, captured when it has run once.
struct DecodeStep {
    int64_t flops = 0; // of products
    int64_t used = 0;  // steps that all have run when this one last did
    cudaGraphExec_t graph = nullptr;
};

template <class T>
struct Engine final : eng {
    Stream stream = nullptr;
    // What comes from and goes to the host's memory beside the stream's work, through the
    // two halves of the staging buffers: when a half has arrived, is done with, and has left.
    Stream arriving = nullptr, leaving = nullptr;
    cudaEvent_t arrived[2] = {nullptr, nullptr}, done[2] = {nullptr, nullptr}, left[2] = {nullptr, nullptr};
    cudaEvent_t began = nullptr, ended = nullptr, copied[2] = {nullptr, nullptr};
    std::vector<Group> groups;
    Model<T> model;
    Buffers<T> buffers;
    DeviceMemory weights, gradients, sums, state, activations, head, cache, other;
    bool adapter_on = true;

    Kept kept;
    HostMemory<int32_t> pass_inputs; // what is copied to buffers.pass_inputs
    HostMemory<float> pass_values;   // (3, pass_tokens) to and from the head's results
    HostMemory<RowStatistics> statistics; // (pass_tokens)
    HostMemory<float> staging;       // (2, STAGING)
    HostMemory<double> total;        // (2)
    HostMemory<float> spilled;       // (spilled_sums, sum_elements)
    HostMemory<T> offloaded;         // (offloaded_rows, h) inputs of blocks
    HostMemory<char> host_state;     // (state_bytes) where it is not on the device
    std::vector<bool> held;          // (gradient_sums + spilled_sums) which partial sums have been written

    // The slots as the device had them at the end of the last call.
    HostMemory<int32_t> slots;        // (SLOT_INTS, slots)
    HostMemory<int32_t> page_tables;  // (slots, table_width); -1 where nothing was set
    HostMemory<int32_t> sampled;      // (slots, DECODE_STEPS)
    HostMemory<float> sampled_logprobs;
    HostMemory<int32_t> slot_states;  // (2, slots) of the check whether any runs
    HostMemory<int32_t> prefill_inputs;
    std::vector<bool> stale_tables;   // (slots) rows of page_tables that the device does not have yet
    std::map<std::tuple<int64_t, int64_t, bool>, DecodeStep> steps; // by rows, splits of them, and whether the adapter is on
    int64_t steps_run = 0;

    int64_t flops = 0, to_device_bytes = 0, to_host_bytes = 0;
    double device_seconds = 0;

    ~Engine() override;
};

// Timed measures the time that a call takes on the device; finish waits for it.
template <class T>
class Timed {
public:
    explicit Timed(Engine<T> &e) : e_(e) { CHECK(cudaEventRecord(e.began, e.stream)); }
    void finish() {
        CHECK(cudaEventRecord(e_.ended, e_.stream));
        CHECK(cudaStreamSynchronize(e_.stream));
        float milliseconds = 0;
        CHECK(cudaEventElapsedTime(&milliseconds, e_.began, e_.ended));
        e_.device_seconds += milliseconds / 1e3;
    }

private:
    Engine<T> &e_;
};

// Copies words between page-locked memory and the device, in the stream's order.
template <class T, class Word>
void to_device(Engine<T> &e, Word *to, const Word *from, int64_t count) {
    if (count > 0) CHECK(cudaMemcpyAsync(to, from, count * sizeof(Word), cudaMemcpyHostToDevice, e.stream));
    e.to_device_bytes += count * int64_t(sizeof(Word));
}
template <class T, class Word>
void to_host(Engine<T> &e, Word *to, const Word *from, int64_t count) {
    if (count > 0) CHECK(cudaMemcpyAsync(to, from, count * sizeof(Word), cudaMemcpyDeviceToHost, e.stream));
    e.to_host_bytes += count * int64_t(sizeof(Word));
}
template <class T, class Word>
void on_device_copy(Engine<T> &e, Word *to, const Word *from, int64_t count) {
    if (count > 0) CHECK(cudaMemcpyAsync(to, from, count * sizeof(Word), cudaMemcpyDeviceToDevice, e.stream));
}
template <class T, class Word>
void set_zero(Engine<T> &e, Word *data, int64_t count) {
    if (count > 0) CHECK(cudaMemsetAsync(data, 0, count * sizeof(Word), e.stream));
}

// open.cu

// Refuses a configuration that no engine can have.
void validate(const eng_config &config);
// Allocates, and makes the model of zeros. The current device is the engine's.
template <class T>
void open(Engine<T> &e);

// transfer.cu: eng_put, eng_get and eng_zero_gradients
template <class T>
void put(Engine<T> &e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count, const float *values);
template <class T>
void get(Engine<T> &e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count, float *values);
template <class T>
void zero_gradients(Engine<T> &e);

// sums.cu: partial sums of gradients
template <class T>
void hold_gradients(Engine<T> &e, int32_t sum);
template <class T>
void add_gradients(Engine<T> &e, int32_t sum);
// Adds the gradient of a tied embedding's use as a table to its head's.
template <class T>
void settle_gradients(Engine<T> &e);
// Refuses a partial sum that is not there or, to be read, was never held.
template <class T>
void check_sum(const Engine<T> &e, int32_t sum, bool read);
// Where a partial sum is: on the device, or, behind those, on the host.
template <class T>
float *sum_on_device(const Engine<T> &e, int32_t sum) {
    return sum < e.config.gradient_sums ? static_cast<float *>(e.sums.data()) + sum * sum_elements(e.config) : nullptr;
}
template <class T>
float *sum_on_host(const Engine<T> &e, int32_t sum) {
    return e.spilled.data() + (sum - e.config.gradient_sums) * sum_elements(e.config);
}

// linear.cu

// y (rows, out) = the projection of x (rows, in). low is scratch for u.
template <class T>
void apply(Engine<T> &e, T *y, const T *x, const Linear<T> &l, int64_t rows, T *low);
// dx (rows, in) = its gradient, given dy.
template <class T>
void input_gradient(Engine<T> &e, T *dx, const T *dy, const Linear<T> &l, int64_t rows, T *low);
// Adds to the gradients of what is trained of the projection but for the bias.
template <class T>
void weight_gradient(Engine<T> &e, const T *dy, const T *x, const Linear<T> &l, int64_t rows, T *low);

// block.cu: the two halves of a block, which all passes share

// From the residual stream to queries, keys and values: input = stream + branch
// (only stream, left where it is, if branch is null), normed1, qkv, whose keys
// and values go to the cache too.
template <class T>
void project(Engine<T> &e, const Layer<T> &l, const Activations<T> &a, const T *stream, const T *branch, const int32_t *positions,
             const CacheRows<T> &cache, int64_t rows, T *low);
// From attention's output to what the block adds at last: middle = input +
// output(mixed), normed2 and, of so many rows at once, gate_up, mlp and branch =
// down(mlp); no more than normed2 for 0 rows at once. branch is scratch too.
template <class T>
void combine(Engine<T> &e, const Layer<T> &l, const Activations<T> &a, T *branch, int64_t rows, T *low, int64_t at_once);
// gate_up and mlp of rows from.. of normed2, in their first rows.
template <class T>
void gates(Engine<T> &e, const Layer<T> &l, const Activations<T> &a, int64_t from, int64_t rows, T *low);

// The input of a block of the last pass on the host, null where it stays on the device.
template <class T>
T *offloaded_input(const Engine<T> &e, size_t layer) {
    if (e.config.recompute != ENG_OFFLOAD || layer + 1 == e.model.layers.size()) return nullptr;
    return e.offloaded.data() + int64_t(layer) * e.config.pass_tokens * e.config.hidden;
}

// forward.cu, backward.cu, step.cu
template <class T>
void forward(Engine<T> &e, const eng_batch &batch, const eng_sampling &sampling, bool keep, float *logprobs, float *entropy, float *values);
template <class T>
void backward(Engine<T> &e, const float *logprob, const float *entropy, const float *value);
template <class T>
void step(Engine<T> &e, const eng_adamw &settings, eng_step_stats *stats);

// What forward and backward share: the packing of the kept plan on the device,
// attention of a layer, and chunks of the head.
template <class T>
const int32_t *on_device(const Engine<T> &e, const Span &span) { return e.buffers.pass_inputs + span.at; }
template <class T>
Packing packing_of(const Engine<T> &e);
template <class T>
void attend(Engine<T> &e, const Activations<T> &a);
// Computes states, normed and logits of the targets [from, from+count).
template <class T>
void head_chunk(Engine<T> &e, int64_t from, int64_t count, bool logits);
// Refuses settings out of range.
void check_sampling(const eng_sampling &sampling);

// generate.cu, prefill.cu

// The buffers of generation as a block's activations, which all layers share.
template <class T>
Activations<T> shared_activations(const GenerateBuffers<T> &g) {
    Activations<T> a{};
    a.input = a.middle = g.stream;
    a.normed1 = a.normed2 = g.normed;
    a.qkv = g.qkv;
    a.mixed = g.mixed;
    a.lse = g.lse;
    a.gate_up = g.gate_up;
    a.mlp = g.mlp;
    return a;
}

// How so many splits of rows of generation are computed.
template <class T>
Splits splits_of(const Engine<T> &e, int64_t count) {
    const GenerateBuffers<T> &g = e.buffers.generate;
    return {g.work, count, partial_room(e.config), split_limit(e.config), g.partials, g.arrived};
}

template <class T>
void prefill(Engine<T> &e, int32_t count, const eng_prompt *prompts);
template <class T>
void copy_page(Engine<T> &e, int32_t from, int32_t to);
template <class T>
void set_pages(Engine<T> &e, int32_t slot, int32_t first, int32_t count, const int32_t *pages);
template <class T>
void start(Engine<T> &e, int32_t count, const eng_request *requests);
template <class T>
void stop(Engine<T> &e, int32_t slot);
template <class T>
void decode(Engine<T> &e, int32_t steps, int32_t *tokens, float *logprobs, int32_t *counts, uint8_t *states);
// The keys and the values of a layer in the cache.
template <class T>
std::pair<T *, T *> cache_of(const Engine<T> &e, int64_t layer) {
    const int64_t elements = int64_t(e.config.cache_pages) * ENG_PAGE_TOKENS * key_width(e.config);
    T *keys = e.buffers.cache + 2 * layer * elements;
    return {keys, keys + elements};
}

} // namespace lathe
