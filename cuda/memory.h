// memory.h: every byte that an engine holds on the device, from its eng_config alone.
//
// An engine allocates once for each use (weights, gradients, optimizer state,
// activations, head, cache, other), when it is opened. What a use holds is
// written once, as a list of buffers in the order in which they lie: an Arena
// without memory adds up their sizes, and the same list run on an Arena with
// memory hands out the pointers. Each buffer is rounded up to BUFFER_BYTES.
//
// pkg/policy/cuda plans with the same arithmetic in Go, and a test there opens
// engines and compares the bytes of eng_get_stats with its plan.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "engine.h"

namespace lathe {

constexpr int64_t BUFFER_BYTES = 256; // buffers start at multiples of it
constexpr int64_t BLOCK_ROWS = 64;    // rows of a block of a sequence, over which gradients of norms and biases add up
constexpr int64_t DECODE_STEPS = 64;  // steps of eng_decode whose tokens are on the device at a time
constexpr int64_t LOGIT_ALIGN = 64;   // a row of logits has a multiple of so many elements

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

inline int64_t query_width(const eng_config &c) { return int64_t(c.heads) * c.head_dim; }
inline int64_t key_width(const eng_config &c) { return int64_t(c.kv_heads) * c.head_dim; }
inline int64_t qkv_width(const eng_config &c) { return query_width(c) + 2 * key_width(c); }
inline int64_t logit_width(const eng_config &c) { return round_up(c.vocabulary, LOGIT_ALIGN); }
inline bool frozen(const eng_config &c) { return c.lora_rank > 0; } // the base is
inline bool has_masters(const eng_config &c) { return c.dtype == ENG_BF16 && c.state_dtype == ENG_F32; }
inline int64_t element_bytes(eng_dtype dtype) { return dtype == ENG_F32 ? 4 : 2; }

// Arena hands out buffers of one allocation. Without memory it counts.
class Arena {
public:
    explicit Arena(void *base = nullptr) : base_(static_cast<char *>(base)) {}

    template <class T>
    T *take(int64_t count) { return reinterpret_cast<T *>(bytes(count * int64_t(sizeof(T)))); }

    void *bytes(int64_t count) {
        char *buffer = base_ ? base_ + used_ : nullptr;
        used_ += round_up(count, BUFFER_BYTES);
        return buffer;
    }

    int64_t used() const { return used_; }

private:
    char *base_;
    int64_t used_ = 0;
};

// Part is one tensor of a layout, by the names of engine.h.
struct Part {
    int32_t role, layer;
    int64_t elements;
};

// Group is one tensor, or several that lie one after the other and are used as
// one, with all that is held of it. What is not held is null.
struct Group {
    std::vector<Part> parts;
    int64_t elements = 0;
    bool matrix = false;  // weight decay applies
    bool wide = false;    // weights are float32, whatever eng_config.dtype is
    bool trained = false; // has a gradient and optimizer state
    int64_t first = 0;    // trained elements before it: the number of its first element in the order of the layout

    void *weights = nullptr;
    float *master = nullptr;
    float *gradient = nullptr;
    void *exp_avg = nullptr, *exp_avg_sq = nullptr;
};

// The groups of a policy in the order of pkg/policy's layouts: those of its own
// tensors, of the adapter's, and the value head.
std::vector<Group> groups_of(const eng_config &c);

// Place the groups' weights, gradients and optimizer state, which is in memory of the
// host where eng_config.host_state is set. The gradient of a
// tied embedding's use as a table, (vocabulary, hidden), lies after the others.
void place_weights(Arena &arena, std::vector<Group> &groups, const eng_config &c);
void place_gradients(Arena &arena, std::vector<Group> &groups, float **lookups, const eng_config &c);
void place_state(Arena &arena, std::vector<Group> &groups, const eng_config &c);

// Bytes of the optimizer's state, wherever it is.
int64_t state_bytes(const eng_config &c);

// Elements of a partial sum of gradients: all gradients as they lie, but for a
// tied embedding's use as a table, which is added to its head's before.
int64_t sum_elements(const eng_config &c);

// Bytes of each use; spilled ones are the host's.
struct Memory {
    int64_t weights, gradients, sums, state, activations, head, cache, other;
    int64_t spilled;
    int64_t total() const { return weights + gradients + sums + state + activations + head + cache + other; }
};

Memory memory_of(const eng_config &c);

} // namespace lathe
