// engine_contract_test.cpp: what engine.h refuses, what it holds, and what goes in and comes out.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine_test.h"

namespace lathe::test {

static void refuses(const char *text, const std::function<void(eng_config &)> &change) {
    eng_config c = base_config();
    change(c);
    eng *e = nullptr;
    FAILS(nullptr, ENG_ARGUMENT, text, eng_open(0, &c, &e));
    EXPECT(e == nullptr);
}

static void test_configurations() {
    refuses("vocabulary is 0", [](eng_config &c) { c.vocabulary = 0; });
    refuses("vocabulary is 1048576", [](eng_config &c) { c.vocabulary = 1 << 20; });
    refuses("hidden is -1", [](eng_config &c) { c.hidden = -1; });
    refuses("layers", [](eng_config &c) { c.layers = 1 << 24; });
    refuses("even", [](eng_config &c) { c.head_dim = 7; });
    refuses("multiple", [](eng_config &c) { c.heads = 3; });
    refuses("rms_eps", [](eng_config &c) { c.rms_eps = NAN; });
    refuses("rope_frequencies", [](eng_config &c) { c.rope_frequencies = nullptr; });
    refuses("dtype is 2", [](eng_config &c) { c.dtype = eng_dtype(2); });
    refuses("lora_targets is 0", [](eng_config &c) { c.lora_rank = 2; });
    refuses("lora_targets is 1", [](eng_config &c) { c.lora_targets = 1; });
    refuses("lora_scale", [](eng_config &c) { c.lora_rank = 2, c.lora_targets = 1, c.lora_scale = INFINITY; });
    refuses("head_tokens is 24", [](eng_config &c) { c.head_tokens = 24; });
    refuses("pass_sequences is 0", [](eng_config &c) { c.pass_sequences = 0; });
    refuses("cache_pages is 0", [](eng_config &c) { c.slots = 1; });
    refuses("prefill_tokens is 0", [](eng_config &c) { c.slots = c.cache_pages = 1; });
    eng_config c = base_config();
    eng *e = nullptr;
    FAILS(nullptr, ENG_ARGUMENT, "without", eng_open(0, nullptr, &e));
    FAILS(nullptr, ENG_ARGUMENT, "without", eng_open(0, &c, nullptr));
    FAILS(nullptr, ENG_NO_DEVICE, "device 1000", eng_open(1000, &c, &e));
    FAILS(nullptr, ENG_NO_DEVICE, "device -1", eng_open(-1, &c, &e));
}

static void test_order() {
    eng_config c = base_config();
    const eng_sampling all = {1, 0, 0};
    const eng_adamw adamw = {1e-3, 0.9, 0.99, 1e-8, 0, 0, 1, {0, 0}, 0, 0, 0};
    eng_step_stats stats;
    float out[64];
    FAILS(nullptr, ENG_ARGUMENT, "no engine", eng_zero_gradients(nullptr));
    Engine trainer(c);
    eng *e = trainer.e;
    FAILS(e, ENG_ARGUMENT, "no forward pass", eng_backward(e, out, nullptr, nullptr));
    const Batch batch = random_batch(c, {5}, 1);
    forward(trainer, batch, all, true);
    FAILS(e, ENG_ARGUMENT, "value head", eng_backward(e, nullptr, nullptr, out));
    std::vector<float> ones(batch.size(), 1);
    OK(e, eng_backward(e, ones.data(), nullptr, nullptr));
    FAILS(e, ENG_ARGUMENT, "no forward pass", eng_backward(e, ones.data(), nullptr, nullptr));
    forward(trainer, batch, all, true);
    OK(e, eng_step(e, &adamw, &stats));
    FAILS(e, ENG_ARGUMENT, "no forward pass", eng_backward(e, ones.data(), nullptr, nullptr));
    forward(trainer, batch, all, true);
    trainer.put({ENG_FINAL_NORM, 0}, ENG_WEIGHT, trainer.get({ENG_FINAL_NORM, 0}, ENG_WEIGHT));
    FAILS(e, ENG_ARGUMENT, "no forward pass", eng_backward(e, ones.data(), nullptr, nullptr));
    forward(trainer, batch, all, false);
    FAILS(e, ENG_ARGUMENT, "no forward pass", eng_backward(e, ones.data(), nullptr, nullptr));
    eng_adamw wrong = adamw;
    wrong.step = 0;
    FAILS(e, ENG_ARGUMENT, "counted from 1", eng_step(e, &wrong, &stats));
    FAILS(e, ENG_ARGUMENT, "without slots", eng_decode(e, 1, nullptr, nullptr, nullptr, nullptr));
    FAILS(e, ENG_ARGUMENT, "without slots", eng_prefill(e, 0, nullptr));
    FAILS(e, ENG_ARGUMENT, "slot 0", eng_stop(e, 0));
    FAILS(e, ENG_ARGUMENT, "page 0", eng_copy_page(e, 0, 0));

    c.train = 0;
    Engine reader(c);
    FAILS(reader.e, ENG_ARGUMENT, "without train", eng_step(reader.e, &adamw, &stats));
    FAILS(reader.e, ENG_ARGUMENT, "without train", eng_backward(reader.e, out, nullptr, nullptr));
    FAILS(reader.e, ENG_ARGUMENT, "not trained", eng_get(reader.e, ENG_HEAD, 0, ENG_GRADIENT, 0, 1, out));
    const eng_batch view = batch.view();
    FAILS(reader.e, ENG_ARGUMENT, "without train", eng_forward(reader.e, &view, &all, 1, out, out, nullptr));
    OK(reader.e, eng_zero_gradients(reader.e));
}

static void test_batches() {
    Engine engine(base_config());
    eng *e = engine.e;
    float out[512];
    const eng_sampling all = {1, 0, 0};
    auto refused = [&](const char *text, const Batch &batch, eng_sampling sampling) {
        const eng_batch view = batch.view();
        FAILS(e, ENG_ARGUMENT, text, eng_forward(e, &view, &sampling, 0, out, out, nullptr));
    };
    const eng_config &c = engine.config;
    refused("of 9 sequences", random_batch(c, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 1), all);
    refused("201 tokens", random_batch(c, {201}, 1), all);
    refused("272 rows", random_batch(c, {100, 100, 33}, 1), all);
    Batch batch = random_batch(c, {7}, 1);
    refused("temperature", batch, {-1, 0, 0});
    refused("temperature", batch, {NAN, 0, 0});
    refused("top_p", batch, {1, 0, 1.5f});
    batch.tokens[3] = c.vocabulary;
    refused("token 3 has id 37", batch, all);
    batch.tokens[3] = 0;
    batch.targets[0] = 1;
    refused("first token", batch, all);
    batch.targets[0] = 0;
    batch.offsets = {0, 4, 2};
    refused("offsets 4 to 2", batch, all);
    batch.offsets = {1, 7};
    refused("begin at 0", batch, all);
    batch = random_batch(c, {3, 3, 3}, 1);
    const std::vector<int32_t> wrong[] = {{0, -1, -1}, {1, -1, -1}, {-1, -1, 0}, {-1, 0, 1}, {-1, -2, 0}};
    for (const std::vector<int32_t> &trunks : wrong) {
        batch.trunks = trunks;
        refused("goes on from", batch, all);
    }
    batch = random_batch(c, {150, 51}, 1);
    batch.trunks = {-1, 0};
    refused("201 tokens", batch, all);
    batch = random_batch(c, {7}, 1);
    const eng_batch view = batch.view();
    FAILS(e, ENG_ARGUMENT, "value head", eng_forward(e, &view, &all, 0, out, out, out));
    FAILS(e, ENG_ARGUMENT, "without", eng_forward(e, nullptr, &all, 0, out, out, nullptr));
    // Nothing to do is no mistake.
    const Results empty = forward(engine, random_batch(c, {0, 1, 0}, 1), all, true);
    EXPECT(empty.logprobs[0] == 0 && empty.entropy[0] == 0);
    OK(e, eng_backward(e, out, out, nullptr));
    forward(engine, Batch(), all, true);
    OK(e, eng_backward(e, out, out, nullptr));
}

void test_arguments() {
    EXPECT(eng_abi() == ENG_ABI);
    test_configurations();
    test_order();
    test_batches();
    eng_close(nullptr);
}

// A forward pass counts its products and its attention: of 2 sequences with 16
// and 32 rows, 9 + 20 tokens and all of them but the first targets.
static void test_work() {
    const eng_config c = base_config();
    Engine engine(c);
    eng_stats s;
    OK(engine.e, eng_get_stats(engine.e, &s));
    Batch batch;
    batch.add(std::vector<int32_t>(9, 1));
    batch.add(std::vector<int32_t>(20, 2));
    forward(engine, batch);
    OK(engine.e, eng_get_stats(engine.e, &s));
    const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim, block = 2 * c.hidden * (q + kv) + 3 * c.hidden * c.intermediate;
    const int64_t pairs = 9 * 10 / 2 + 20 * 21 / 2;
    EXPECT(s.flops == c.layers * (2 * 48 * block + 4 * pairs * q) + 2 * 48 * c.vocabulary * c.hidden, std::to_string(s.flops));
    EXPECT(s.device_seconds > 0);
    OK(engine.e, eng_get_stats(engine.e, &s));
    EXPECT(s.flops == 0 && s.device_seconds == 0);
}

// Memory that another process takes while an engine is open: the call says so, and
// the engine can only be closed. It can be arranged where memory is emulated.
static void test_robbed() {
    if (!emulated()) return;
    {
        Engine engine(base_config());
        const Batch batch = random_batch(engine.config, {9}, 1);
        const eng_batch view = batch.view();
        const eng_sampling all = {1, 0, 0};
        float out[16];
        {
            Setting memory("LATHE_HOST_MEMORY", "1");
            FAILS(engine.e, ENG_MEMORY, "emory", eng_forward(engine.e, &view, &all, 0, out, out, nullptr));
        }
        FAILS(engine.e, ENG_MEMORY, "emory", eng_zero_gradients(engine.e));
    }
    Engine another(base_config());
    OK(another.e, eng_zero_gradients(another.e));
}

// What keeps CUDA from a device, by the number of its error, and what the caller is told.
static void test_no_device() {
    if (!emulated()) return;
    eng_device device;
    const struct {
        const char *error;
        eng_status status;
    } cases[] = {{"none", ENG_NO_DRIVER}, {"34", ENG_NO_DRIVER}, {"803", ENG_NO_DRIVER}, {"804", ENG_NO_DRIVER},
                 {"0", ENG_NO_DEVICE},    {"46", ENG_NO_DEVICE}, {"802", ENG_NO_DEVICE}, {"719", ENG_DEVICE},
                 {"3", ENG_NO_DEVICE},    {"999", ENG_NO_DEVICE}, {"304", ENG_NO_DEVICE}, {"800", ENG_NO_DEVICE},
                 {"214", ENG_NO_DEVICE},  {"805", ENG_NO_DEVICE}, {"808", ENG_NO_DEVICE}, {"1", ENG_DEVICE},
                 {"12345", ENG_NO_DEVICE}}; // which nobody knows
    const eng_config config = base_config();
    for (const auto &c : cases) {
        Setting devices("LATHE_HOST_DEVICES", c.error);
        eng *e = nullptr;
        FAILS(nullptr, c.status, "cudaGetDeviceCount", eng_describe(0, &device));
        FAILS(nullptr, c.status, "cudaGetDeviceCount", eng_open(0, &config, &e));
        if (atoi(c.error) > 0) FAILS(nullptr, c.status, ("(CUDA error " + std::string(c.error) + ")").c_str(), eng_describe(0, &device));
    }
}

void test_memory() {
    test_work();
    test_robbed();
    test_no_device();
    eng_config c = base_config();
    eng_device device;
    OK(nullptr, eng_describe(0, &device));
    EXPECT(device.memory_bytes > 0 && device.free_bytes > 0 && device.compute_capability >= 80);
    EXPECT(strlen(device.name) > 0);
    FAILS(nullptr, ENG_NO_DEVICE, "device -1 of ", eng_describe(-1, &device));
    FAILS(nullptr, ENG_NO_DEVICE, "device 64 of ", eng_describe(64, &device));
    FAILS(nullptr, ENG_ARGUMENT, "without room", eng_describe(0, nullptr));

    // More than any device has: the text says how much is needed and how much there is.
    c.slots = 1, c.prefill_tokens = 64, c.cache_pages = 1 << 28;
    eng *e = nullptr;
    FAILS(nullptr, ENG_MEMORY, "the engine needs", eng_open(0, &c, &e));
    long long needed = 0, there = 0;
    const char *bytes = strstr(eng_error(nullptr), "other");
    EXPECT(bytes && sscanf(strchr(bytes, ')'), "), %lld bytes", &needed) == 1, eng_error(nullptr));
    bytes = strstr(eng_error(nullptr), " of ");
    EXPECT(bytes && (bytes = strchr(bytes, ',')) && sscanf(bytes, ", %lld bytes", &there) == 1, eng_error(nullptr));
    EXPECT(needed > there && there > 0, eng_error(nullptr));

    // What is open is taken, and what is closed is given back.
    const int64_t before = device.free_bytes;
    {
        eng_config small = base_config();
        small.slots = 3, small.prefill_tokens = 64, small.cache_pages = 5;
        Engine engine(small);
        eng_stats s;
        OK(engine.e, eng_get_stats(engine.e, &s));
        // 5 pages of 64 tokens in 2 layers: keys and values of 2 heads of 8 numbers.
        EXPECT(s.cache_bytes == 5 * 64 * 2 * 2 * 2 * 8 * 4);
        int64_t elements = 0;
        for (const auto &[name, size] : engine.sizes) elements += size;
        EXPECT(s.weight_bytes >= 4 * elements && s.weight_bytes < 4 * elements + 256 * int64_t(engine.sizes.size()));
        EXPECT(s.gradient_bytes == s.weight_bytes && s.state_bytes == 2 * s.weight_bytes);
        const int64_t all = s.weight_bytes + s.gradient_bytes + s.state_bytes + s.activation_bytes + s.head_bytes + s.cache_bytes +
                            s.other_bytes;
        OK(nullptr, eng_describe(0, &device));
        // A driver may have had room for so little already.
        EXPECT(before - device.free_bytes >= (emulated() ? all : 0));
    }
    // CUDA may keep a little for itself.
    OK(nullptr, eng_describe(0, &device));
    EXPECT(device.free_bytes >= before - (32 << 20));
}

// Rounds to bfloat16, to nearest, ties to even.
static float half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, 4);
    return x;
}

