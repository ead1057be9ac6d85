// harness.h: what the tests of kernels share.
//
// A test runs a launcher on a case and compares what it wrote with the twin's
// numbers. The program (kernels_test.cu) runs all tests that are registered; on
// the host each runs in several orders of threads and blocks, which must give
// the same bits.
#pragma once

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "../common.cuh"
#include "../philox.cuh"

namespace lathe::test {

// An array on the device.
template <class T>
class Buffer {
  public:
    explicit Buffer(size_t n) : size_(n) { CHECK(cudaMalloc(&data_, n * sizeof(T))); }
    explicit Buffer(const std::vector<T> &values) : Buffer(values.size()) {
        if (size_ > 0) CHECK(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
    }
    Buffer(const Buffer &) = delete;
    ~Buffer() { cudaFree(data_); }
    T *get() { return data_; }
    operator T *() { return data_; }
    size_t size() const { return size_; }
    std::vector<T> read() const {
        std::vector<T> values(size_);
        if (size_ > 0) CHECK(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }

  private:
    T *data_ = nullptr;
    size_t size_;
};

// An array that begins `offset` elements after an aligned address.
template <class T>
class Shifted {
  public:
    Shifted(std::vector<T> values, int offset) : offset_(offset), buffer_(shift(std::move(values), offset)) {}
    T *get() { return buffer_.get() + offset_; }
    std::vector<T> read() const {
        std::vector<T> values = buffer_.read();
        values.erase(values.begin(), values.begin() + offset_);
        return values;
    }

  private:
    static std::vector<T> shift(std::vector<T> values, int offset) {
        values.insert(values.begin(), static_cast<size_t>(offset), from_float<T>(0));
        return values;
    }
    int offset_;
    Buffer<T> buffer_;
};

// How far a result may be from the twin's: |got - want| <= relative·|want| +
// absolute. The reason stands where one is made.
struct Tolerance {
    double relative, absolute;
};

// Half the distance between numbers next to 1: what one rounding to T may change, relatively.
template <class T>
constexpr double unit_roundoff() {
    return sizeof(T) == 2 ? 1.0 / 256 : 1.0 / 16777216;
}
template <class T>
constexpr const char *type_name() {
    return sizeof(T) == 2 ? "bf16" : "f32";
}

template <class T>
std::vector<double> widen(const std::vector<T> &x) {
    std::vector<double> wide(x.size());
    for (size_t i = 0; i < x.size(); i++) wide[i] = to_float(x[i]);
    return wide;
}

// Reproducible inputs: Philox under a key of the test's own.
class Random {
  public:
    explicit Random(uint32_t key) : key_(key) {}
    uint32_t bits() { return philox(key_, 0x7465, 0, position_++).word[0]; }
    double uniform(double from, double to) { return from + (to - from) * philox_float64(key_, 0x7465, 0, position_++); }
    int64_t below(int64_t n) { return static_cast<int64_t>(uniform(0, static_cast<double>(n))); }
    // Uniform with deviation `scale`: no zeros, no outliers.
    template <class T>
    std::vector<T> values(int64_t n, double scale = 1) {
        std::vector<T> x(static_cast<size_t>(n));
        for (T &v : x) v = from_float<T>(static_cast<float>(uniform(-1.7320508, 1.7320508) * scale));
        return x;
    }

  private:
    uint32_t key_;
    uint64_t position_ = 0;
};

// One test, while it runs.
class Test {
  public:
    Stream stream = nullptr;

    // Says which case the checks that follow are of.
    void describe(const char *format, ...) __attribute__((format(printf, 2, 3)));
    void fail(const char *format, ...) __attribute__((format(printf, 2, 3)));
    void expect(bool condition, const char *what) {
        if (!condition) fail("%s", what);
    }

    // What a launcher wrote, near the twin's numbers: NaN where they are NaN,
    // and infinite where they are.
    template <class T>
    void close(const char *what, const std::vector<T> &got, const std::vector<double> &want, Tolerance tolerance) {
        digest(got);
        if (got.size() != want.size()) return fail("%s: %zu elements, not %zu", what, got.size(), want.size());
        for (size_t i = 0; i < got.size(); i++)
            if (!near(number(got[i]), want[i], tolerance, sizeof(T) == 2))
                return fail("%s[%zu] = %.9g, want %.9g (tolerance %.3g relative, %.3g absolute)", what, i, number(got[i]), want[i],
                            tolerance.relative, tolerance.absolute);
    }

    // What a launcher wrote, bit for bit.
    template <class T>
    void equal(const char *what, const std::vector<T> &got, const std::vector<T> &want) {
        digest(got);
        if (got.size() != want.size()) return fail("%s: %zu elements, not %zu", what, got.size(), want.size());
        for (size_t i = 0; i < got.size(); i++)
            if (memcmp(&got[i], &want[i], sizeof(T)) != 0)
                return fail("%s[%zu] = %.9g, want %.9g, bit for bit", what, i, number(got[i]), number(want[i]));
    }

    int failures() const { return failures_; }
    uint64_t digest() const { return digest_; }
    int checks() const { return checks_; }

  private:
    static double number(bf16 x) { return to_float(x); }
    template <class T>
    static double number(T x) {
        return static_cast<double>(x);
    }
    static bool near(double got, double want, Tolerance tolerance, bool half);

    // FNV-1a over the bytes of all results.
    template <class T>
    void digest(const std::vector<T> &values) {
        auto *bytes = reinterpret_cast<const unsigned char *>(values.data());
        for (size_t i = 0; i < values.size() * sizeof(T); i++) digest_ = (digest_ ^ bytes[i]) * 0x100000001b3;
        checks_++;
    }

    std::string case_;
    int failures_ = 0, checks_ = 0;
    uint64_t digest_ = 0xcbf29ce484222325;
};

struct Registered {
    Registered(const char *name, const char *file, void (*run)(Test &));
};

// TEST(name) { … t … } defines and registers a test.
#define TEST(name)                                                                   \
    static void name(::lathe::test::Test &t);                                        \
    static const ::lathe::test::Registered registered_##name(#name, __FILE__, name); \
    static void name(::lathe::test::Test &t)

} // namespace lathe::test
