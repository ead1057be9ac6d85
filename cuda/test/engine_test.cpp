// engine_test.cpp: tests of the functions of engine.h.
//
//   engine_test [part of a test's name]…
#include "engine_test.h"

#include <string.h>

#include <chrono>
#include <stdexcept>

namespace lathe::test {

namespace {

int failures = 0, checks = 0;

// Of as many layers as a test has, with the factor after each layer's.
const float frequencies[] = {1, 0.1f, 0.01f, 0.001f, 1, 1, 0.1f, 0.01f, 0.001f, 1, 1, 0.1f, 0.01f, 0.001f, 1, 1, 0.1f, 0.01f, 0.001f, 1};

} // namespace

bool expect_true(bool condition, const char *what, const char *file, int line, const std::string &detail) {
    checks++;
    if (condition) return true;
    failures++;
    printf("    %s:%d: not so: %s %s\n", file, line, what, detail.c_str());
    return false;
}

bool expectations_failed() { return failures > 0; }

bool expect_status(int32_t got, int32_t want, const eng *e, const char *text, const char *what, const char *file, int line) {
    checks++;
    if (got == want && (want == ENG_OK || strstr(eng_error(e), text))) return true;
    failures++;
    printf("    %s:%d: %s gave %d (%s); wanted %d%s%s\n", file, line, what, got, got == ENG_OK ? "" : eng_error(e), want,
           *text ? " with " : "", text);
    return false;
}

uint32_t Random::word() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    const uint64_t mixed = (state_ ^ state_ >> 29) * 0xbf58476d1ce4e5b9u;
    return uint32_t(mixed >> 32);
}

eng_config base_config() {
    eng_config c{};
    c.vocabulary = 37;
    c.hidden = 24;
    c.intermediate = 40;
    c.layers = 2;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = 8;
    c.max_positions = 200;
    c.rms_eps = 1e-5f;
    c.rope_frequencies = frequencies;
    c.dtype = ENG_F32;
    c.state_dtype = ENG_F32;
    c.train = 1;
    c.pass_tokens = 256;
    c.pass_sequences = 8;
    c.recompute = ENG_KEEP;
    c.head_tokens = 64;
    return c;
}

std::vector<Shape> shapes() {
    eng_config llama = base_config(), qwen2 = base_config(), qwen3 = base_config(), adapted = base_config();
    qwen2.qkv_bias = qwen2.tied = 1;
    qwen3.qk_norm = qwen3.value_head = 1;
    qwen3.kv_heads = 1;
    adapted.lora_rank = 3;
    adapted.lora_targets = ENG_LORA_Q | ENG_LORA_V | ENG_LORA_O | ENG_LORA_UP | ENG_LORA_DOWN;
    adapted.lora_scale = 0.5f;
    adapted.qk_norm = adapted.value_head = 1;
    return {{"llama", llama}, {"qwen2", qwen2}, {"qwen3", qwen3}, {"adapted", adapted}};
}

// The tensors of a configuration, listed without regard to how the engine does.
static std::map<Name, int64_t> sizes_of(const eng_config &c) {
    std::map<Name, int64_t> sizes;
    const int64_t h = c.hidden, i = c.intermediate, q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    sizes[{ENG_EMBEDDING, 0}] = c.vocabulary * h;
    if (!c.tied) sizes[{ENG_HEAD, 0}] = c.vocabulary * h;
    sizes[{ENG_FINAL_NORM, 0}] = h;
    if (c.value_head) sizes[{ENG_VALUE_HEAD, 0}] = h;
    struct Projection {
        eng_role role;
        int64_t out, in;
        uint32_t target;
    };
    const Projection projections[] = {{ENG_Q, q, h, ENG_LORA_Q},  {ENG_K, kv, h, ENG_LORA_K},      {ENG_V, kv, h, ENG_LORA_V},
                                      {ENG_O, h, q, ENG_LORA_O},  {ENG_GATE, i, h, ENG_LORA_GATE}, {ENG_UP, i, h, ENG_LORA_UP},
                                      {ENG_DOWN, h, i, ENG_LORA_DOWN}};
    for (int32_t l = 0; l < c.layers; l++) {
        sizes[{ENG_INPUT_NORM, l}] = sizes[{ENG_POST_NORM, l}] = h;
        for (const Projection &p : projections) {
            sizes[{p.role, l}] = p.out * p.in;
            if (c.lora_rank == 0 || !(c.lora_targets & p.target)) continue;
            sizes[{ENG_LORA_A + p.role, l}] = c.lora_rank * p.in;
            sizes[{ENG_LORA_B + p.role, l}] = p.out * c.lora_rank;
        }
        if (c.qkv_bias) {
            sizes[{ENG_Q_BIAS, l}] = q;
            sizes[{ENG_K_BIAS, l}] = sizes[{ENG_V_BIAS, l}] = kv;
        }
        if (c.qk_norm) sizes[{ENG_Q_NORM, l}] = sizes[{ENG_K_NORM, l}] = c.head_dim;
    }
    return sizes;
}

