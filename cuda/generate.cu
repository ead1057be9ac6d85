// generate.cu: eng_start … eng_decode: slots that decode on the device, many
// steps of all of them in one call.
//
// A step is a fixed sequence of kernels on fixed memory: what each slot is to do
// is in its state on the device, where the sampler moves it on. So it is captured
// once for each number of rows, and of splits of their contexts, as a CUDA graph
// and launched as one; slots that do not run cost rows, not bits.
#include <algorithm>

#include "model.h"

namespace lathe {

namespace {

constexpr int64_t CHECK_STEPS = 8; // steps between looks whether any slot still runs
constexpr size_t MOST_GRAPHS = 64; // that are kept: each takes memory of the driver

// The rows of a step in which slots 0 … n-1 may run: 1, 2, 4, 8, 16, then
// steps by a half and a third: 24, 32, 48, 64, 96 …
int64_t step_rows(int64_t n, int64_t slots) {
    int64_t rows = 1;
    while (rows < n) {
        if (rows >= 16 && rows + rows / 2 >= n) return std::min(rows + rows / 2, slots);
        rows *= 2;
    }
    return std::min(rows, slots);
}

// Splits that a step has room for in which the rows have n at most: a power of 2.
int64_t step_splits(int64_t n, int64_t most) {
    int64_t splits = 1;
    while (splits < n) splits *= 2;
    return std::min(splits, most);
}

// Splits of the rows after so many more steps, at most: one of a slot that does not run.
template <class T>
int64_t splits_after(const Engine<T> &e, int64_t rows, int64_t steps) {
    const Slots s = slots_at(e.slots.data(), e.config.slots);
    int64_t splits = 0;
    for (int64_t slot = 0; slot < rows; slot++) {
        const int64_t position = std::min<int64_t>(s.position[slot] + steps, e.config.max_positions - 1);
        splits += s.state[slot] == ENG_RUNNING ? attention_splits(int32_t(position)) : 1;
    }
    return splits;
}

// One token of each running slot among the first rows, whose contexts have at
// most so many splits.
template <class T>
void run_step(Engine<T> &e, int64_t rows, int64_t split_count) {
    const eng_config &c = e.config;
    const Buffers<T> &b = e.buffers;
    const GenerateBuffers<T> &g = b.generate;
    const Activations<T> a = shared_activations(g);
    const Slots slots = slots_at(b.slots, c.slots);
    int32_t *tokens = b.decode_inputs, *positions = tokens + c.slots, *pages = positions + c.slots, *places = pages + c.slots,
            *numbers = places + c.slots;
    decode_inputs(e.stream, tokens, positions, pages, places, slots, b.page_tables, table_width(c), rows);
    const Splits splits = splits_of(e, split_count);
    list_splits(e.stream, g.work, split_count, positions, rows);
    embed_forward<T>(e.stream, g.stream, e.model.embedding.weight, tokens, rows, c.hidden);
    const T *branch = nullptr;
    for (size_t i = 0; i < e.model.layers.size(); i++) {
        const auto [keys, values] = cache_of(e, i);
        project(e, e.model.layers[i], a, g.stream, branch, positions, {keys, values, pages, places}, rows, g.low);
        attention_paged<T>(e.stream, g.mixed, g.qkv, keys, values, b.page_tables, table_width(c), numbers, positions, splits,
                           c.heads, c.kv_heads, c.head_dim);
        combine(e, e.model.layers[i], a, g.branch, rows, g.low, rows);
        branch = g.branch;
    }
    rmsnorm_forward<T>(e.stream, b.head.normed, nullptr, g.stream, g.stream, branch, e.model.final_norm.weight, rows, c.hidden, c.rms_eps);
    product_nt<T>(e.stream, b.head.logits, logit_width(c), b.head.normed, c.hidden, e.model.head.weight, c.hidden, nullptr, rows,
                  c.vocabulary, c.hidden, 1, false);
    e.flops += 2 * rows * c.vocabulary * c.hidden;
    sample_tokens<T>(e.stream, slots, b.sampled, b.sampled_logprobs, rows, DECODE_STEPS, b.head.logits, logit_width(c), c.vocabulary,
                     c.max_positions);
}

// Forgets the step that was last run the longest ago.
template <class T>
void forget_step(Engine<T> &e) {
    const auto oldest = std::min_element(e.steps.begin(), e.steps.end(), [](const auto &a, const auto &b) { return a.second.used < b.second.used; });
    CHECK(cudaStreamSynchronize(e.stream)); // it may still run
    if (oldest->second.graph) CHECK(cudaGraphExecDestroy(oldest->second.graph));
    e.steps.erase(oldest);
}

// A step as a graph. A recording that fails is ended too: while a thread records,
// it may neither allocate memory nor free any.
template <class T>
cudaGraph_t record_step(Engine<T> &e, int64_t rows, int64_t splits) {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(e.stream, cudaStreamCaptureModeThreadLocal));
    try {
        run_step(e, rows, splits);
    } catch (...) {
        cudaStreamEndCapture(e.stream, &graph);
        if (graph) cudaGraphDestroy(graph);
        throw;
    }
    CHECK(cudaStreamEndCapture(e.stream, &graph));
    return graph;
}

// Runs a step: the first of its kind as plain calls, which loads the kernels,
// the later ones as the graph that the second is captured as.
template <class T>
void launch_step(Engine<T> &e, int64_t rows, int64_t splits) {
    const std::tuple<int64_t, int64_t, bool> kind(rows, splits, e.adapter_on);
    if (e.steps.size() == MOST_GRAPHS && e.steps.count(kind) == 0) forget_step(e);
    const auto [entry, added] = e.steps.try_emplace(kind);
    DecodeStep &step = entry->second;
    step.used = ++e.steps_run;
    const int64_t flops = e.flops;
    if (added) {
        run_step(e, rows, splits);
        step.flops = e.flops - flops;
        return;
    }
    if (!step.graph) {
        const cudaGraph_t graph = record_step(e, rows, splits);
        const cudaError_t made = cudaGraphInstantiateWithFlags(&step.graph, graph, 0);
        cudaGraphDestroy(graph);
        check(made, "instantiating the graph of a decoding step");
    }
    CHECK(cudaGraphLaunch(step.graph, e.stream));
    e.flops = flops + step.flops;
}

bool any_runs(const int32_t *states, int64_t rows) {
    return std::any_of(states, states + rows, [](int32_t state) { return state == ENG_RUNNING; });
}

// Whether what was recorded is done, without waiting for it.
bool is_done(cudaEvent_t event) {
    const cudaError_t code = cudaEventQuery(event);
    if (code == cudaErrorNotReady) {
        cudaGetLastError(); // that is no failure
        return false;
    }
    check(code, "asking for a copy of the slots' states");
    return true;
}

// Runs up to `steps` steps, and sees at times whether any slot still runs. The
// look is at what was there some steps ago, so that the device does not wait.
template <class T>
void run_steps(Engine<T> &e, int64_t rows, int64_t steps) {
    const int32_t *states = slots_at(e.buffers.slots, e.config.slots).state;
    for (int64_t done = 0, looks = 0; done < steps; looks++) {
        for (const int64_t end = std::min(steps, done + CHECK_STEPS); done < end; done++)
            launch_step(e, rows, step_splits(splits_after(e, rows, done), rows * split_limit(e.config)));
        if (done == steps) return;
        int32_t *halves = e.slot_states.data(), *newest = halves + looks % 2 * e.config.slots, *older = halves + (looks + 1) % 2 * e.config.slots;
        to_host(e, newest, states, rows);
        CHECK(cudaEventRecord(e.copied[looks % 2], e.stream));
        if (looks > 0) {
            CHECK(cudaEventSynchronize(e.copied[(looks + 1) % 2]));
            if (!any_runs(older, rows)) return;
        }
        if (is_done(e.copied[looks % 2]) && !any_runs(newest, rows)) return;
    }
}

template <class T>
void check_slot(const Engine<T> &e, int32_t slot) {
    REQUIRE(slot >= 0 && slot < e.config.slots, "slot %d; the engine has %d", slot, e.config.slots);
}

// Refuses steps for which a slot has no page.
template <class T>
void check_pages(const Engine<T> &e, const Slots &s, int32_t steps) {
    const int64_t width = table_width(e.config);
    for (int64_t slot = 0; slot < e.config.slots; slot++) {
        if (s.state[slot] != ENG_RUNNING) continue;
        const int64_t last = std::min<int64_t>(int64_t(s.position[slot]) + std::min(steps, s.remaining[slot]), e.config.max_positions) - 1;
        for (int64_t page = 0; page <= last / ENG_PAGE_TOKENS; page++)
            REQUIRE(e.page_tables[slot * width + page] >= 0, "slot %d has no page for position %d", int(slot),
                    int(page * ENG_PAGE_TOKENS));
    }
}

template <class T>
void upload_tables(Engine<T> &e) {
    const int64_t width = table_width(e.config);
    for (int64_t slot = 0; slot < e.config.slots; slot++) {
        if (!e.stale_tables[slot]) continue;
        to_device(e, e.buffers.page_tables + slot * width, e.page_tables.data() + slot * width, width);
        e.stale_tables[slot] = false;
    }
}

} // namespace

