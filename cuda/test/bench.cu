// bench.cu: how far the kernels are from the device's limits.
//
//   bench [--quick] [--json FILE] [part of a name]…
//
// First the ceilings are measured: the bandwidth of a copy within the device's
// memory, and the bfloat16 products of a large square matrix, by cuBLASLt where it
// is there and by our own kernels; the fastest counts. Then every kernel runs
// on the shapes that it has in models, on inputs that are not zero. Each line says
// the time, the bytes that must be moved and the operations that must be done
// (not those that are), per second, and what fraction of the nearer ceiling that is.
// Products on the path of wgmma (gemm.h), where the device has it, come last: a
// wait in it that never ended would leave what comes after it unmeasured. The
// file has all lines that were measured, whatever ends the program, and a line that
// takes more than a minute does.
//
// A measurement is the median of several replays of a graph of launches, each of
// which takes fresh memory, so that nothing is found in the L2 cache that
// would not be there in a model.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "../gemm.h"
#include "../kernels.h"
#include "../philox.cuh"

namespace lathe::bench {

namespace {

struct Model {
    const char *name;
    int64_t hidden, intermediate;
    int heads, kv_heads, head_dim;
    int64_t vocabulary;
    int64_t qkv() const { return static_cast<int64_t>(heads + 2 * kv_heads) * head_dim; }
    int64_t mixed() const { return static_cast<int64_t>(heads) * head_dim; }
};

const Model models[] = {
    {"0.5B", 896, 4864, 14, 2, 64, 151936},
    {"1.5B", 1536, 8960, 12, 2, 128, 151936},
    {"3B", 2048, 11008, 16, 2, 128, 151936},
};

template <class T>
__global__ void fill_kernel(T *x, int64_t n, uint32_t key) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < n) {
        x[at] = from_float<T>(static_cast<float>(philox(key, 0, 0, static_cast<uint64_t>(at)).word[0]) * 4.6566129e-10f - 1);
    }
}

// Device memory from which each taker gets what has not been used for the longest.
template <class T>
class Pool {
  public:
    Pool(int64_t n, uint32_t key) : size_(n) {
        CHECK(cudaMalloc(&data_, static_cast<size_t>(n) * sizeof(T)));
        LAUNCH((fill_kernel<T>), dim3(static_cast<unsigned>(ceil_div(n, 256))), dim3(256), 0, nullptr, data_, n, key);
        CHECK(cudaDeviceSynchronize());
    }
    ~Pool() { cudaFree(data_); }
    Pool(const Pool &) = delete;
    T *take(int64_t n) {
        if (next_ + n > size_) next_ = 0;
        if (n > size_) throw std::runtime_error("the benchmark's pool of memory is too small");
        T *from = data_ + next_;
        next_ += ceil_div(n, 64) * 64;
        return from;
    }

  private:
    T *data_ = nullptr;
    int64_t size_, next_ = 0;
};

// An array made on the host.
template <class T>
struct Array {
    T *data = nullptr;
    explicit Array(const std::vector<T> &values) {
        CHECK(cudaMalloc(&data, std::max<size_t>(values.size(), 1) * sizeof(T)));
        CHECK(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    ~Array() { cudaFree(data); }
    Array(const Array &) = delete;
    operator T *() const { return data; }
};

struct Line {
    std::string name;
    double seconds, bytes, operations;
};

class Bench {
  public:
    // What is read, which nothing writes to, so that all of it stays finite; and what is
    // written.
    Pool<bf16> values, results;
    Pool<float> floats, float_results;
    double bandwidth = 0, operations = 0; // the ceilings, per second
    int cublaslt = 0;                     // its version

    Bench(int64_t elements, bool quick, std::vector<std::string> wanted, const char *json, std::string device)
        : values(elements, 1), results(elements, 3), floats(elements / 2, 2), float_results(elements / 2, 4), quick_(quick), wanted_(std::move(wanted)), json_(json), device_(std::move(device)) {
        CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&begin_));
        CHECK(cudaEventCreate(&end_));
    }

