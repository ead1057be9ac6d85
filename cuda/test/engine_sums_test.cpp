// engine_sums_test.cpp: partial sums of gradients, on the device and in the host's memory.
#include "engine_test.h"

namespace lathe::test {

// The gradients of a batch of its own, which come on top of what is there.
static void accumulate(Engine &engine, uint64_t seed) {
    const Batch batch = random_batch(engine.config, {5, 18}, seed);
    forward(engine, batch, {1, 0, 0}, true);
    Random random(seed);
    std::vector<float> coefficients(batch.size());
    for (float &x : coefficients) x = random.uniform(-1, 1);
    OK(engine.e, eng_backward(engine.e, coefficients.data(), nullptr, nullptr));
}

static Tensors sum(const Tensors &a, const Tensors &b) {
    Tensors all = a;
    for (auto &[name, values] : all)
        for (size_t i = 0; i < values.size(); i++) values[i] += b.at(name)[i];
    return all;
}

static Tensors held(const Engine &engine, int32_t number) {
    Tensors all;
    for (const Name &name : engine.trained) all[name] = engine.get(name, eng_kind(ENG_SUM + number));
    return all;
}

static int64_t moved(const Engine &engine, int64_t eng_stats::*way) {
    eng_stats s;
    OK(engine.e, eng_get_stats(engine.e, &s));
    return s.*way;
}

// Four batches a … d summed as (a + b) + (c + d), with sum 0 on the device and
// sums 1 and 2 on the host, give the bits of the same additions outside.
static void test_tree(const eng_config &config) {
    Engine engine(config);
    eng *e = engine.e;
    Tensors parts[4];
    for (int i = 0; i < 4; i++) {
        OK(e, eng_zero_gradients(e));
        accumulate(engine, 10 + i);
        parts[i] = engine.gradients();
    }
    const Tensors &a = parts[0], &b = parts[1], &c = parts[2], &d = parts[3];
    EXPECT(!(sum(sum(sum(a, b), c), d) == sum(sum(a, b), sum(c, d)))); // the order shows

    OK(e, eng_zero_gradients(e));
    accumulate(engine, 10);
    eng_stats s;
    OK(e, eng_get_stats(e, &s));
    OK(e, eng_hold_gradients(e, 0));
    EXPECT(held(engine, 0) == a);
    for (const auto &[name, values] : engine.gradients()) EXPECT(values == std::vector<float>(values.size(), 0));
    accumulate(engine, 11);
    OK(e, eng_add_gradients(e, 0));
    EXPECT(engine.gradients() == sum(b, a));
    OK(e, eng_get_stats(e, &s));
    OK(e, eng_hold_gradients(e, 2));
    EXPECT(moved(engine, &eng_stats::to_host_bytes) == s.sum_bytes);
    EXPECT(held(engine, 2) == sum(a, b));
    accumulate(engine, 12);
    OK(e, eng_hold_gradients(e, 1));
    accumulate(engine, 13);
    OK(e, eng_add_gradients(e, 1));
    OK(e, eng_get_stats(e, &s));
    OK(e, eng_add_gradients(e, 2));
    EXPECT(moved(engine, &eng_stats::to_device_bytes) == s.sum_bytes);
    EXPECT(engine.gradients() == sum(sum(d, c), sum(a, b)));
    EXPECT(held(engine, 2) == sum(a, b)); // as it was
    OK(e, eng_hold_gradients(e, 0));
    EXPECT(held(engine, 0) == sum(sum(d, c), sum(a, b)));
}

// A step on gradients that were held and added moves none of them over the bus,
// and does what it does to gradients that the host has written.
static void test_step_on_sum(const eng_config &config) {
    Engine engine(config), other(config);
    eng *e = engine.e;
    const eng_adamw adamw = {0.01, 0.9, 0.99, 1e-8, 0.1, 0.5, 1, {1, 2}, 3, 0, 0};
    eng_step_stats stats, other_stats;
    accumulate(engine, 1);
    eng_stats s;
    OK(e, eng_get_stats(e, &s));
    OK(e, eng_hold_gradients(e, 0));
    OK(e, eng_zero_gradients(e));
    OK(e, eng_add_gradients(e, 0));
    OK(e, eng_step(e, &adamw, &stats));
    OK(e, eng_get_stats(e, &s));
    EXPECT(s.to_device_bytes == 0 && s.to_host_bytes == 8, std::to_string(s.to_host_bytes)); // the norm
    for (const auto &[name, values] : held(engine, 0)) other.put(name, ENG_GRADIENT, values);
    OK(other.e, eng_step(other.e, &adamw, &other_stats));
    EXPECT(stats.grad_norm == other_stats.grad_norm && stats.scale < 1);
    for (const Name &name : engine.trained) EXPECT(engine.get(name, ENG_WEIGHT) == other.get(name, ENG_WEIGHT));
}

void test_sums() {
    for (Shape shape : shapes())
        for (eng_dtype dtype : {ENG_F32, ENG_BF16}) {
            // Gradients are float32 in either, and lie otherwise where some are frozen or used twice.
            if (dtype == ENG_BF16 ? !shape.config.tied : !shape.config.tied && shape.config.lora_rank == 0) continue;
            shape.config.dtype = dtype;
            shape.config.gradient_sums = 1, shape.config.spilled_sums = 2;
            test_tree(shape.config);
            test_step_on_sum(shape.config);
        }
    eng_config c = base_config();
    c.gradient_sums = 2, c.spilled_sums = 1;
    Engine engine(c);
    eng_stats s;
    OK(engine.e, eng_get_stats(engine.e, &s));
    EXPECT(s.sum_bytes == 2 * s.gradient_bytes && s.spilled_bytes == s.gradient_bytes);
    float x = 0;
    FAILS(engine.e, ENG_ARGUMENT, "partial sum 3", eng_hold_gradients(engine.e, 3));
    FAILS(engine.e, ENG_ARGUMENT, "partial sum -1", eng_hold_gradients(engine.e, -1));
    FAILS(engine.e, ENG_ARGUMENT, "holds nothing", eng_add_gradients(engine.e, 2));
    FAILS(engine.e, ENG_ARGUMENT, "holds nothing", eng_get(engine.e, ENG_DOWN, 0, ENG_SUM + 2, 0, 1, &x));
    OK(engine.e, eng_hold_gradients(engine.e, 2));
    OK(engine.e, eng_get(engine.e, ENG_DOWN, 0, ENG_SUM + 2, 0, 1, &x));
    FAILS(engine.e, ENG_ARGUMENT, "a write of a partial sum", eng_put(engine.e, ENG_DOWN, 0, ENG_SUM + 2, 0, 1, &x));
    c.train = 0;
    eng *none = nullptr;
    FAILS(nullptr, ENG_ARGUMENT, "gradient_sums is 2", eng_open(0, &c, &none));
    c.gradient_sums = c.spilled_sums = 0;
    Engine reader(c);
    FAILS(reader.e, ENG_ARGUMENT, "the engine has 0", eng_hold_gradients(reader.e, 0));
}

} // namespace lathe::test
