#include "memory.h"

#include <initializer_list>

#include "buffers.h"

namespace lathe {

namespace {

// Layout appends groups in order.
class Layout {
public:
    Layout(std::vector<Group> &groups, bool trained) : groups_(groups), trained_(trained) {}

    void matrix(std::initializer_list<Part> parts) { add(parts).matrix = true; }
    void vector(std::initializer_list<Part> parts) { add(parts); }

    Group &add(const std::vector<Part> &parts) {
        Group group;
        group.parts = parts;
        for (const Part &part : parts) group.elements += part.elements;
        group.trained = trained_;
        groups_.push_back(group);
        return groups_.back();
    }

private:
    std::vector<Group> &groups_;
    bool trained_;
};

void add_base(std::vector<Group> &groups, const eng_config &c) {
    Layout layout(groups, c.train && !frozen(c));
    const int64_t hidden = c.hidden, inner = c.intermediate, q = query_width(c), kv = key_width(c), head = c.head_dim;
    layout.matrix({{ENG_EMBEDDING, 0, c.vocabulary * hidden}});
    for (int32_t i = 0; i < c.layers; i++) {
        layout.vector({{ENG_INPUT_NORM, i, hidden}});
        layout.matrix({{ENG_Q, i, q * hidden}, {ENG_K, i, kv * hidden}, {ENG_V, i, kv * hidden}});
        if (c.qkv_bias) layout.vector({{ENG_Q_BIAS, i, q}, {ENG_K_BIAS, i, kv}, {ENG_V_BIAS, i, kv}});
        if (c.qk_norm) layout.vector({{ENG_Q_NORM, i, head}, {ENG_K_NORM, i, head}});
        layout.matrix({{ENG_O, i, hidden * q}});
        layout.vector({{ENG_POST_NORM, i, hidden}});
        layout.matrix({{ENG_GATE, i, inner * hidden}, {ENG_UP, i, inner * hidden}});
        layout.matrix({{ENG_DOWN, i, hidden * inner}});
    }
    layout.vector({{ENG_FINAL_NORM, 0, hidden}});
    if (!c.tied) layout.matrix({{ENG_HEAD, 0, c.vocabulary * hidden}});
}

// The A of projections that share their input are one group; each B is one.
void add_adapter(std::vector<Group> &groups, const eng_config &c) {
    Layout layout(groups, c.train);
    const int64_t hidden = c.hidden, inner = c.intermediate, q = query_width(c), kv = key_width(c), rank = c.lora_rank;
    struct Projection {
        uint32_t target;
        int32_t role;
        int64_t out, in;
    };
    const std::vector<std::vector<Projection>> inputs = {
        {{ENG_LORA_Q, ENG_Q, q, hidden}, {ENG_LORA_K, ENG_K, kv, hidden}, {ENG_LORA_V, ENG_V, kv, hidden}},
        {{ENG_LORA_O, ENG_O, hidden, q}},
        {{ENG_LORA_GATE, ENG_GATE, inner, hidden}, {ENG_LORA_UP, ENG_UP, inner, hidden}},
        {{ENG_LORA_DOWN, ENG_DOWN, hidden, inner}},
    };
    for (int32_t i = 0; i < c.layers; i++) {
        for (const std::vector<Projection> &input : inputs) {
            std::vector<Part> down;
            for (const Projection &p : input)
                if (c.lora_targets & p.target) down.push_back({ENG_LORA_A + p.role, i, rank * p.in});
            if (!down.empty()) layout.add(down).matrix = true;
            for (const Projection &p : input)
                if (c.lora_targets & p.target) layout.matrix({{ENG_LORA_B + p.role, i, p.out * rank}});
        }
    }
}

} // namespace

std::vector<Group> groups_of(const eng_config &c) {
    std::vector<Group> groups;
    add_base(groups, c);
    if (frozen(c)) add_adapter(groups, c);
    if (c.value_head) {
        Layout(groups, c.train).matrix({{ENG_VALUE_HEAD, 0, c.hidden}}); // (1, hidden)
        groups.back().wide = true;
    }
    int64_t first = 0;
    for (Group &group : groups) {
        group.first = first;
        if (group.trained) first += group.elements;
    }
    return groups;
}

void place_weights(Arena &arena, std::vector<Group> &groups, const eng_config &c) {
    for (Group &group : groups) group.weights = arena.bytes(group.elements * (group.wide ? 4 : element_bytes(c.dtype)));
}

void place_gradients(Arena &arena, std::vector<Group> &groups, float **lookups, const eng_config &c) {
    for (Group &group : groups)
        if (group.trained) group.gradient = arena.take<float>(group.elements);
    *lookups = c.train && !frozen(c) && c.tied ? arena.take<float>(int64_t(c.vocabulary) * c.hidden) : nullptr;
}

int64_t sum_elements(const eng_config &c) {
    Arena arena;
    for (const Group &group : groups_of(c))
        if (group.trained) arena.take<float>(group.elements);
    return arena.used() / int64_t(sizeof(float));
}

void place_state(Arena &arena, std::vector<Group> &groups, const eng_config &c) {
    if (c.train == ENG_GRADIENTS) return;
    for (Group &group : groups) {
        if (!group.trained) continue;
        group.exp_avg = arena.bytes(group.elements * element_bytes(c.state_dtype));
        group.exp_avg_sq = arena.bytes(group.elements * element_bytes(c.state_dtype));
        if (has_masters(c) && !group.wide) group.master = arena.take<float>(group.elements);
    }
}

int64_t state_bytes(const eng_config &c) {
    Arena arena;
    std::vector<Group> groups = groups_of(c);
    place_state(arena, groups, c);
    return arena.used();
}

namespace {

template <class T>
Memory measure(const eng_config &c) {
    Memory m{};
    std::vector<Group> groups = groups_of(c);
    Buffers<T> buffers;
    float *lookups;
    auto used = [](auto place) {
        Arena arena;
        place(arena);
        return arena.used();
    };
    m.weights = used([&](Arena &arena) { place_weights(arena, groups, c); });
    m.gradients = used([&](Arena &arena) { place_gradients(arena, groups, &lookups, c); });
    m.sums = c.gradient_sums * sum_elements(c) * int64_t(sizeof(float));
    m.spilled = c.spilled_sums * sum_elements(c) * int64_t(sizeof(float)) + offloaded_rows(c) * c.hidden * int64_t(sizeof(T));
    (c.host_state ? m.spilled : m.state) += state_bytes(c);
    m.activations = used([&](Arena &arena) { buffers.place_activations(arena, c); });
    m.head = used([&](Arena &arena) { buffers.place_head(arena, c); });
    m.cache = used([&](Arena &arena) { buffers.place_cache(arena, c); });
    m.other = used([&](Arena &arena) { buffers.place_other(arena, c, groups); });
    return m;
}

} // namespace

Memory memory_of(const eng_config &c) { return c.dtype == ENG_F32 ? measure<float>(c) : measure<bf16>(c); }

} // namespace lathe