template <class T>
void set_pages(Engine<T> &e, int32_t slot, int32_t first, int32_t count, const int32_t *pages) {
    check_slot(e, slot);
    const int64_t width = table_width(e.config);
    REQUIRE(first >= 0 && count >= 0 && int64_t(first) + count <= width, "entries %d to %lld of a page table of %lld", first,
            static_cast<long long>(int64_t(first) + count), static_cast<long long>(width));
    REQUIRE(count == 0 || pages != nullptr, "entries of a page table without pages");
    for (int32_t i = 0; i < count; i++)
        REQUIRE(pages[i] >= 0 && pages[i] < e.config.cache_pages, "page %d; the cache has %d", pages[i], e.config.cache_pages);
    std::copy_n(pages, count, e.page_tables.data() + slot * width + first);
    e.stale_tables[slot] = true;
}

template <class T>
void start(Engine<T> &e, int32_t count, const eng_request *requests) {
    const eng_config &c = e.config;
    REQUIRE(count >= 0 && (count == 0 || requests != nullptr), "a start of %d requests", count);
    const Slots s = slots_at(e.slots.data(), c.slots);
    for (int32_t i = 0; i < count; i++) {
        const eng_request &r = requests[i];
        check_slot(e, r.slot);
        REQUIRE(s.state[r.slot] != ENG_RUNNING, "request %d is for slot %d, which is running", i, r.slot);
        REQUIRE(r.token >= 0 && r.token < c.vocabulary, "request %d goes on from token %d; the policy's vocabulary has %d", i, r.token,
                c.vocabulary);
        REQUIRE(r.position >= 0 && r.position < c.max_positions - 1, "request %d goes on from position %d; the policy takes %d tokens", i,
                r.position, c.max_positions);
        REQUIRE(r.remaining >= 1, "request %d is for %d tokens", i, r.remaining);
        REQUIRE(r.stops >= 0 && r.stops <= ENG_MAX_STOPS, "request %d has %d stop tokens; at most %d are taken", i, r.stops,
                ENG_MAX_STOPS);
        check_sampling(r.sampling);
    }
    for (int32_t i = 0; i < count; i++) {
        const eng_request &r = requests[i];
        s.token[r.slot] = r.token;
        s.position[r.slot] = r.position;
        s.remaining[r.slot] = r.remaining;
        s.state[r.slot] = ENG_RUNNING;
        s.stops[r.slot] = r.stops;
        std::copy_n(r.stop, ENG_MAX_STOPS, s.stop + int64_t(r.slot) * ENG_MAX_STOPS);
        std::copy_n(r.key, 2, s.key + 2 * int64_t(r.slot));
        s.sample[r.slot] = r.sample;
        s.sampling[r.slot] = r.sampling;
    }
}

