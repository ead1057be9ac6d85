// buffers.h: what an engine computes in, use by use.
//
// Shapes are given with R = pass_tokens rows of a pass, h the hidden size, i
// the intermediate size, q and kv the widths of all query and of all key heads.
// T is the type of weights and activations.
#pragma once

#include <vector>

#include "kernels.h"
#include "memory.h"
#include "slots.h"

namespace lathe {

// Columns of the low-rank products that are alive at a time: the ranks of the
// adapted projections of one input.
inline int64_t low_width(const eng_config &c) {
    auto ranks = [&](uint32_t targets) { return int64_t(c.lora_rank) * __builtin_popcount(c.lora_targets & targets); };
    int64_t width = ranks(ENG_LORA_Q | ENG_LORA_K | ENG_LORA_V);
    for (uint32_t targets : {uint32_t(ENG_LORA_O), uint32_t(ENG_LORA_GATE | ENG_LORA_UP), uint32_t(ENG_LORA_DOWN)})
        if (ranks(targets) > width) width = ranks(targets);
    return width;
}

// Blocks of at most BLOCK_ROWS rows in a pass, and tiles of attention, at most.
inline int64_t block_limit(const eng_config &c) { return c.pass_tokens / BLOCK_ROWS + c.pass_sequences; }

// Entries of a page table.
inline int64_t table_width(const eng_config &c) { return (int64_t(c.max_positions) + ENG_PAGE_TOKENS - 1) / ENG_PAGE_TOKENS; }

// Rows of a piece of a prefill, and entries of its page tables: one table fits,
// however long.
inline int64_t prefill_rows(const eng_config &c) { return round_up(c.prefill_tokens, ENG_ROW_ALIGN); }
inline int64_t prefill_table_limit(const eng_config &c) { return prefill_rows(c) + table_width(c); }

// Rows of generation: of prompts, or of decoding slots.
inline int64_t generate_rows(const eng_config &c) { return prefill_rows(c) > c.slots ? prefill_rows(c) : c.slots; }

// Splits of a row, at most; those of all rows; and those whose results have room
// at a time: enough work for any GPU.
constexpr int64_t SPLITS_AT_ONCE = 4096;
inline int64_t split_limit(const eng_config &c) { return attention_splits(c.max_positions - 1); }
inline int64_t work_limit(const eng_config &c) { return generate_rows(c) * split_limit(c); }
inline int64_t partial_room(const eng_config &c) {
    const int64_t most = SPLITS_AT_ONCE + split_limit(c);
    return work_limit(c) < most ? work_limit(c) : most;
}

// Rows of the inputs of blocks that are on the host: of all but the last, whose
// activations are still there when a backward pass begins.
inline int64_t offloaded_rows(const eng_config &c) {
    return c.train && c.recompute == ENG_OFFLOAD ? (int64_t(c.layers) - 1) * c.pass_tokens : 0;
}

// Rows of the MLP's inner activations that are there at a time: all where a backward pass
// reads them.
inline int64_t mlp_rows(const eng_config &c) {
    const bool kept = c.train && c.recompute < ENG_RECOMPUTE_BLOCK;
    return kept || c.mlp_tokens == 0 || c.mlp_tokens > c.pass_tokens ? c.pass_tokens : c.mlp_tokens;
}

// What one block of the model leaves of each row.
template <class T>
struct Activations {
    T *input;          // (R, h) the residual stream before the block
    T *normed1;        // (R, h) its norm
    float *rstd1;      // (R)
    T *qkv;            // (R, q+2kv) after rotary embedding
    T *before;         // (R, q+kv) queries and keys before their norms; null without, and where nothing is kept
    float *rstd_heads; // (R, heads + kv_heads) of these norms; null likewise
    T *mixed;          // (R, q) attention's output
    float *lse;        // (R, heads)
    T *middle;         // (R, h) the residual stream after attention
    T *normed2;        // (R, h) its norm
    float *rstd2;      // (R)
    T *gate_up;        // (mlp_rows, 2i)
    T *mlp;            // (mlp_rows, i) silu(gate)·up
};

// Scratch of a pass over rows, and of its backward pass where the engine trains.
template <class T>
struct PassScratch {
    T *branch;       // (R, h) what a half of a block adds to the residual stream; the gradient of a norm's output
    T *low;          // (R, low_width) of an adapter
    T *stream;       // (R, h) the gradient of the residual stream
    T *mixed;        // (R, q) gradients of what Activations has
    T *qkv;          // (R, q+2kv)
    T *mlp;          // (mlp_rows, i)
    float *delta;    // (R, heads)
    float *partials; // (block_limit, widest vector) gradients of norms and biases by blocks of rows; null where they are frozen
};

// Chunks of C = head_tokens rows of targets on their way through the head.
template <class T>
struct HeadBuffers {
    T *logits;      // (max(C, slots), logit_width)
    T *states;      // (C, h) the residual stream after the last block at the rows that predict targets
    T *normed;      // (max(C, slots), h)
    float *rstd;    // (C)
    T *d_normed;    // (C, h) gradients, where the engine trains
    T *d_states;    // (C, h)
    float *partials; // (C/ENG_ROW_ALIGN, h)
    RowStatistics *statistics; // (R) of all targets of a pass
    float *logprobs, *entropy, *values; // (R) results of all targets; in a backward pass their coefficients
};

// Rows of prompts, or of decoding slots: G = generate_rows.
template <class T>
struct GenerateBuffers {
    T *stream, *branch, *normed; // (G, h)
    T *qkv;                      // (G, q+2kv)
    T *mixed;                    // (G, q)
    float *lse;                  // (G, heads)
    T *gate_up;                  // (G, 2i)
    T *mlp;                      // (G, i)
    T *low;                      // (G, low_width)
    int32_t *work;               // (work_limit, 2) of attention over pages
    float *partials;             // (partial_room, attention_partial_width)
    int32_t *arrived;            // (G, heads) zeros between launches
};

// All but weights, gradients and optimizer state.
template <class T>
struct Buffers {
    // Activations.
    std::vector<Activations<T>> layers;
    T *final; // (R, h) the residual stream after the last block
    PassScratch<T> scratch;
    GenerateBuffers<T> generate;