static bool is_norm(int32_t role) {
    return role == ENG_FINAL_NORM || role == ENG_INPUT_NORM || role == ENG_POST_NORM || role == ENG_Q_NORM || role == ENG_K_NORM;
}

Engine::Engine(const eng_config &c, uint64_t seed) : config(c), sizes(sizes_of(c)) {
    if (!OK(e, eng_open(0, &c, &e))) throw std::runtime_error("there is no engine");
    for (const auto &[name, size] : sizes) {
        Random random(seed * 1000 + name.role * 10 + name.layer);
        std::vector<float> values(size);
        for (float &x : values) x = is_norm(name.role) ? random.uniform(0.7f, 1.3f) : random.uniform(-0.4f, 0.4f);
        put(name, ENG_WEIGHT, values);
        if (c.lora_rank == 0 || name.role >= ENG_LORA_A || name.role == ENG_VALUE_HEAD) trained.push_back(name);
    }
}

std::vector<float> Engine::get(Name name, eng_kind kind) const {
    std::vector<float> values(sizes.at(name));
    OK(e, eng_get(e, name.role, name.layer, kind, 0, int64_t(values.size()), values.data()));
    return values;
}

void Engine::put(Name name, eng_kind kind, const std::vector<float> &values) {
    OK(e, eng_put(e, name.role, name.layer, kind, 0, int64_t(values.size()), values.data()));
}

Tensors Engine::gradients() const {
    Tensors all;
    for (const Name &name : trained) all[name] = get(name, ENG_GRADIENT);
    return all;
}

void Batch::add(const std::vector<int32_t> &sequence, int32_t first_target) {
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    for (size_t i = 0; i < sequence.size(); i++) targets.push_back(int32_t(i) >= first_target);
    offsets.push_back(int32_t(tokens.size()));
}

Batch random_batch(const eng_config &c, const std::vector<int32_t> &lengths, uint64_t seed) {
    Random random(seed);
    Batch batch;
    for (int32_t length : lengths) {
        std::vector<int32_t> sequence(length);
        for (int32_t &token : sequence) token = random.below(c.vocabulary);
        batch.add(sequence, 1 + length / 4);
    }
    return batch;
}

bool emulated() {
    eng_device device{};
    return OK(nullptr, eng_describe(0, &device)) && strstr(device.name, "emulated") != nullptr;
}

Batch part(const Batch &batch, int32_t first, int32_t last) {
    Batch some;
    for (int32_t s = first; s < last; s++) {
        const int32_t from = batch.offsets[s], to = batch.offsets[s + 1];
        some.tokens.insert(some.tokens.end(), batch.tokens.begin() + from, batch.tokens.begin() + to);
        some.targets.insert(some.targets.end(), batch.targets.begin() + from, batch.targets.begin() + to);
        some.offsets.push_back(int32_t(some.tokens.size()));
        if (!batch.trunks.empty()) some.trunks.push_back(std::max(-1, batch.trunks[s] - first));
    }
    return some;
}

Results forward(Engine &engine, const Batch &batch, const eng_sampling &sampling, bool keep) {
    Results r;
    r.logprobs.resize(batch.size());
    r.entropy.resize(batch.size());
    if (engine.config.value_head) r.values.resize(batch.size());
    const eng_batch view = batch.view();
    OK(engine.e, eng_forward(engine.e, &view, &sampling, keep, r.logprobs.data(), r.entropy.data(),
                             engine.config.value_head ? r.values.data() : nullptr));
    return r;
}

} // namespace lathe::test

int main(int argc, char **argv) {
    using namespace lathe::test;
    setvbuf(stdout, nullptr, _IOLBF, 0); // what is known is told before what ends the program
    const struct {
        const char *name;
        void (*run)();
    } tests[] = {{"arguments", test_arguments}, {"memory", test_memory},       {"transfers", test_transfers},
                 {"gradients", test_gradients}, {"same bits", test_same_bits}, {"paths", test_paths}, {"adapters", test_adapters},
                 {"steps", test_steps},         {"sums", test_sums},           {"generation", test_generation},
                 {"failures", test_failures}};
    for (const auto &test : tests) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; i++) wanted = wanted || strstr(test.name, argv[i]);
        if (!wanted) continue;
        const int before = failures;
        const auto begin = std::chrono::steady_clock::now();
        try {
            test.run();
        } catch (const std::exception &x) {
            EXPECT(false, std::string("ended: ") + x.what());
        }
        printf("%-12s %s %6.2f s\n", test.name, failures == before ? "ok  " : "FAIL",
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    printf("%d checks, %d failures\n", checks, failures);
    return failures > 0;
}
