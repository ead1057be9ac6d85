// engine_training_test.cpp: gradients against finite differences, the bits that no division of the work may change, adapters and
// optimizer steps.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine_test.h"

namespace lathe::test {

// Derivatives of a loss by each token's log-probability, entropy and value.
struct Coefficients {
    std::vector<float> logprob, entropy, value;
    Coefficients(const Batch &batch, uint64_t seed) {
        Random random(seed);
        for (std::vector<float> *all : {&logprob, &entropy, &value})
            for (size_t i = 0; i < batch.size(); i++) all->push_back(random.uniform(-1, 1));
    }
};

static double loss(Engine &engine, const Batch &batch, const Coefficients &c, const eng_sampling &sampling) {
    const Results r = forward(engine, batch, sampling);
    double sum = 0;
    for (size_t i = 0; i < batch.size(); i++) {
        sum += double(c.logprob[i]) * r.logprobs[i] + double(c.entropy[i]) * r.entropy[i];
        if (!r.values.empty()) sum += double(c.value[i]) * r.values[i];
    }
    return sum;
}

static void backward(Engine &engine, const Batch &batch, const Coefficients &c, const eng_sampling &sampling, Results *results = nullptr) {
    const Results r = forward(engine, batch, sampling, true);
    if (results) *results = r;
    OK(engine.e, eng_backward(engine.e, c.logprob.data(), c.entropy.data(), r.values.empty() ? nullptr : c.value.data()));
}

// The derivative along a random direction of the tensors of each role, by central
// differences of fourth order: with steps of 0.003 and float32 sums both the
// truncation and the rounding are below a thousandth of it.
static void test_derivatives(const Shape &shape, const std::vector<int32_t> &trunks) {
    Engine engine(shape.config);
    Batch batch = random_batch(shape.config, {13, 1, 21}, 3);
    batch.trunks = trunks;
    const Coefficients c(batch, 4);
    const eng_sampling sampling = {0.8f, 0, 0};
    backward(engine, batch, c, sampling);
    std::map<int32_t, std::vector<Name>> by_role;
    for (const Name &name : engine.trained) by_role[name.role].push_back(name);
    Random random(6);
    for (const auto &[role, names] : by_role) {
        Tensors weights, directions;
        double got = 0, size = 0;
        for (const Name &name : names) {
            weights[name] = engine.get(name, ENG_WEIGHT);
            for (float g : engine.get(name, ENG_GRADIENT)) {
                directions[name].push_back(random.uniform(-1, 1));
                got += double(g) * directions[name].back();
                size += double(g) * g;
            }
        }
        auto at = [&](float step) {
            for (const Name &name : names) {
                std::vector<float> moved = weights[name];
                for (size_t i = 0; i < moved.size(); i++) moved[i] += step * directions[name][i];
                engine.put(name, ENG_WEIGHT, moved);
            }
            return loss(engine, batch, c, sampling);
        };
        const float step = 0.003f;
        const double want = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * double(step));
        at(0);
        EXPECT(fabs(got - want) <= 2e-3 * sqrt(size) + 2e-3, std::string(shape.name) + " role " + std::to_string(role) + ": " +
                                                               std::to_string(got) + ", differences give " + std::to_string(want));
    }
}

void test_gradients() {
    for (const Shape &shape : shapes()) {
        test_derivatives(shape, {});
        test_derivatives(shape, {-1, 0, 0});
    }
}

static bool same(const Tensors &a, const Tensors &b) {
    for (const auto &[name, values] : a)
        if (b.at(name) != values) {
            printf("    role %d layer %d differs\n", name.role, name.layer);
            return false;
        }
    return a.size() == b.size();
}

