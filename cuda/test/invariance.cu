// invariance.cu: does a row of a product have the same bits whatever the number
// of rows around it?
//
//   invariance [--json FILE]
//
// For each (N, K) of a model's products, one row is computed among M rows, M in
// {1, 2, 8, 17, 64, 256, 1024, 4096}, by our kernels on each path (gemm.h) that the
// device has and, where cuBLASLt is there, by it. Our kernels must give the same
// bits for every M: the program fails if they do not. What cuBLASLt does decides
// whether it may be used where M varies; it is printed and fails nothing, as is
// whether both of our paths have the same bits.
#include <cstdio>
#include <cstring>
#include <vector>

#include "../gemm.h"
#include "../kernels.h"
#include "../philox.cuh"

namespace lathe::invariance {

namespace {

constexpr int64_t row_counts[] = {1, 2, 8, 17, 64, 256, 1024, 4096};
constexpr int64_t most_rows = 4096;

struct Shape {
    const char *name;
    int64_t N, K;
};

// Of Qwen2.5-0.5B and 1.5B. The head is cut to 4,096 of its 151,936 rows.
const Shape shapes[] = {
    {"0.5B qkv", 1152, 896}, {"0.5B output", 896, 896}, {"0.5B gate_up", 9728, 896}, {"0.5B down", 896, 4864}, {"0.5B head", 4096, 896},
    {"1.5B qkv", 2048, 1536}, {"1.5B output", 1536, 1536}, {"1.5B gate_up", 17920, 1536}, {"1.5B down", 1536, 8960}, {"1.5B head", 4096, 1536},
};

template <class T>
std::vector<T> random_values(int64_t n, uint32_t key) {
    std::vector<T> values(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i++) {
        values[static_cast<size_t>(i)] = from_float<T>(static_cast<float>(philox(key, 0, 0, static_cast<uint64_t>(i)).word[0]) * 4.6566129e-10f - 1);
    }
    return values;
}

template <class T>
T *on_device(const std::vector<T> &values) {
    T *data = nullptr;
    CHECK(cudaMalloc(&data, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return data;
}

// The numbers of rows among which the row's bits differ from those alone, which
// `alone` gets.
template <class T>
int differing(const Shape &s, std::vector<int64_t> &where, std::vector<T> &alone) {
    T *x = on_device(random_values<T>(most_rows * s.K, 1)), *w = on_device(random_values<T>(s.N * s.K, 2));
    T *y = on_device(std::vector<T>(static_cast<size_t>(most_rows * s.N)));
    std::vector<T> among(static_cast<size_t>(s.N));
    alone.resize(static_cast<size_t>(s.N));
    where.clear();
    for (int64_t M : row_counts) {
        // The row lies last among the M rows: in a tile of its own where it can.
        product_nt<T>(nullptr, y, s.N, x + (most_rows - M) * s.K, s.K, w, s.K, nullptr, M, s.N, s.K, 1, false);
        CHECK(cudaDeviceSynchronize());
        std::vector<T> &row = M == 1 ? alone : among;
        CHECK(cudaMemcpy(row.data(), y + (M - 1) * s.N, row.size() * sizeof(T), cudaMemcpyDeviceToHost));
        if (M > 1 && memcmp(alone.data(), among.data(), among.size() * sizeof(T)) != 0) where.push_back(M);
    }
    cudaFree(x);
    cudaFree(w);
    cudaFree(y);
    return static_cast<int>(where.size());
}

int run(const char *json) {
    FILE *to = json ? fopen(json, "w") : nullptr;
    if (json && !to) {
        perror(json);
        return 74;
    }
    // What is known stays so, whatever ends the program.
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (to) setvbuf(to, nullptr, _IOLBF, 0);
    int failures = 0;
    std::vector<int64_t> where;
    auto tell = [&](const char *by, const char *type, const Shape &s, int count) {
        printf("%-10s %-9s %-13s %s", by, type, s.name, count == 0 ? "same bits" : "differs with M =");
        for (int64_t M : where) printf(" %lld", static_cast<long long>(M));
        printf("\n");
        if (to) fprintf(to, "{\"by\": \"%s\", \"type\": \"%s\", \"shape\": \"%s\", \"differing\": %d}\n", by, type, s.name, count);
    };
    std::vector<std::vector<bf16>> by_mma;
    std::vector<bf16> by_other;
    std::vector<float> whole;
    for (const Shape &s : shapes) {
        int count = differing(s, where, by_mma.emplace_back());
        tell("mma", "bfloat16", s, count);
        failures += count;
        count = differing(s, where, whole);
        tell("float", "float32", s, count);
        failures += count;
    }
    if (const int version = enable_cublaslt(true)) {
        printf("cuBLASLt %d, without a workspace and without splitting K:\n", version);
        for (const Shape &s : shapes) {
            const int count = differing(s, where, by_other);
            tell("cuBLASLt", "bfloat16", s, count);
        }
        enable_cublaslt(false);
    } else {
        printf("cuBLASLt is not there\n");
    }
    // Last: a wait in it that never ended would leave what comes after it unknown.
    if (const char *obstacle = wgmma_obstacle()) {
        printf("without wgmma: %s\n", obstacle);
    } else {
        use_path(ProductPath::wgmma);
        for (const std::vector<bf16> &mma : by_mma) {
            const Shape &s = shapes[&mma - by_mma.data()];
            const int count = differing(s, where, by_other);
            tell("wgmma", "bfloat16", s, count);
            failures += count;
            size_t others = 0;
            for (size_t i = 0; i < mma.size(); i++) others += mma[i].bits != by_other[i].bits;
            printf("%-10s %-9s %-13s %zu of %zu results have other bits than by mma\n", "wgmma", "bfloat16", s.name, others, mma.size());
            if (to)
                fprintf(to, "{\"by\": \"wgmma beside mma\", \"type\": \"bfloat16\", \"shape\": \"%s\", \"differing\": %zu}\n", s.name, others);
        }
    }
    if (to) fclose(to);
    return failures == 0 ? 0 : 1;
}

} // namespace

} // namespace lathe::invariance

int main(int argc, char **argv) {
    const char *json = argc == 3 && !strcmp(argv[1], "--json") ? argv[2] : nullptr;
    if (argc != 1 && !json) {
        fprintf(stderr, "usage: invariance [--json FILE]\n");
        return 64;
    }
    try {
        return lathe::invariance::run(json);
    } catch (const std::exception &e) {
        fprintf(stderr, "invariance: %s\n", e.what());
        return 69;
    }
}