    // Median seconds of one call of `launch`.
    double measure(const std::function<void(Stream)> &launch) {
        alarm(60); // it ends the program
        CHECK(cudaDeviceSynchronize()); // the stream does not wait for copies of arrays, which are the default stream's
        launch(stream_);
        CHECK(cudaStreamSynchronize(stream_));
        const double once = replay(launch, 1, 1);
        const int launches = static_cast<int>(std::min(200.0, std::max(3.0, (quick_ ? 2e-3 : 1e-2) / once)));
        const double median = replay(launch, launches, quick_ ? 3 : 7);
        alarm(0);
        return median;
    }

    // Measures and prints a line.
    void line(const std::string &name, double bytes, double flops, const std::function<void(Stream)> &launch) {
        if (!is_wanted(name)) return;
        printf("%-34s ", name.c_str());
        fflush(stdout); // so that it is known where the program has ended
        Line l{name, measure(launch), bytes, flops};
        lines_.push_back(l);
        printf("%10.1f us %8.1f GB/s %8.1f TFLOP/s %6.1f %%\n", l.seconds * 1e6, l.bytes / l.seconds * 1e-9, l.operations / l.seconds * 1e-12,
               100 * fraction(l));
        write_json();
    }

    // The file, whole at every time.
    void write_json() const {
        if (json_ == nullptr) return;
        const std::string part = std::string(json_) + ".part";
        FILE *to = fopen(part.c_str(), "w");
        if (to == nullptr) throw std::runtime_error("cannot write " + part);
        fprintf(to,
                "{\"device\": \"%s\", \"copy_bytes_per_second\": %.6g, \"product_flops_per_second\": %.6g, \"cublaslt\": %d, \"lines\": [",
                device_.c_str(), bandwidth, operations, cublaslt);
        for (size_t i = 0; i < lines_.size(); i++)
            fprintf(to, "%s\n  {\"name\": \"%s\", \"seconds\": %.6g, \"bytes\": %.6g, \"flops\": %.6g, \"fraction\": %.4f}",
                    i > 0 ? "," : "", lines_[i].name.c_str(), lines_[i].seconds, lines_[i].bytes, lines_[i].operations,
                    fraction(lines_[i]));
        fprintf(to, "\n]}\n");
        if (fclose(to) != 0 || rename(part.c_str(), json_) != 0) throw std::runtime_error(std::string("cannot write ") + json_);
    }

  private:
    bool is_wanted(const std::string &name) const {
        return wanted_.empty() ||
               std::any_of(wanted_.begin(), wanted_.end(), [&](const std::string &w) { return name.find(w) != std::string::npos; });
    }
    double fraction(const Line &l) const { return std::max(l.bytes / bandwidth, l.operations / operations) / l.seconds; }

    double replay(const std::function<void(Stream)> &launch, int launches, int replays) {
        cudaGraph_t graph;
        cudaGraphExec_t executable;
        CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < launches; i++) launch(stream_);
        CHECK(cudaStreamEndCapture(stream_, &graph));
        CHECK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
        CHECK(cudaGraphLaunch(executable, stream_));
        std::vector<float> milliseconds(static_cast<size_t>(replays));
        for (float &ms : milliseconds) {
            CHECK(cudaEventRecord(begin_, stream_));
            CHECK(cudaGraphLaunch(executable, stream_));
            CHECK(cudaEventRecord(end_, stream_));
            CHECK(cudaEventSynchronize(end_));
            CHECK(cudaEventElapsedTime(&ms, begin_, end_));
        }
        CHECK(cudaGraphExecDestroy(executable));
        CHECK(cudaGraphDestroy(graph));
        std::sort(milliseconds.begin(), milliseconds.end());
        return std::max(1e-9, milliseconds[milliseconds.size() / 2] * 1e-3 / launches);
    }

    bool quick_;
    std::vector<std::string> wanted_;
    const char *json_; // the file for the lines, or null
    std::string device_;
    Stream stream_;
    cudaEvent_t begin_, end_;
    std::vector<Line> lines_;
};