// What a batch gives and leaves in the gradients, done in `calls` calls.
static std::pair<Results, Tensors> run(const eng_config &config, const Batch &batch, int calls) {
    Engine engine(config);
    Results all;
    const eng_sampling sampling = {1.25f, 9, 0.9f};
    const int32_t sequences = int32_t(batch.offsets.size()) - 1;
    const Coefficients c(batch, 8);
    for (int32_t call = 0; call < calls; call++) {
        const int32_t first = sequences * call / calls, last = sequences * (call + 1) / calls;
        const Batch some = part(batch, first, last);
        Coefficients own(some, 0);
        for (size_t i = 0; i < some.size(); i++) {
            const size_t from = batch.offsets[first] + i;
            own.logprob[i] = c.logprob[from], own.entropy[i] = c.entropy[from], own.value[i] = c.value[from];
        }
        Results r;
        backward(engine, some, own, sampling, &r);
        all.logprobs.insert(all.logprobs.end(), r.logprobs.begin(), r.logprobs.end());
        all.entropy.insert(all.entropy.end(), r.entropy.begin(), r.entropy.end());
        all.values.insert(all.values.end(), r.values.begin(), r.values.end());
    }
    return {all, engine.gradients()};
}

// The bits of a shape's batch, whose families are three calls long.
static void test_bits_of(const Shape &shape, eng_dtype dtype, const std::vector<int32_t> &trunks) {
    eng_config config = shape.config;
    config.dtype = dtype;
    config.pass_tokens = 400;
    Batch batch = random_batch(config, {19, 0, 70, 3, 1, 25}, 5);
    batch.trunks = trunks;
    const std::string name = shape.name + std::string(trunks.empty() ? ": " : " with trunks: ");
    const auto [results, gradients] = run(config, batch, 1);
    float largest = 0;
    for (float x : results.logprobs) largest = fmaxf(largest, fabsf(x));
    EXPECT(largest > 1 && isfinite(largest));
    auto agrees = [&](const char *what, const eng_config &other, int calls) {
        const auto [r, g] = run(other, batch, calls);
        EXPECT(r == results, name + what);
        EXPECT(same(g, gradients), name + what);
    };
    if (trunks.empty()) agrees("sequence by sequence", config, 6);
    agrees("in three calls", config, 3);
    eng_config other = config;
    other.head_tokens = 16;
    agrees("small chunks of the head", other, 1);
    other.head_tokens = 256;
    agrees("one chunk of the head", other, 1);
    other = config;
    other.recompute = ENG_RECOMPUTE_MLP;
    agrees("norms and SwiGLU again", other, 1);
    other.recompute = ENG_RECOMPUTE_BLOCK;
    other.head_tokens = 48;
    agrees("blocks again, in three calls", other, 3);
    other.mlp_tokens = 48;
    agrees("blocks again, MLP by rows", other, 1);
    other.recompute = ENG_OFFLOAD;
    other.mlp_tokens = 16;
    agrees("blocks again from inputs on the host, in three calls", other, 3);
    other = config;
    other.train = 0;
    other.mlp_tokens = 32;
    Engine reader(other);
    EXPECT(forward(reader, batch, {1.25f, 9, 0.9f}) == results, name + "without train");
}

void test_same_bits() {
    for (const Shape &shape : shapes())
        for (eng_dtype dtype : {ENG_F32, ENG_BF16}) {
            test_bits_of(shape, dtype, {});
            test_bits_of(shape, dtype, {-1, 0, -1, 2, -1, 4});
        }
}