static void test_kinds(eng_config c) {
    Engine engine(c);
    Random random(5);
    for (const Name &name : engine.trained) {
        const bool wide = c.dtype == ENG_F32 || name.role == ENG_VALUE_HEAD;
        const bool master = !wide && c.state_dtype == ENG_F32;
        std::vector<float> values(engine.sizes[name]), rounded;
        for (float &x : values) x = random.uniform(-2, 2);
        for (float x : values) rounded.push_back(half(x));
        engine.put(name, ENG_WEIGHT, values);
        EXPECT(engine.get(name, ENG_WEIGHT) == (wide ? values : rounded));
        if (master) {
            EXPECT(engine.get(name, ENG_MASTER) == values);
            for (float &x : values) x = random.uniform(-2, 2);
            engine.put(name, ENG_MASTER, values);
            for (size_t i = 0; i < values.size(); i++) rounded[i] = half(values[i]);
            EXPECT(engine.get(name, ENG_MASTER) == values && engine.get(name, ENG_WEIGHT) == rounded);
        } else {
            FAILS(engine.e, ENG_ARGUMENT, "has none", eng_put(engine.e, name.role, name.layer, ENG_MASTER, 0, 1, values.data()));
        }
        engine.put(name, ENG_GRADIENT, values);
        EXPECT(engine.get(name, ENG_GRADIENT) == values);
        for (eng_kind moment : {ENG_EXP_AVG, ENG_EXP_AVG_SQ}) {
            for (float &x : values) x = random.uniform(0, 1);
            for (size_t i = 0; i < values.size(); i++) rounded[i] = half(values[i]);
            engine.put(name, moment, values);
            EXPECT(engine.get(name, moment) == (c.state_dtype == ENG_F32 ? values : rounded));
        }
        // A piece of it.
        const float two[2] = {3, -4};
        const int64_t last = engine.sizes[name] - 2;
        OK(engine.e, eng_put(engine.e, name.role, name.layer, ENG_WEIGHT, last, 2, two));
        float read[2];
        OK(engine.e, eng_get(engine.e, name.role, name.layer, ENG_WEIGHT, last, 2, read));
        EXPECT(read[0] == 3 && read[1] == -4);
        FAILS(engine.e, ENG_ARGUMENT, "elements", eng_put(engine.e, name.role, name.layer, ENG_WEIGHT, last + 1, 2, two));
        FAILS(engine.e, ENG_ARGUMENT, "elements", eng_get(engine.e, name.role, name.layer, ENG_WEIGHT, -1, 2, read));
    }
    float x;
    FAILS(engine.e, ENG_ARGUMENT, "no tensor", eng_get(engine.e, ENG_Q, c.layers, ENG_WEIGHT, 0, 1, &x));
    FAILS(engine.e, ENG_ARGUMENT, "no tensor", eng_get(engine.e, 99, 0, ENG_WEIGHT, 0, 1, &x));
    FAILS(engine.e, ENG_ARGUMENT, "kind", eng_get(engine.e, ENG_Q, 0, 7, 0, 1, &x));
    OK(engine.e, eng_zero_gradients(engine.e));
    for (const Name &name : engine.trained) EXPECT(engine.get(name, ENG_GRADIENT) == std::vector<float>(engine.sizes[name], 0));
}

// A tensor of several pieces of the staging buffer, odd ones.
static void test_large_tensor() {
    eng_config c = base_config();
    c.train = 0, c.pass_tokens = 0;
    c.vocabulary = 150001, c.dtype = ENG_BF16;
    Engine engine(c);
    Random random(9);
    std::vector<float> values(engine.sizes[{ENG_HEAD, 0}]);
    for (float &x : values) x = half(random.uniform(-1, 1));
    engine.put({ENG_HEAD, 0}, ENG_WEIGHT, values);
    EXPECT(engine.get({ENG_HEAD, 0}, ENG_WEIGHT) == values);
}

void test_transfers() {
    for (Shape shape : shapes())
        for (eng_dtype dtype : {ENG_F32, ENG_BF16})
            for (eng_dtype state : {ENG_F32, ENG_BF16}) {
                shape.config.dtype = dtype, shape.config.state_dtype = state;
                test_kinds(shape.config);
            }
    test_large_tensor();
}

} // namespace lathe::test