void nt(Bench &b, Stream stream, int64_t M, int64_t N, int64_t K) {
    product_nt<bf16>(stream, b.results.take(M * N), N, b.values.take(M * K), K, b.values.take(N * K), K, nullptr, M, N, K, 1, false);
}

// The rate of the products of a large square matrix, by what computes them now, which the ceiling is at least.
void large_product(Bench &b, bool quick, const char *by) {
    const int64_t side = quick ? 4096 : 8192;
    const double operations = 2.0 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side);
    const double rate = operations / b.measure([&](Stream s) { nt(b, s, side, side, side); });
    b.operations = std::max(b.operations, rate);
    printf("products of %lld, %s: %.0f TFLOP/s\n", static_cast<long long>(side), by, rate * 1e-12);
    b.write_json();
}

void measure_ceilings(Bench &b, int64_t elements, bool quick) {
    const int64_t n = elements / 4;
    b.bandwidth = 4.0 * static_cast<double>(n) / b.measure([&](Stream s) {
        CHECK(cudaMemcpyAsync(b.results.take(n), b.values.take(n), static_cast<size_t>(n) * 2, cudaMemcpyDeviceToDevice, s));
    });
    printf("copy: %.0f GB/s\n", b.bandwidth * 1e-9);
    large_product(b, quick, path_name(ProductPath::mma));
    b.cublaslt = enable_cublaslt(true);
    if (b.cublaslt > 0) large_product(b, quick, ("cuBLASLt " + std::to_string(b.cublaslt)).c_str());
    else printf("without cuBLASLt\n");
    if (cublaslt_declined() > 0) throw std::runtime_error("cuBLASLt did not take a product: its line is of our kernels");
    enable_cublaslt(false);
}

struct Shape {
    const char *name;
    int64_t N, K;
};

std::vector<Shape> shapes_of(const Model &m) {
    return {{"qkv", m.qkv(), m.hidden}, {"o", m.hidden, m.mixed()}, {"gate_up", 2 * m.intermediate, m.hidden},
            {"down", m.hidden, m.intermediate}, {"head", m.vocabulary, m.hidden}};
}

// For how many numbers of rows the first row of a product has other bits than among 1024.
int rows_that_differ(Bench &b, const Shape &s) {
    const bf16 *x = b.values.take(1024 * s.K), *w = b.values.take(s.N * s.K);
    bf16 *y = b.results.take(1024 * s.N);
    auto first_row = [&](int64_t rows) {
        product_nt<bf16>(nullptr, y, s.N, x, s.K, w, s.K, nullptr, rows, s.N, s.K, 1, false);
        std::vector<bf16> row(static_cast<size_t>(s.N));
        CHECK(cudaMemcpy(row.data(), y, row.size() * sizeof(bf16), cudaMemcpyDeviceToHost));
        return row;
    };
    const std::vector<bf16> want = first_row(1024);
    for (bf16 value : want)
        if (!std::isfinite(to_float(value))) throw std::runtime_error("a product of finite numbers is not finite");
    int differ = 0;
    for (int64_t rows : {1, 2, 8, 17, 64, 129, 256, 512}) {
        const std::vector<bf16> got = first_row(rows);
        differ += memcmp(got.data(), want.data(), want.size() * sizeof(bf16)) != 0;
    }
    return differ;
}

// The experiment that decides whether what computes products now may compute
// what is promised not to depend on the number of rows.
void invariance(Bench &b, const Model &m, const char *by) {
    for (const Shape &s : shapes_of(m)) {
        alarm(60); // it ends the program
        printf("%-34s of 8 numbers of rows, other bits by %s: %d\n", (std::string(m.name) + " " + s.name).c_str(), by, rows_that_differ(b, s));
        alarm(0);
    }
}