// LATHE_GEMM chooses the instructions of an engine's products when it is opened.
void test_paths() {
    const char *variable = "LATHE_GEMM", *before = getenv(variable);
    const std::string own = before ? before : "";
    eng_config config = base_config();
    config.dtype = ENG_BF16;
    config.pass_tokens = 400;
    const Batch batch = random_batch(config, {19, 0, 70, 3, 1, 25}, 5);
    eng *e = nullptr;

    setenv(variable, "tensor", 1);
    FAILS(nullptr, ENG_ARGUMENT, "LATHE_GEMM is tensor", eng_open(0, &config, &e));
    setenv(variable, "mma", 1);
    const auto [results, gradients] = run(config, batch, 1);
    setenv(variable, "wgmma", 1);
    const int32_t status = eng_open(0, &config, &e);
    if (status == ENG_NO_DEVICE && !emulated()) {
        EXPECT(strstr(eng_error(nullptr), "LATHE_GEMM is wgmma, but") != nullptr, eng_error(nullptr));
    } else {
        OK(nullptr, status);
        eng_close(e);
        const auto [whole, whole_gradients] = run(config, batch, 1);
        const auto [parts, parts_gradients] = run(config, batch, 6);
        EXPECT(parts == whole && same(parts_gradients, whole_gradients), "sequence by sequence");
        // Emulated, both are the same chains of fused products.
        if (emulated()) EXPECT(whole == results && same(whole_gradients, gradients), "on either path");
    }
    if (before) setenv(variable, own.c_str(), 1);
    else unsetenv(variable);
}

void test_adapters() {
    for (eng_dtype dtype : {ENG_F32, ENG_BF16}) {
        eng_config adapted = base_config(), bare = adapted;
        adapted.lora_rank = 4, adapted.lora_targets = 127, adapted.lora_scale = 2;
        adapted.dtype = bare.dtype = dtype;
        Engine with(adapted), without(bare);
        const Batch batch = random_batch(bare, {30, 17}, 2);
        const Coefficients c(batch, 1);
        const eng_sampling all = {1, 0, 0};
        const Results base = forward(without, batch), changed = forward(with, batch);
        EXPECT(!(base == changed));
        OK(with.e, eng_adapter(with.e, 0));
        EXPECT(forward(with, batch) == base);
        forward(with, batch, all, true);
        FAILS(with.e, ENG_ARGUMENT, "switched off", eng_backward(with.e, c.logprob.data(), nullptr, nullptr));
        OK(with.e, eng_adapter(with.e, 1));
        FAILS(with.e, ENG_ARGUMENT, "no forward pass", eng_backward(with.e, c.logprob.data(), nullptr, nullptr));
        EXPECT(forward(with, batch) == changed);
        // A step moves the adapter alone.
        backward(with, batch, c, all);
        const eng_adamw adamw = {0.01, 0.9, 0.99, 1e-8, 0.1, 0, 1, {1, 2}, 3, 0, 0};
        eng_step_stats stats;
        OK(with.e, eng_step(with.e, &adamw, &stats));
        EXPECT(!stats.skipped && stats.grad_norm > 0);
        EXPECT(!(forward(with, batch) == changed));
        OK(with.e, eng_adapter(with.e, 0));
        EXPECT(forward(with, batch) == base);
        // With B of zeros an adapter adds products of zero.
        OK(with.e, eng_adapter(with.e, 1));
        for (const Name &name : with.trained)
            if (name.role >= ENG_LORA_B) with.put(name, ENG_WEIGHT, std::vector<float>(with.sizes[name], 0));
        EXPECT(forward(with, batch) == base);
        FAILS(with.e, ENG_ARGUMENT, "not trained", eng_put(with.e, ENG_Q, 0, ENG_GRADIENT, 0, 1, c.value.data()));
    }
}

