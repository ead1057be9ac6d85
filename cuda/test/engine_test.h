// engine_test.h: what the tests of engine.h share. They go through its functions
// alone, so the same program tests the library on a GPU and the emulated one.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "../engine.h"

namespace lathe::test {

// Counts a failure and says where, without ending the test.
bool expect_true(bool condition, const char *what, const char *file, int line, const std::string &detail = "");
#define EXPECT(condition, ...) ::lathe::test::expect_true((condition), #condition, __FILE__, __LINE__, ##__VA_ARGS__)

// Whether any expectation of this process was not met.
bool expectations_failed();

// A status that a call must give; where it is a failure, its text must hold `text`.
bool expect_status(int32_t got, int32_t want, const eng *e, const char *text, const char *what, const char *file, int line);
#define OK(e, call) ::lathe::test::expect_status((call), ENG_OK, (e), "", #call, __FILE__, __LINE__)
#define FAILS(e, status, text, call) ::lathe::test::expect_status((call), (status), (e), (text), #call, __FILE__, __LINE__)

// A variable of the environment that has another value for a while: what the emulated device is told.
class Setting {
public:
    Setting(const char *name, const char *value) : name_(name), before_(getenv(name) ? getenv(name) : "") { setenv(name, value, 1); }
    Setting(const Setting &) = delete;
    ~Setting() { setenv(name_, before_.c_str(), 1); }

private:
    const char *name_;
    std::string before_;
};

// Random numbers that are the same everywhere.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
    uint32_t word();
    float uniform(float low, float high) { return low + (high - low) * float(word() >> 8) * 0x1p-24f; }
    int32_t below(int32_t n) { return int32_t(word() % uint32_t(n)); }

private:
    uint64_t state_;
};

// A tensor by the names of engine.h.
struct Name {
    int32_t role, layer;
    bool operator<(const Name &o) const { return std::tie(role, layer) < std::tie(o.role, o.layer); }
    bool operator==(const Name &o) const { return role == o.role && layer == o.layer; }
};
using Tensors = std::map<Name, std::vector<float>>;

// Configurations of small models.
struct Shape {
    const char *name;
    eng_config config;
};
std::vector<Shape> shapes();
// A configuration whose members a test changes.
eng_config base_config();

// An engine that is closed at the end.
class Engine {
public:
    explicit Engine(const eng_config &config, uint64_t seed = 1);
    Engine(const Engine &) = delete;
    ~Engine() { eng_close(e); }

    std::vector<float> get(Name name, eng_kind kind) const;
    void put(Name name, eng_kind kind, const std::vector<float> &values);
    Tensors gradients() const;

    eng *e = nullptr;
    eng_config config;
    std::map<Name, int64_t> sizes; // elements of all tensors
    std::vector<Name> trained;
};

// Sequences with targets.
struct Batch {
    std::vector<int32_t> offsets{0}, tokens;
    std::vector<uint8_t> targets;
    std::vector<int32_t> trunks; // empty: none

    void add(const std::vector<int32_t> &sequence, int32_t first_target = 1);
    eng_batch view() const {
        return {int32_t(offsets.size()) - 1, offsets.data(), tokens.data(), targets.data(), trunks.empty() ? nullptr : trunks.data()};
    }
    size_t size() const { return tokens.size(); }
};
// Sequences of these lengths with random tokens, some of them targets.
Batch random_batch(const eng_config &config, const std::vector<int32_t> &lengths, uint64_t seed);
// Sequences from first to last-1 of a batch.
Batch part(const Batch &batch, int32_t first, int32_t last);

// Whether the device is the emulated one, which can be told to fail.
bool emulated();

// What a forward pass gave.
struct Results {
    std::vector<float> logprobs, entropy, values;
    bool operator==(const Results &o) const { return logprobs == o.logprobs && entropy == o.entropy && values == o.values; }
};
Results forward(Engine &engine, const Batch &batch, const eng_sampling &sampling = {1, 0, 0}, bool keep = false);

// The tests, file by file.
void test_arguments();
void test_memory();
void test_transfers();
void test_gradients();
void test_same_bits();
void test_paths();
void test_adapters();
void test_steps();
void test_sums();
void test_generation();
void test_failures();

} // namespace lathe::test