// Products of one shape on the path in use: of a training pass of M tokens, and of decode steps.
void products_of(Bench &b, const std::string &name, int64_t M, int64_t N, int64_t K) {
    const double flops = 2.0 * static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K);
    const double operands = static_cast<double>(M * N + M * K + N * K);
    const std::string path = std::string(" ") + path_name(path_in_use()), suffix = " M=" + std::to_string(M) + path;
    b.line(name + " nt" + suffix, 2 * operands, flops, [&](Stream stream) { nt(b, stream, M, N, K); });
    b.line(name + " nn" + suffix, 2 * operands, flops, [&](Stream stream) {
        product_nn<bf16>(stream, b.results.take(M * K), K, b.values.take(M * N), N, b.values.take(N * K), K, M, N, K, 1, false);
    });
    b.line(name + " tn" + suffix, 2 * operands + 6.0 * static_cast<double>(N * K), flops, [&](Stream stream) {
        product_tn<bf16>(stream, b.float_results.take(N * K), K, b.values.take(M * N), N, b.values.take(M * K), K, M, N, K, 1);
    });
    for (int64_t batch : {1, 64, 256}) {
        b.line(name + " nt M=" + std::to_string(batch) + path, 2.0 * static_cast<double>(batch * (N + K) + N * K),
               2.0 * static_cast<double>(batch) * static_cast<double>(N) * static_cast<double>(K),
               [&](Stream stream) { nt(b, stream, batch, N, K); });
    }
}

void products(Bench &b, const Model &m, int64_t rows) {
    for (const Shape &s : shapes_of(m)) {
        products_of(b, std::string(m.name) + " " + s.name, strcmp(s.name, "head") == 0 ? 1024 : rows, s.N, s.K);
    }
}

// Sequences of one length, all of which go on from a trunk if that is not 0.
void attention(Bench &b, const Model &m, int64_t sequences, int64_t length, int64_t trunk) {
    std::vector<int32_t> starts, lengths, tiles, trunks;
    int64_t rows = 0;
    double pairs = 0;
    auto add = [&](int64_t tokens, int64_t before) {
        const int32_t sequence = static_cast<int32_t>(starts.size());
        starts.push_back(static_cast<int32_t>(rows));
        lengths.push_back(static_cast<int32_t>(tokens));
        trunks.push_back(before > 0 ? 0 : -1);
        list_tiles(static_cast<int32_t>(before), lengths.back(), [&](int32_t row) { tiles.insert(tiles.end(), {sequence, row}); });
        rows += (tokens + ENG_ROW_ALIGN - 1) / ENG_ROW_ALIGN * ENG_ROW_ALIGN;
        pairs += static_cast<double>(tokens) * (static_cast<double>(before) + static_cast<double>(tokens + 1) / 2);
    };
    if (trunk > 0) add(trunk, 0);
    for (int64_t s = 0; s < sequences; s++) add(length, trunk);
    const Array<int32_t> starts_array(starts), lengths_array(lengths), tiles_array(tiles), trunks_array(trunks);
    const Packing packing{starts_array, lengths_array, tiles_array, static_cast<int32_t>(starts.size()),
                          static_cast<int32_t>(tiles.size() / 2), trunks_array};
    const double flops = 4.0 * pairs * m.heads * m.head_dim, bytes = 2.0 * static_cast<double>(rows * (m.qkv() + m.mixed()));
    const std::string shared = trunk > 0 ? std::to_string(trunk) + "+" + std::to_string(sequences) + "*" : "";
    const std::string name = std::string(m.name) + " attention S=" + shared + std::to_string(length);
    b.line(name + " forward", bytes, flops, [&](Stream stream) {
        attention_forward<bf16>(stream, b.results.take(rows * m.mixed()), b.float_results.take(rows * m.heads), b.values.take(rows * m.qkv()),
                                packing, m.heads, m.kv_heads, m.head_dim);
    });
    // Counted as five products of the forward pass's size, as one kernel that sums dq by atomics would need.
    b.line(name + " backward", 2 * bytes, 2.5 * flops, [&](Stream stream) {
        attention_backward<bf16>(stream, b.results.take(rows * m.qkv()), b.float_results.take(rows * m.heads), b.values.take(rows * m.mixed()),
                                 b.values.take(rows * m.mixed()), b.floats.take(rows * m.heads), b.values.take(rows * m.qkv()), packing,
                                 rows, m.heads, m.kv_heads, m.head_dim);
    });
}