    HeadBuffers<T> head;

    T *cache; // (layers, 2, cache_pages, ENG_PAGE_TOKENS, kv): of each layer the keys, then the values

    // Other.
    float *frequencies;       // (layers, head_dim/2 + 1) of rotary embedding, as eng_config has them
    int32_t *pass_inputs;     // pass_input_limit: tokens, positions, packing and targets of a pass (plan.h)
    int32_t *head_blocks;     // (C/ENG_ROW_ALIGN + 1) multiples of ENG_ROW_ALIGN
    float *staging;           // (2, STAGING) of eng_put and eng_get
    double *squares;          // of each segment of each trained tensor's gradient
    double *total;            // (2) their sum, and that of a value head that is clipped by itself
    int32_t *slots;           // (SLOT_INTS, slots): slots_at
    int32_t *page_tables;     // (slots, table_width)
    int32_t *decode_inputs;   // (5, slots): tokens, positions, pages, places, and the slots' own numbers
    int32_t *sampled;         // (slots, DECODE_STEPS)
    float *sampled_logprobs;  // (slots, DECODE_STEPS)
    int32_t *prefill_inputs;  // prefill_input_limit: likewise of prompts, and their page tables

    void place_activations(Arena &arena, const eng_config &c);
    void place_head(Arena &arena, const eng_config &c);
    void place_cache(Arena &arena, const eng_config &c);
    void place_other(Arena &arena, const eng_config &c, const std::vector<Group> &groups);
};

constexpr int64_t STAGING = 1 << 20; // elements that eng_put and eng_get convert at a time

// Most words of a pass's inputs: tokens and positions of rows; starts, lengths
// and trunks of sequences; tiles, of which a sequence may have three more than its
// rows fill (list_tiles); blocks; row and id of each target; for the embedding's
// gradient three more of each row.
inline int64_t pass_input_limit(const eng_config &c) {
    const int64_t rows = c.pass_tokens;
    if (rows == 0) return 0;
    const int64_t lookups = c.train && !frozen(c) ? 3 * rows + 1 : 0;
    const int64_t sequences = c.pass_sequences, tiles = rows / BLOCK_ROWS + 3 * sequences;
    return 4 * rows + 3 * sequences + 2 * tiles + block_limit(c) + 1 + lookups;
}

// Most words of a prefill's inputs: token, position, page, place, table and
// position in it of each row; starts and lengths of pieces and their tiles, which
// over pages end where a page does, and may need one for the rows after them; page tables.
inline int64_t prefill_input_limit(const eng_config &c) {
    const int64_t rows = prefill_rows(c), pieces = rows / ENG_ROW_ALIGN;
    return 6 * rows + 2 * pieces + 5 * (rows / BLOCK_ROWS + 3 * pieces) + prefill_table_limit(c);
}

template <class T>
void Buffers<T>::place_activations(Arena &arena, const eng_config &c) {
    const int64_t rows = c.pass_tokens, h = c.hidden, q = query_width(c), wide = qkv_width(c), inner = c.intermediate;
    const bool own_states = c.train && c.recompute != ENG_OFFLOAD, own_core = c.train && c.recompute < ENG_RECOMPUTE_BLOCK,
               own_cheap = c.train && c.recompute == ENG_KEEP;
    layers.assign(c.layers, {});
    for (size_t layer = 0; rows > 0 && layer < layers.size(); layer++) {
        // What a layer does not own is the first layer's.
        Activations<T> &a = layers[layer] = layers[0];
        const bool first = layer == 0;
        if (first || own_states) a.input = arena.take<T>(rows * h);
        if (first || own_cheap) {
            a.normed1 = arena.take<T>(rows * h);
            a.normed2 = arena.take<T>(rows * h);
            a.mlp = arena.take<T>(mlp_rows(c) * inner);
        }
        if (first || own_core) {
            a.rstd1 = arena.take<float>(rows);
            a.rstd2 = arena.take<float>(rows);
            a.qkv = arena.take<T>(rows * wide);
            a.mixed = arena.take<T>(rows * q);
            a.lse = arena.take<float>(rows * c.heads);
            a.middle = c.train ? arena.take<T>(rows * h) : a.input;
            a.gate_up = arena.take<T>(mlp_rows(c) * 2 * inner);
            if (c.train && c.qk_norm) {
                a.before = arena.take<T>(rows * (q + key_width(c)));
                a.rstd_heads = arena.take<float>(rows * (c.heads + c.kv_heads));
            }
        }
    }
    final = nullptr;
    scratch = {};
    if (rows > 0) {
        final = c.train ? arena.take<T>(rows * h) : layers[0].input;
        scratch.branch = arena.take<T>(rows * h);
        scratch.low = arena.take<T>(rows * low_width(c));
    }
    if (rows > 0 && c.train) {
        scratch.stream = arena.take<T>(rows * h);
        scratch.mixed = arena.take<T>(rows * q);
        scratch.qkv = arena.take<T>(rows * wide);
        scratch.mlp = arena.take<T>(mlp_rows(c) * inner);
        scratch.delta = arena.take<float>(rows * c.heads);
        if (!frozen(c)) {
            int64_t widest = h;
            if (c.qkv_bias && wide > widest) widest = wide;
            if (c.qk_norm && 2 * c.head_dim > widest) widest = 2 * c.head_dim;
            scratch.partials = arena.take<float>(block_limit(c) * widest);
        }
    }
    generate = {};
    if (c.slots > 0) {
        const int64_t most = generate_rows(c);
        generate.stream = arena.take<T>(most * h);
        generate.branch = arena.take<T>(most * h);
        generate.normed = arena.take<T>(most * h);
        generate.qkv = arena.take<T>(most * wide);
        generate.mixed = arena.take<T>(most * q);
        generate.lse = arena.take<float>(most * c.heads);
        generate.gate_up = arena.take<T>(most * 2 * inner);
        generate.mlp = arena.take<T>(most * inner);
        generate.low = arena.take<T>(most * low_width(c));
        generate.work = arena.take<int32_t>(2 * work_limit(c));
        generate.partials = arena.take<float>(partial_room(c) * attention_partial_width(c.heads, c.head_dim));
        generate.arrived = arena.take<int32_t>(most * c.heads);
    }
}

template <class T>
void Buffers<T>::place_head(Arena &arena, const eng_config &c) {
    const int64_t rows = c.pass_tokens, chunk = rows > 0 ? c.head_tokens : 0, most = chunk > c.slots ? chunk : c.slots, h = c.hidden;
    head = {};
    head.logits = arena.take<T>(most * logit_width(c));
    head.normed = arena.take<T>(most * h);
    head.states = arena.take<T>(chunk * h);
    head.rstd = arena.take<float>(chunk);
    if (c.train) {
        head.d_normed = arena.take<T>(chunk * h);
        head.d_states = arena.take<T>(chunk * h);
        head.partials = arena.take<float>(chunk / ENG_ROW_ALIGN * h);
    }
    head.statistics = arena.take<RowStatistics>(rows);
    head.logprobs = arena.take<float>(rows);
    head.entropy = arena.take<float>(rows);
    head.values = arena.take<float>(rows);
}

template <class T>
void Buffers<T>::place_cache(Arena &arena, const eng_config &c) {
    cache = c.slots > 0 ? arena.take<T>(int64_t(c.layers) * 2 * c.cache_pages * ENG_PAGE_TOKENS * key_width(c)) : nullptr;
}

template <class T>
void Buffers<T>::place_other(Arena &arena, const eng_config &c, const std::vector<Group> &groups) {
    int64_t segments = 0;
    for (const Group &group : groups)
        for (const Part &part : group.parts)
            if (group.trained) segments += (part.elements + norm_segment() - 1) / norm_segment();
    const int64_t chunk = c.pass_tokens > 0 ? c.head_tokens : 0, slot_count = c.slots;
    frequencies = arena.take<float>(int64_t(c.layers) * (c.head_dim / 2 + 1));
    pass_inputs = arena.take<int32_t>(pass_input_limit(c));
    head_blocks = arena.take<int32_t>(chunk / ENG_ROW_ALIGN + 1);
    staging = arena.take<float>(2 * STAGING);
    squares = arena.take<double>(segments);
    total = arena.take<double>(2);
    slots = arena.take<int32_t>(SLOT_INTS * slot_count);
    page_tables = arena.take<int32_t>(slot_count * table_width(c));
    decode_inputs = arena.take<int32_t>(5 * slot_count);
    sampled = arena.take<int32_t>(slot_count * DECODE_STEPS);
    sampled_logprobs = arena.take<float>(slot_count * DECODE_STEPS);
    prefill_inputs = arena.take<int32_t>(slot_count > 0 ? prefill_input_limit(c) : 0);
}

} // namespace lathe