// One step from moments of zero changes a weight by lr·(g/(|g| + eps) + decay·w), with g the clipped gradient.
static void test_first_step(bool clip) {
    eng_config config = base_config();
    config.tied = 1;
    Engine engine(config);
    const Batch batch = random_batch(config, {20, 31}, 2);
    backward(engine, batch, Coefficients(batch, 1), {1, 0, 0});
    Tensors before, gradients = engine.gradients();
    double squares = 0;
    for (const Name &name : engine.trained) {
        before[name] = engine.get(name, ENG_WEIGHT);
        for (float g : gradients[name]) squares += double(g) * g;
    }
    const eng_adamw adamw = {0.01, 0.9, 0.99, 1e-3, 0.1, clip ? 0.5 : 0, 1, {0, 0}, 0, 0, 0};
    eng_step_stats stats;
    OK(engine.e, eng_step(engine.e, &adamw, &stats));
    EXPECT(fabs(stats.grad_norm / sqrt(squares) - 1) < 1e-6);
    EXPECT(fabs(stats.scale - (clip ? 0.5 / (stats.grad_norm + 1e-6) : 1)) < 1e-9 && !stats.skipped);
    for (const Name &name : engine.trained) {
        const std::vector<float> after = engine.get(name, ENG_WEIGHT);
        const bool matrix = name.role == ENG_EMBEDDING || (name.role >= ENG_Q && name.role <= ENG_O) || name.role >= ENG_GATE;
        double worst = 0;
        for (size_t i = 0; i < after.size(); i++) {
            const double g = gradients[name][i] * stats.scale, w = before[name][i];
            worst = fmax(worst, fabs(after[i] - (w - 0.01 * (g / (fabs(g) + 1e-3) + (matrix ? 0.1 * w : 0)))));
        }
        EXPECT(worst < 1e-6, "role " + std::to_string(name.role) + ": " + std::to_string(worst));
        EXPECT(engine.get(name, ENG_GRADIENT) == gradients[name]); // they are left
    }
}

static void test_skipped_step() {
    for (float bad : {NAN, INFINITY}) {
        Engine engine(base_config());
        const Results before = forward(engine, random_batch(engine.config, {9}, 1));
        std::vector<float> gradient(engine.sizes[{ENG_DOWN, 1}], 0.5f);
        gradient[7] = bad;
        engine.put({ENG_DOWN, 1}, ENG_GRADIENT, gradient);
        const eng_adamw adamw = {0.01, 0.9, 0.99, 1e-8, 0.1, 1, 1, {0, 0}, 0, 0, 0};
        eng_step_stats stats;
        OK(engine.e, eng_step(engine.e, &adamw, &stats));
        EXPECT(stats.skipped && stats.scale == 0 && !isfinite(stats.grad_norm));
        EXPECT(forward(engine, random_batch(engine.config, {9}, 1)) == before);
        for (float x : engine.get({ENG_DOWN, 1}, ENG_EXP_AVG)) EXPECT(x == 0);
    }
}

// A tied embedding's gradient is read as the sum of its uses, and writing it replaces both.
static void test_tied_gradient() {
    eng_config config = base_config();
    config.tied = 1;
    Engine tied(config);
    config.tied = 0;
    Engine untied(config);
    untied.put({ENG_HEAD, 0}, ENG_WEIGHT, untied.get({ENG_EMBEDDING, 0}, ENG_WEIGHT));
    const Batch batch = random_batch(config, {20, 31}, 2);
    for (Engine *engine : {&tied, &untied}) backward(*engine, batch, Coefficients(batch, 1), {1, 0, 0});
    const std::vector<float> table = untied.get({ENG_EMBEDDING, 0}, ENG_GRADIENT), head = untied.get({ENG_HEAD, 0}, ENG_GRADIENT);
    std::vector<float> sum(table.size());
    for (size_t i = 0; i < sum.size(); i++) sum[i] = head[i] + table[i];
    EXPECT(tied.get({ENG_EMBEDDING, 0}, ENG_GRADIENT) == sum);
    EXPECT(tied.get({ENG_EMBEDDING, 0}, ENG_GRADIENT) == sum); // reading changes nothing
    tied.put({ENG_EMBEDDING, 0}, ENG_GRADIENT, head);
    EXPECT(tied.get({ENG_EMBEDDING, 0}, ENG_GRADIENT) == head);
}

void test_steps() {
    test_first_step(false);
    test_first_step(true);
    test_skipped_step();
    test_tied_gradient();
}

} // namespace lathe::test