// Decoding with `batch` sequences of `length` tokens.
void paged(Bench &b, const Model &m, int64_t batch, int64_t length) {
    const int64_t width = ceil_div(length, ENG_PAGE_TOKENS), pages = batch * width;
    std::vector<int32_t> tables(static_cast<size_t>(pages)), rows, positions(static_cast<size_t>(batch), static_cast<int32_t>(length - 1));
    for (int64_t i = 0; i < pages; i++) tables[static_cast<size_t>(i)] = static_cast<int32_t>(i * 7919 % pages);
    for (int64_t i = 0; i < batch; i++) rows.push_back(static_cast<int32_t>(i));
    const Array<int32_t> tables_array(tables), rows_array(rows), positions_array(positions);
    const int64_t cache = pages * ENG_PAGE_TOKENS * m.kv_heads * m.head_dim;
    const int64_t longest = attention_splits(static_cast<int32_t>(length - 1)), count = batch * longest;
    const Array<int32_t> work(std::vector<int32_t>(static_cast<size_t>(2 * count), -1)),
        arrived(std::vector<int32_t>(static_cast<size_t>(batch * m.heads), 0));
    const Array<float> partials(std::vector<float>(static_cast<size_t>(count * attention_partial_width(m.heads, m.head_dim)), 0));
    const Splits splits{work, count, count, longest, partials, arrived};
    list_splits(nullptr, work, count, positions_array, batch);
    b.line(std::string(m.name) + " paged B=" + std::to_string(batch) + " S=" + std::to_string(length), 4.0 * static_cast<double>(cache),
           4.0 * static_cast<double>(batch * length) * m.heads * m.head_dim, [&](Stream stream) {
               attention_paged<bf16>(stream, b.results.take(batch * m.mixed()), b.values.take(batch * m.qkv()), b.values.take(cache),
                                     b.values.take(cache), tables_array, width, rows_array, positions_array, splits, m.heads,
                                     m.kv_heads, m.head_dim);
           });
}

// A piece of a prompt over the pages of what is before it.
void paged_tiles(Bench &b, const Model &m, int64_t rows, int64_t length) {
    const int64_t pages = ceil_div(length, ENG_PAGE_TOKENS), first = length - rows;
    std::vector<int32_t> table, tiles;
    for (int64_t i = 0; i < pages; i++) table.push_back(static_cast<int32_t>(i * 7919 % pages));
    for (int64_t row = 0; row < rows; row += attention_tile_rows())
        for (int64_t word : {row, first + row, int64_t{attention_tile_rows()}, int64_t{attention_tile_rows()}, int64_t{0}})
            tiles.push_back(static_cast<int32_t>(word));
    const Array<int32_t> table_array(table), tiles_array(tiles);
    const PagedTiles paged{tiles_array, table_array, pages, static_cast<int32_t>(tiles.size() / 5)};
    const int64_t cache = pages * ENG_PAGE_TOKENS * m.kv_heads * m.head_dim;
    const double pairs = static_cast<double>(rows) * static_cast<double>(first) + static_cast<double>(rows) * static_cast<double>(rows + 1) / 2;
    b.line(std::string(m.name) + " piece of " + std::to_string(rows) + " S=" + std::to_string(length),
           4.0 * static_cast<double>(cache) + 4.0 * static_cast<double>(rows * m.mixed()), 4.0 * pairs * m.heads * m.head_dim, [&](Stream stream) {
               attention_tiles<bf16>(stream, b.results.take(rows * m.mixed()), b.float_results.take(rows * m.heads), b.values.take(rows * m.qkv()),
                                     b.values.take(cache), b.values.take(cache), paged, m.heads, m.kv_heads, m.head_dim);
           });
}

