// engine_generation_test.cpp: prompts, pages and slots; and that what is sampled has the log-probabilities of a forward pass.
#include <algorithm>

#include "engine_test.h"

namespace lathe::test {

static eng_config generating(eng_dtype dtype) {
    eng_config c = base_config();
    c.dtype = dtype;
    c.qk_norm = c.qkv_bias = 1;
    c.train = 0;
    c.slots = 5, c.prefill_tokens = 48, c.cache_pages = 20;
    c.pass_tokens = 1024;
    return c;
}

// A sequence that a slot continues.
struct Task {
    std::vector<int32_t> prompt;
    int32_t slot, remaining;
    eng_sampling sampling;
    std::vector<int32_t> stops;
    std::vector<int32_t> pages;
};

struct Answer {
    std::vector<int32_t> tokens;
    std::vector<float> logprobs;
    int32_t state;
    bool operator==(const Answer &o) const { return tokens == o.tokens && logprobs == o.logprobs && state == o.state; }
};

static std::vector<int32_t> random_tokens(int32_t count, uint64_t seed) {
    Random random(seed);
    std::vector<int32_t> tokens(count);
    for (int32_t &token : tokens) token = random.below(base_config().vocabulary);
    return tokens;
}

// Computes all but the last token of the prompts, in the given pieces, and starts the slots.
static void begin(Engine &engine, const std::vector<Task> &tasks, int32_t piece) {
    for (int32_t from = 0, more = 1; more; from += piece) {
        std::vector<eng_prompt> prompts;
        for (const Task &task : tasks) {
            const int32_t count = std::min<int32_t>(piece, int32_t(task.prompt.size()) - 1 - from);
            if (count > 0) prompts.push_back({count, from, task.prompt.data() + from, task.pages.data()});
        }
        more = !prompts.empty();
        OK(engine.e, eng_prefill(engine.e, int32_t(prompts.size()), prompts.data()));
    }
    std::vector<eng_request> requests;
    for (const Task &task : tasks) {
        eng_request r{};
        r.slot = task.slot;
        r.token = task.prompt.back();
        r.position = int32_t(task.prompt.size()) - 1;
        r.remaining = task.remaining;
        r.stops = int32_t(task.stops.size());
        std::copy(task.stops.begin(), task.stops.end(), r.stop);
        r.key[0] = 17, r.key[1] = 4, r.sample = uint32_t(task.prompt.size());
        r.sampling = task.sampling;
        requests.push_back(r);
        OK(engine.e, eng_pages(engine.e, task.slot, 0, int32_t(task.pages.size()), task.pages.data()));
    }
    OK(engine.e, eng_start(engine.e, int32_t(requests.size()), requests.data()));
}

static std::vector<Answer> finish(Engine &engine, const std::vector<Task> &tasks, int32_t steps) {
    const int32_t slots = engine.config.slots;
    std::vector<Answer> answers(tasks.size());
    std::vector<int32_t> tokens(slots * steps), counts(slots);
    std::vector<float> logprobs(slots * steps);
    std::vector<uint8_t> states(slots);
    for (bool runs = true; runs;) {
        if (!OK(engine.e, eng_decode(engine.e, steps, tokens.data(), logprobs.data(), counts.data(), states.data()))) return answers;
        runs = false;
        for (size_t i = 0; i < tasks.size(); i++) {
            const int32_t slot = tasks[i].slot, at = slot * steps;
            answers[i].tokens.insert(answers[i].tokens.end(), tokens.begin() + at, tokens.begin() + at + counts[slot]);
            answers[i].logprobs.insert(answers[i].logprobs.end(), logprobs.begin() + at, logprobs.begin() + at + counts[slot]);
            answers[i].state = states[slot];
            runs = runs || states[slot] == ENG_RUNNING;
        }
    }
    for (const Task &task : tasks) OK(engine.e, eng_stop(engine.e, task.slot));
    return answers;
}

// The forward pass's log-probabilities of an answer.
static std::vector<float> scored(Engine &engine, const Task &task, const Answer &answer) {
    Batch batch;
    std::vector<int32_t> all = task.prompt;
    all.insert(all.end(), answer.tokens.begin(), answer.tokens.end());
    batch.add(random_tokens(30, 3)); // company
    batch.add(all, int32_t(task.prompt.size()));
    const Results r = forward(engine, batch, task.sampling);
    return {r.logprobs.end() - int64_t(answer.tokens.size()), r.logprobs.end()};
}

static std::vector<Task> tasks() {
    return {
        {random_tokens(70, 1), 0, 80, {1, 0, 0}, {}, {3, 9, 1}},
        {random_tokens(64, 2), 3, 9, {0, 0, 0}, {}, {4, 2}},
        {random_tokens(1, 3), 1, 40, {0.7f, 11, 0.8f}, {}, {7}},
        {random_tokens(65, 4), 4, 1, {1.5f, 5, 0}, {}, {11, 12}},
        {random_tokens(190, 5), 2, 100, {1, 0, 0.5f}, {}, {14, 15, 16, 17}},
    };
}

static void test_one_logprob(eng_dtype dtype) {
    Engine engine(generating(dtype));
    const std::vector<Task> all = tasks();
    begin(engine, all, 1000);
    const std::vector<Answer> answers = finish(engine, all, 7);
    for (size_t i = 0; i < all.size(); i++) {
        const Task &task = all[i];
        // Up to max_positions, 200, at most.
        const size_t wanted = std::min<size_t>(task.remaining, 200 - task.prompt.size());
        EXPECT(answers[i].tokens.size() == wanted && answers[i].state == ENG_LENGTH, std::to_string(answers[i].tokens.size()));
        EXPECT(scored(engine, task, answers[i]) == answers[i].logprobs, "task " + std::to_string(i));

        // Alone, from other pieces, in one call of all steps, and in another slot.
        for (int32_t slot : {task.slot, (task.slot + 1) % 5}) {
            std::vector<Task> alone = {task};
            alone[0].slot = slot;
            begin(engine, alone, slot == task.slot ? 33 : 64);
            EXPECT(finish(engine, alone, 128)[0] == answers[i], "task " + std::to_string(i));
        }
    }
    // A stop token ends an answer, of which it is the last.
    std::vector<Task> stopping = {all[0]};
    stopping[0].stops = {-1, answers[0].tokens[20]};
    begin(engine, stopping, 1000);
    const Answer stopped = finish(engine, stopping, 64)[0];
    const size_t first = std::find(answers[0].tokens.begin(), answers[0].tokens.end(), answers[0].tokens[20]) - answers[0].tokens.begin();
    EXPECT(stopped.state == ENG_STOPPED && stopped.tokens.size() == first + 1);
    EXPECT(std::equal(stopped.tokens.begin(), stopped.tokens.end(), answers[0].tokens.begin()));
}

// Two answers to one prompt share its whole pages, and have copies of its last.
static void test_shared_prompt() {
    Engine engine(generating(ENG_BF16));
    const std::vector<int32_t> prompt = random_tokens(100, 8);
    std::vector<Task> pair = {{prompt, 0, 50, {1, 0, 0}, {}, {5, 6, 7}}, {prompt, 1, 50, {0, 0, 0}, {}, {5, 8, 9}}};
    begin(engine, {pair[0]}, 1000);
    const Answer first = finish(engine, {pair[0]}, 50)[0];
    begin(engine, {pair[1]}, 1000);
    const Answer second = finish(engine, {pair[1]}, 50)[0];
    const eng_prompt shared = {99, 0, prompt.data(), pair[0].pages.data()};
    OK(engine.e, eng_prefill(engine.e, 1, &shared));
    OK(engine.e, eng_copy_page(engine.e, 6, 8));
    for (Task &task : pair) task.prompt = prompt;
    // The start alone: pieces of no tokens.
    std::vector<eng_request> requests(2);
    for (int i = 0; i < 2; i++) {
        eng_request &r = requests[i];
        r = {};
        r.slot = pair[i].slot, r.token = prompt.back(), r.position = 99, r.remaining = 50;
        r.key[0] = 17, r.key[1] = 4, r.sample = 100, r.sampling = pair[i].sampling;
        OK(engine.e, eng_pages(engine.e, r.slot, 0, 3, pair[i].pages.data()));
    }
    OK(engine.e, eng_start(engine.e, 2, requests.data()));
    const std::vector<Answer> both = finish(engine, pair, 20);
    EXPECT(both[0] == first && both[1] == second);
}

static void test_mistakes() {
    Engine engine(generating(ENG_F32));
    eng *e = engine.e;
    const std::vector<int32_t> tokens = random_tokens(64, 1), pages = {0, 1, 2, 3};
    auto prefill = [&](const char *text, eng_prompt p) { FAILS(e, ENG_ARGUMENT, text, eng_prefill(e, 1, &p)); };
    const int32_t wrong = 37, outside = 20;
    prefill("id 37", {1, 0, &wrong, pages.data()});
    prefill("page 20", {1, 0, tokens.data(), &outside});
    prefill("from position 190", {11, 190, tokens.data(), pages.data()});
    prefill("-1 tokens", {-1, 0, tokens.data(), pages.data()});
    prefill("no pages", {1, 0, tokens.data(), nullptr});
    FAILS(e, ENG_ARGUMENT, "page -1", eng_copy_page(e, 0, -1));
    FAILS(e, ENG_ARGUMENT, "slot 5", eng_pages(e, 5, 0, 1, pages.data()));
    FAILS(e, ENG_ARGUMENT, "page table", eng_pages(e, 0, 1, 4, pages.data()));
    FAILS(e, ENG_ARGUMENT, "page 20", eng_pages(e, 0, 0, 1, &outside));
    auto starting = [&](const char *text, const std::function<void(eng_request &)> &change) {
        eng_request r{};
        r.position = 3, r.remaining = 4;
        change(r);
        FAILS(e, ENG_ARGUMENT, text, eng_start(e, 1, &r));
    };
    starting("slot 9", [](eng_request &r) { r.slot = 9; });
    starting("token -1", [](eng_request &r) { r.token = -1; });
    starting("position 199", [](eng_request &r) { r.position = 199; });
    starting("0 tokens", [](eng_request &r) { r.remaining = 0; });
    starting("17 stop", [](eng_request &r) { r.stops = 17; });
    starting("top_p", [](eng_request &r) { r.sampling.top_p = -1; });
    // A slot that runs is not started again, and needs pages for all steps.
    eng_request r{};
    r.position = 62, r.remaining = 4;
    OK(e, eng_start(e, 1, &r));
    FAILS(e, ENG_ARGUMENT, "running", eng_start(e, 1, &r));
    int32_t sampled[5 * 4], counts[5];
    float logprobs[5 * 4];
    uint8_t states[5];
    OK(e, eng_pages(e, 0, 0, 1, pages.data()));
    FAILS(e, ENG_ARGUMENT, "no page for position 64", eng_decode(e, 3, sampled, logprobs, counts, states));
    OK(e, eng_decode(e, 2, sampled, logprobs, counts, states));
    EXPECT(counts[0] == 2 && states[0] == ENG_RUNNING && states[1] == ENG_IDLE);
    OK(e, eng_stop(e, 0));
    OK(e, eng_decode(e, 3, sampled, logprobs, counts, states));
    EXPECT(counts[0] == 0 && states[0] == ENG_IDLE);
    FAILS(e, ENG_ARGUMENT, "0 steps", eng_decode(e, 0, sampled, logprobs, counts, states));
}

// Memory that another process takes when a step is to be recorded: the engine
// can be closed, and the thread that recorded can open another.
static void test_robbed_step() {
    if (!emulated()) return;
    {
        Engine engine(generating(ENG_BF16));
        begin(engine, {{random_tokens(9, 1), 0, 40, {1, 0, 0}, {}, {0}}}, 1000);
        const int32_t slots = engine.config.slots;
        std::vector<int32_t> tokens(slots), counts(slots);
        std::vector<float> logprobs(slots);
        std::vector<uint8_t> states(slots);
        auto decode = [&] { return eng_decode(engine.e, 1, tokens.data(), logprobs.data(), counts.data(), states.data()); };
        OK(engine.e, decode());
        Setting memory("LATHE_HOST_MEMORY", "1");
        FAILS(engine.e, ENG_MEMORY, "emory", decode());
    }
    Engine another(generating(ENG_BF16));
    OK(another.e, eng_zero_gradients(another.e));
}

void test_generation() {
    for (eng_dtype dtype : {ENG_F32, ENG_BF16}) test_one_logprob(dtype);
    test_shared_prompt();
    test_robbed_step();
    test_mistakes();
}

} // namespace lathe::test