template <class T>
void stop(Engine<T> &e, int32_t slot) {
    check_slot(e, slot);
    slots_at(e.slots.data(), e.config.slots).state[slot] = ENG_IDLE;
    std::fill_n(e.page_tables.data() + slot * table_width(e.config), table_width(e.config), -1);
}

template <class T>
void decode(Engine<T> &e, int32_t steps, int32_t *tokens, float *logprobs, int32_t *counts, uint8_t *states) {
    const eng_config &c = e.config;
    REQUIRE(c.slots > 0, "decoding, but the engine was opened without slots");
    REQUIRE(steps >= 1 && tokens && logprobs && counts && states, "decoding of %d steps, or without room for its results", steps);
    const Slots s = slots_at(e.slots.data(), c.slots);
    check_pages(e, s, steps);
    std::fill_n(counts, c.slots, 0);
    int64_t rows = c.slots;
    while (rows > 0 && s.state[rows - 1] != ENG_RUNNING) rows--;
    Timed<T> timed(e);
    if (rows > 0) {
        rows = step_rows(rows, c.slots);
        e.kept.logits = false; // the head's buffers are used
        upload_tables(e);
    }
    for (int64_t done = 0; done < steps && any_runs(s.state, rows); done += DECODE_STEPS) {
        const int64_t n = std::min<int64_t>(DECODE_STEPS, steps - done);
        std::fill_n(s.count, c.slots, 0);
        to_device(e, e.buffers.slots, e.slots.data(), SLOT_INTS * c.slots);
        run_steps(e, rows, n);
        to_host(e, e.slots.data(), e.buffers.slots, SLOT_INTS * c.slots);
        to_host(e, e.sampled.data(), e.buffers.sampled, rows * DECODE_STEPS);
        to_host(e, e.sampled_logprobs.data(), e.buffers.sampled_logprobs, rows * DECODE_STEPS);
        CHECK(cudaStreamSynchronize(e.stream));
        for (int64_t slot = 0; slot < rows; slot++) {
            const int64_t count = s.count[slot], to = slot * steps + counts[slot];
            std::copy_n(e.sampled.data() + slot * DECODE_STEPS, count, tokens + to);
            std::copy_n(e.sampled_logprobs.data() + slot * DECODE_STEPS, count, logprobs + to);
            counts[slot] += int32_t(count);
            // Of the keys that its queries saw: position-count+1 … position.
            e.flops += 4 * query_width(c) * c.layers * (count * s.position[slot] - count * (count - 1) / 2);
        }
    }
    timed.finish();
    for (int64_t slot = 0; slot < c.slots; slot++) states[slot] = uint8_t(s.state[slot]);
}

#define INSTANTIATE(T) \
    template void set_pages(Engine<T> &, int32_t, int32_t, int32_t, const int32_t *); \
    template void start(Engine<T> &, int32_t, const eng_request *); \
    template void stop(Engine<T> &, int32_t); \
    template void decode(Engine<T> &, int32_t, int32_t *, float *, int32_t *, uint8_t *);
INSTANTIATE(float)
INSTANTIATE(bf16)

} // namespace lathe
