// engine_failure_test.cpp: an engine whose device fails.
//
// A GPU on which a kernel has failed is of no more use to its process, so each
// case runs in a process of its own. Only the emulated device can be told to fail.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine_test.h"

namespace lathe::test {

namespace {

eng_config all_uses() {
    eng_config c = base_config();
    c.slots = 2, c.prefill_tokens = 32, c.cache_pages = 8;
    return c;
}

// What is done with an engine: every function that computes.
struct Calls {
    Engine engine{all_uses()};
    Batch batch = random_batch(engine.config, {9, 20}, 1);
    std::vector<float> logprobs = std::vector<float>(batch.size()), coefficients = std::vector<float>(batch.size(), 1);
    std::vector<int32_t> prompt = {1, 2, 3, 4}, pages = {0, 1};
    std::vector<int32_t> tokens = std::vector<int32_t>(2 * 8), counts = std::vector<int32_t>(2);
    std::vector<float> sampled = std::vector<float>(2 * 8);
    std::vector<uint8_t> states = std::vector<uint8_t>(2);
    eng_step_stats stepped{};

    int32_t forward() {
        const eng_batch view = batch.view();
        const eng_sampling sampling{1, 0, 0};
        return eng_forward(engine.e, &view, &sampling, 1, logprobs.data(), logprobs.data(), nullptr);
    }
    int32_t backward() { return eng_backward(engine.e, coefficients.data(), nullptr, nullptr); }
    int32_t step() {
        const eng_adamw settings{1e-3, 0.9, 0.99, 1e-8, 0, 1, 1, {1, 2}, 3, 0, 0};
        return eng_step(engine.e, &settings, &stepped);
    }
    int32_t put() { return eng_put(engine.e, ENG_FINAL_NORM, 0, ENG_WEIGHT, 0, 3, logprobs.data()); }
    int32_t get() { return eng_get(engine.e, ENG_FINAL_NORM, 0, ENG_WEIGHT, 0, 3, logprobs.data()); }
    int32_t prefill() {
        const eng_prompt p{3, 0, prompt.data(), pages.data()};
        return eng_prefill(engine.e, 1, &p);
    }
    int32_t start() {
        eng_request r{};
        r.token = 4, r.position = 3, r.remaining = 60, r.sampling = {1, 0, 0};
        const int32_t status = eng_pages(engine.e, 0, 0, 2, pages.data());
        return status == ENG_OK ? eng_start(engine.e, 1, &r) : status;
    }
    int32_t decode() { return eng_decode(engine.e, 8, tokens.data(), sampled.data(), counts.data(), states.data()); }
};

struct Case {
    const char *kernel; // that fails
    int32_t (Calls::*call)();
    bool decodes_before; // so that the failing step is one of a captured graph
};

const Case cases[] = {
    {"rmsnorm_forward", &Calls::forward, false}, {"head_forward", &Calls::forward, false}, {"swiglu_backward", &Calls::backward, false},
    {"adamw", &Calls::step, false},              {"rope_forward", &Calls::prefill, false}, {"attention_paged", &Calls::decode, false},
    {"list_splits", &Calls::decode, false},      {"sample", &Calls::decode, true},
};

// Everything works until the kernel fails; then nothing does, with the same
// text, and the engine closes.
void run(const Case &c) {
    Calls calls;
    OK(calls.engine.e, calls.forward());
    if (c.call == &Calls::backward || c.call == &Calls::step) {
        if (c.call == &Calls::step) OK(calls.engine.e, calls.backward());
    } else if (c.call == &Calls::decode) {
        OK(calls.engine.e, calls.prefill());
        OK(calls.engine.e, calls.start());
        for (int i = 0; c.decodes_before && i < 2; i++) OK(calls.engine.e, calls.decode());
    }
    setenv("LATHE_HOST_FAIL", c.kernel, 1);
    FAILS(calls.engine.e, ENG_DEVICE, "LaunchFailure", (calls.*c.call)());
    unsetenv("LATHE_HOST_FAIL");
    const std::string text = eng_error(calls.engine.e);
    for (auto call : {&Calls::forward, &Calls::backward, &Calls::step, &Calls::put, &Calls::get, &Calls::prefill, &Calls::start, &Calls::decode})
        FAILS(calls.engine.e, ENG_DEVICE, text.c_str(), (calls.*call)());
    eng_stats stats;
    FAILS(calls.engine.e, ENG_DEVICE, text.c_str(), eng_get_stats(calls.engine.e, &stats));
    // Another engine of the same process says why there is none.
    eng *other = nullptr;
    const eng_config config = all_uses();
    FAILS(nullptr, ENG_DEVICE, "LaunchFailure", eng_open(0, &config, &other));
    EXPECT(other == nullptr);
}

} // namespace

void test_failures() {
    if (!emulated()) {
        printf("    failures: left out, because only the emulated device can be told to fail\n");
        return;
    }
    for (const Case &c : cases) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            run(c);
            fflush(stdout);
            _exit(expectations_failed() ? 1 : 0);
        }
        int status = -1;
        EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, c.kernel);
    }
}

} // namespace lathe::test