void head(Bench &b, const Model &m, int64_t rows) {
    const int64_t V = m.vocabulary;
    const Array<int32_t> targets(std::vector<int32_t>(static_cast<size_t>(rows), 1000));
    const Array<RowStatistics> statistics(std::vector<RowStatistics>(static_cast<size_t>(rows), RowStatistics{1, 11, 11, 0, 0}));
    const double bytes = 2.0 * static_cast<double>(rows * V);
    const eng_sampling all{1, 0, 0}, top_k{1, 50, 0}, top_p{1, 0, 0.95f};
    const std::string name = std::string(m.name) + " head rows=" + std::to_string(rows);
    b.line(name + " forward", bytes, 0, [&](Stream stream) {
        head_forward<bf16>(stream, b.float_results.take(rows), statistics, b.values.take(rows * V), V, targets, rows, V, all);
    });
    b.line(name + " forward top-k", bytes, 0, [&](Stream stream) {
        head_forward<bf16>(stream, b.float_results.take(rows), statistics, b.values.take(rows * V), V, targets, rows, V, top_k);
    });
    b.line(name + " forward top-p", bytes, 0, [&](Stream stream) {
        head_forward<bf16>(stream, b.float_results.take(rows), statistics, b.values.take(rows * V), V, targets, rows, V, top_p);
    });
    b.line(name + " backward", 2 * bytes, 0, [&](Stream stream) {
        head_backward<bf16>(stream, b.results.take(rows * V), V, statistics, targets, b.floats.take(rows), nullptr, rows, V, all);
    });
}

void sampler(Bench &b, const Model &m, int64_t slots, const char *what, eng_sampling sampling) {
    const size_t n = static_cast<size_t>(slots);
    const Array<int32_t> token(std::vector<int32_t>(n, 1)), position(std::vector<int32_t>(n, 5)),
        remaining(std::vector<int32_t>(n, 1 << 30)), state(std::vector<int32_t>(n, ENG_RUNNING)), stops(std::vector<int32_t>(n, 0)),
        stop(std::vector<int32_t>(n * ENG_MAX_STOPS, 0)), count(std::vector<int32_t>(n, 0));
    const Array<uint32_t> key(std::vector<uint32_t>(2 * n, 3)), sample(std::vector<uint32_t>(n, 0));
    const Array<eng_sampling> samplings(std::vector<eng_sampling>(n, sampling));
    const int64_t steps = 8192; // more than all replays take
    const Array<int32_t> tokens(std::vector<int32_t>(n * steps, 0));
    const Array<float> logprobs(std::vector<float>(n * steps, 0));
    const Slots state_of{token, position, remaining, state, stops, stop, key, sample, samplings, count};
    b.line(std::string(m.name) + " sample B=" + std::to_string(slots) + " " + what, 2.0 * static_cast<double>(slots * m.vocabulary), 0,
           [&](Stream stream) {
               sample_tokens<bf16>(stream, state_of, tokens, logprobs, slots, steps, b.values.take(slots * m.vocabulary), m.vocabulary,
                                   m.vocabulary, 1 << 30);
           });
    std::vector<int32_t> states(n);
    CHECK(cudaMemcpy(states.data(), state, n * sizeof(int32_t), cudaMemcpyDeviceToHost));
    for (int32_t s : states)
        if (s != ENG_RUNNING) throw std::runtime_error("sampling has ended: the logits were not finite");
}

// What only moves memory.
void elementwise(Bench &b, const Model &m, int64_t rows) {
    const int64_t hidden = m.hidden, width = m.intermediate;
    const std::string name = std::string(m.name) + " ";
    b.line(name + "rmsnorm with residual", 8.0 * static_cast<double>(rows * hidden), 0, [&](Stream stream) {
        bf16 *x = b.results.take(rows * hidden);
        rmsnorm_forward<bf16>(stream, b.results.take(rows * hidden), b.float_results.take(rows), x, x, b.values.take(rows * hidden),
                              b.values.take(hidden), rows, hidden, 1e-6f);
    });
    b.line(name + "swiglu", 6.0 * static_cast<double>(rows * width), 0, [&](Stream stream) {
        swiglu_forward<bf16>(stream, b.results.take(rows * width), b.values.take(2 * rows * width), rows, width);
    });
    b.line(name + "swiglu backward", 10.0 * static_cast<double>(rows * width), 0, [&](Stream stream) {
        bf16 *gate_up = b.results.take(2 * rows * width);
        swiglu_backward<bf16>(stream, gate_up, b.values.take(rows * width), gate_up, rows, width);
    });
    const int64_t parameters = 2 * hidden * width;
    const Array<double> total(std::vector<double>{1});
    AdamW settings{1e-9f, 0.9f, 0.999f, 1e-8f, 0, 0.1f, 0.001f, 1, {1, 2}, 3};
    b.line(name + "adamw", 30.0 * static_cast<double>(parameters), 0, [&](Stream stream) {
        adamw<bf16, float>(stream, b.results.take(parameters), b.float_results.take(parameters), b.float_results.take(parameters),
                           b.float_results.take(parameters), b.floats.take(parameters), total, settings, 0, parameters);
    });
}

int run(bool quick, const char *json, const std::vector<std::string> &wanted) {
    int device = 0;
    cudaDeviceProp properties;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaGetDeviceProperties(&properties, device));
    size_t free_bytes = 0, total_bytes = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    printf("%s, %d multiprocessors, %.0f GB\n", properties.name, properties.multiProcessorCount, static_cast<double>(total_bytes) * 1e-9);
    const int64_t elements = static_cast<int64_t>(std::min<size_t>(free_bytes / 16, size_t{1} << 30));
    Bench b(elements, quick, wanted, json, properties.name);
    measure_ceilings(b, elements, quick);
    const int64_t rows = 8192;
    for (const Model &m : models) {
        if (quick && &m != &models[1]) continue;
        invariance(b, m, path_name(path_in_use()));
        if (enable_cublaslt(true) > 0) invariance(b, m, "cuBLASLt");
        if (const long long declined = cublaslt_declined()) printf("cuBLASLt did not take %lld products: those are of our kernels\n", declined);
        enable_cublaslt(false);
        products(b, m, rows);
        attention(b, m, 8, 1024, 0);
        attention(b, m, 2, 4096, 0);
        attention(b, m, 16, 512, 1024);
        for (int64_t batch : {1, 64, 256}) paged(b, m, batch, 1024);
        for (int64_t length : {4096, 32768}) paged(b, m, 1, length);
        paged_tiles(b, m, 1024, 8192);
        head(b, m, 1024);
        for (int64_t slots : {1, 256}) {
            sampler(b, m, slots, "all", {1, 0, 0});
            sampler(b, m, slots, "top-k", {1, 50, 0});
            sampler(b, m, slots, "top-p", {1, 0, 0.95f});
        }
        elementwise(b, m, rows);
    }
    if (const char *obstacle = wgmma_obstacle()) {
        printf("without wgmma: %s\n", obstacle);
        return 0;
    }
    use_path(ProductPath::wgmma);
    large_product(b, quick, path_name(path_in_use()));
    for (const Model &m : models) {
        if (quick && &m != &models[1]) continue;
        invariance(b, m, path_name(path_in_use()));
        products(b, m, rows);
    }
    b.write_json(); // as parts of the highest ceiling
    return 0;
}

} // namespace

} // namespace lathe::bench

int main(int argc, char **argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0); // what was measured is told before what ends the program
    bool quick = false;
    const char *json = nullptr;
    std::vector<std::string> wanted;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick")) {
            quick = true;
        } else if (!strcmp(argv[i], "--json") && i + 1 < argc) {
            json = argv[++i];
        } else if (argv[i][0] == '-') {
            fprintf(stderr, "usage: bench [--quick] [--json FILE] [part of a name]...\n");
            return 64;
        } else {
            wanted.push_back(argv[i]);
        }
    }
    try {
        return lathe::bench::run(quick, json, wanted);
    } catch (const std::exception &e) {
        fprintf(stderr, "bench: %s\n", e.what());
        return 69;
    }
}
