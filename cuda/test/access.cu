// access.cu: the hot kernels on shapes of Qwen2.5, for the instrument that counts
// bank conflicts and uncoalesced accesses (host/access.cpp). It prints a table.
//
//   access [part of a name]…
//
// First the instrument itself is tested on patterns whose numbers are known.
// Shapes have a model's widths and as few rows as give whole tiles: what a warp's
// lanes access together does not depend on how many blocks there are.
#include <algorithm>

#include "../gemm.h"
#include "../host/access.h"
#include "../kernels.h"
#include "../mma.cuh"
#include "harness.h"

namespace lathe::test {

namespace {

struct Model {
    const char *name;
    int64_t hidden, intermediate;
    int heads, kv_heads, head_dim;
    bool qk_norm;
    int64_t qkv() const { return static_cast<int64_t>(heads + 2 * kv_heads) * head_dim; }
    int64_t mixed() const { return static_cast<int64_t>(heads) * head_dim; }
    int64_t turned() const { return static_cast<int64_t>(heads + kv_heads) * head_dim; }
};

// The widths of Qwen2.5-0.5B, and heads of 128 with norms as Qwen3 has them.
const Model models[] = {{"D=64", 896, 4864, 14, 2, 64, false}, {"D=128", 1024, 3072, 16, 8, 128, true}};
constexpr int64_t vocabulary = 151936;

Random random_values(83);
std::vector<std::string> wanted;

bool begins(const std::string &name) {
    auto is_part = [&](const std::string &part) { return name.find(part) != std::string::npos; };
    if (!wanted.empty() && std::none_of(wanted.begin(), wanted.end(), is_part)) return false;
    host::access_case(name);
    return true;
}

template <class T>
std::vector<T> values(int64_t n, double scale = 1) {
    return random_values.values<T>(n, scale);
}
Buffer<bf16> halves(int64_t n) { return Buffer<bf16>(values<bf16>(n)); }
Buffer<float> floats(int64_t n) { return Buffer<float>(values<float>(n)); }

std::vector<int32_t> counted(int64_t n) {
    std::vector<int32_t> all;
    for (int64_t i = 0; i < n; i++) all.push_back(static_cast<int32_t>(i));
    return all;
}

// ---------------------------------------------------------------- known patterns

// What one warp does with `stride` words, or rows of so many bytes, between its lanes.
enum class Pattern { words, pairs, quads, halves, matrices, copies, divergent };

__device__ inline uint32_t twice(const uint32_t *from) { return 2 * *from; } // may be called from two places

__global__ void pattern_kernel(uint32_t *out, const uint32_t *in, Pattern pattern, int stride) {
    SHARED(uint32_t, words, [32 * 64]);
    const int lane = lane_index();
    switch (pattern) {
    case Pattern::words: words[lane * stride] = in[lane * stride]; break;
    case Pattern::pairs: reinterpret_cast<uint2 *>(words)[lane * stride] = reinterpret_cast<const uint2 *>(in)[lane * stride]; break;
    case Pattern::quads: store16(words + 4 * lane * stride, load16(in + 4 * lane * stride)); break;
    case Pattern::halves: reinterpret_cast<uint16_t *>(words)[lane * stride] = reinterpret_cast<const uint16_t *>(in)[lane * stride]; break;
    case Pattern::copies:
        cp_async_16(words + 4 * lane * stride, in + 4 * lane * stride, 16);
        cp_async_commit();
        cp_async_wait<0>();
        break;
    case Pattern::matrices: {
        uint32_t fragment[4];
        ldmatrix_x4(fragment, words + lane % 8 * stride / 4 + lane / 8 * 4);
        break;
    }
    case Pattern::divergent: { // every second lane goes another way to the same function
        uint32_t x;
        if (lane % 2 == 0) x = twice(in + lane) + 1;
        else x = twice(in + lane + stride);
        words[lane] = x;
        __syncwarp();
        if (lane < 8) words[lane] = in[lane];
    }
    }
    if (out != nullptr) out[lane] = words[lane];
}

void check_patterns() {
    struct {
        Pattern pattern;
        int stride;
        host::AccessCounts want;
    } const cases[] = {
        {Pattern::words, 1, {1, 1, 4, 4}},       {Pattern::words, 2, {2, 1, 8, 4}},     {Pattern::words, 32, {32, 1, 32, 4}},
        {Pattern::words, 33, {1, 1, 32, 4}},     {Pattern::words, 0, {1, 1, 1, 1}},     {Pattern::pairs, 1, {2, 2, 8, 8}},
        {Pattern::pairs, 2, {4, 2, 16, 8}},      {Pattern::quads, 1, {4, 4, 16, 16}},   {Pattern::quads, 2, {8, 4, 32, 16}},
        {Pattern::halves, 1, {1, 1, 2, 2}},      {Pattern::halves, 2, {1, 1, 4, 2}},    {Pattern::copies, 1, {4, 4, 16, 16}},
        {Pattern::copies, 8, {32, 4, 32, 16}},   {Pattern::matrices, 16, {4, 4, 0, 0}}, {Pattern::matrices, 128, {32, 4, 0, 0}},
        {Pattern::matrices, 144, {4, 4, 0, 0}},  {Pattern::divergent, 0, {2, 2, 9, 5}},
    };
    Buffer<uint32_t> in(std::vector<uint32_t>(32 * 64, 1));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t *nowhere = nullptr;
        LAUNCH(pattern_kernel, dim3(1), dim3(32), 0, nullptr, nowhere, in.get(), cases[i].pattern, cases[i].stride);
        const host::AccessCounts got = host::access_take(), want = cases[i].want;
        if (memcmp(&got, &want, sizeof got) != 0)
            throw std::runtime_error("pattern " + std::to_string(i) + ": " + std::to_string(got.wavefronts) + " / " +
                                     std::to_string(got.ideal_wavefronts) + " wavefronts, " + std::to_string(got.sectors) + " / " +
                                     std::to_string(got.ideal_sectors) + " sectors");
    }
}

// ---------------------------------------------------------------- the hot kernels

// Each form with every tile, at the width of the hidden state.
void products(ProductPath path, int tiles, int64_t rows) {
    const int64_t M = rows, N = 512, K = 896;
    use_path(path);
    Buffer<bf16> x = halves(M * K), w = halves(N * K), dy = halves(M * N), y = halves(M * N), dx = halves(M * K), bias = halves(N);
    Buffer<float> dw = floats(N * K);
    for (int tile = 0; tile < tiles; tile++) {
        force_tile(tile);
        const std::string suffix = std::string(" ") + path_name(path) + " tile " + std::to_string(tile);
        if (begins("product NT" + suffix)) product_nt<bf16>(nullptr, y, N, x, K, w, K, bias, M, N, K, 1, false);
        if (begins("product NN" + suffix)) product_nn<bf16>(nullptr, dx, K, dy, N, w, K, M, N, K, 1, true);
        if (begins("product TN" + suffix)) product_tn<bf16>(nullptr, dw, K, dy, N, x, K, M, N, K, 1);
    }
    force_tile(-1);
    use_path(ProductPath::mma);
}

void attention(const Model &m) {
    const int64_t length = 192, rows = length;
    std::vector<int32_t> tiles;
    for (int32_t row = 0; row < length; row += attention_tile_rows()) tiles.insert(tiles.end(), {0, row});
    Buffer<int32_t> starts(std::vector<int32_t>{0}), lengths(std::vector<int32_t>{static_cast<int32_t>(length)}), tile_list(tiles);
    const Packing packing{starts, lengths, tile_list, 1, static_cast<int32_t>(tiles.size() / 2)};
    Buffer<bf16> out = halves(rows * m.mixed()), dout = halves(rows * m.mixed());
    Buffer<bf16> qkv = halves(rows * m.qkv()), dqkv = halves(rows * m.qkv());
    Buffer<float> lse = floats(rows * m.heads), delta = floats(rows * m.heads);
    if (begins(std::string("attention forward ") + m.name))
        attention_forward<bf16>(nullptr, out, lse, qkv, packing, m.heads, m.kv_heads, m.head_dim);
    if (begins(std::string("attention backward ") + m.name))
        attention_backward<bf16>(nullptr, dqkv, delta, dout, out, lse, qkv, packing, rows, m.heads, m.kv_heads, m.head_dim);
}

// Slots that decode, and a piece of a prompt, over pages.
void paged(const Model &m) {
    const int64_t batch = 4, length = 576, width = ceil_div(length, int64_t{ENG_PAGE_TOKENS}), pages = batch * width;
    std::vector<int32_t> tables;
    for (int64_t i = 0; i < pages; i++) tables.push_back(static_cast<int32_t>(i * 7 % pages));
    Buffer<int32_t> table(tables), slots(counted(batch)), positions(std::vector<int32_t>(batch, static_cast<int32_t>(length - 1)));
    const int64_t cache = pages * ENG_PAGE_TOKENS * m.kv_heads * m.head_dim, rows = 2 * attention_tile_rows();
    Buffer<bf16> keys = halves(cache), cached = halves(cache), out = halves(rows * m.mixed()), qkv = halves(rows * m.qkv());
    const int64_t longest = attention_splits(static_cast<int32_t>(length - 1)), count = batch * longest;
    Buffer<int32_t> work(std::vector<int32_t>(2 * count, -1)), arrived(std::vector<int32_t>(batch * m.heads, 0));
    Buffer<float> partials(count * attention_partial_width(m.heads, m.head_dim)), lse = floats(rows * m.heads);
    const Splits splits{work, count, count, longest, partials, arrived};
    if (begins(std::string("attention paged ") + m.name)) {
        list_splits(nullptr, work, count, positions, batch);
        attention_paged<bf16>(nullptr, out, qkv, keys, cached, table, width, slots, positions, splits, m.heads, m.kv_heads, m.head_dim);
    }
    const int32_t tile = attention_tile_rows(), first = static_cast<int32_t>(length) - 2 * tile;
    Buffer<int32_t> tiles(std::vector<int32_t>{0, first, tile, tile, 0, tile, first + tile, tile, tile, 0});
    const PagedTiles of_piece{tiles, table, width, 2};
    if (begins(std::string("attention tiles ") + m.name))
        attention_tiles<bf16>(nullptr, out, lse, qkv, keys, cached, of_piece, m.heads, m.kv_heads, m.head_dim);
}

void rope(const Model &m) {
    const int64_t rows = 64;
    Buffer<bf16> qkv = halves(rows * m.qkv()), before = halves(rows * m.turned()), q_norm = halves(m.head_dim), k_norm = halves(m.head_dim);
    Buffer<float> rstd = floats(rows * (m.heads + m.kv_heads)), frequencies = floats(m.head_dim / 2 + 1), partial = floats(2 * m.head_dim);
    Buffer<int32_t> positions(counted(rows)), blocks(std::vector<int32_t>{0, static_cast<int32_t>(rows)});
    Buffer<int32_t> pages(std::vector<int32_t>(rows, 0)); // of one page
    Buffer<bf16> keys = halves(rows * m.kv_heads * m.head_dim), values = halves(rows * m.kv_heads * m.head_dim);
    bf16 *q = m.qk_norm ? q_norm.get() : nullptr, *k = m.qk_norm ? k_norm.get() : nullptr, *kept = m.qk_norm ? before.get() : nullptr;
    float *kept_rstd = m.qk_norm ? rstd.get() : nullptr, *sums = m.qk_norm ? partial.get() : nullptr;
    if (begins(std::string("rope forward ") + m.name))
        rope_forward<bf16>(nullptr, qkv, kept_rstd, kept, q, k, frequencies, positions, {keys, values, pages, positions}, rows, m.heads,
                           m.kv_heads, m.head_dim, 1e-6f);
    if (begins(std::string("rope backward ") + m.name))
        rope_backward<bf16>(nullptr, qkv, sums, kept_rstd, kept, q, k, frequencies, positions, blocks, 1, rows, m.heads, m.kv_heads, m.head_dim);
}

// What goes through rows of hidden and intermediate activations.
void rows_of(const Model &m) {
    const int64_t rows = 64, hidden = m.hidden, width = m.intermediate;
    const std::string name = std::string(" ") + m.name;
    Buffer<bf16> x = halves(rows * hidden), out = halves(rows * hidden), branch = halves(rows * hidden), weight = halves(hidden);
    Buffer<float> rstd = floats(rows), partial = floats(4 * hidden), gradient = floats(hidden);
    Buffer<int32_t> blocks(std::vector<int32_t>{0, 16, 32, 48, 64});
    if (begins("norm forward" + name)) rmsnorm_forward<bf16>(nullptr, out, rstd, x, x, branch, weight, rows, hidden, 1e-6f);
    if (begins("norm backward" + name)) rmsnorm_backward<bf16>(nullptr, x, partial, out, branch, rstd, weight, blocks, 4, hidden);
    if (begins("add partials" + name)) add_partials(nullptr, gradient, partial, 4, hidden);
    if (begins("bias partials" + name)) bias_partials<bf16>(nullptr, partial, x, hidden, blocks, 4, hidden);
    Buffer<bf16> gate_up = halves(2 * rows * width), dout = halves(rows * width);
    if (begins("SwiGLU forward" + name)) swiglu_forward<bf16>(nullptr, dout, gate_up, rows, width);
    if (begins("SwiGLU backward" + name)) swiglu_backward<bf16>(nullptr, gate_up, dout, gate_up, rows, width);
    Buffer<bf16> table = halves(256 * hidden);
    Buffer<float> table_gradient = floats(256 * hidden);
    std::vector<int32_t> tokens, ids, starts{0};
    for (int32_t row = 0; row < rows; row++) tokens.push_back(row * 37 % 256);
    for (int32_t id = 0; id < rows / 4; id++) ids.push_back(id * 11), starts.push_back(4 * (id + 1));
    Buffer<int32_t> token_list(tokens), id_list(ids), start_list(starts), order(counted(rows));
    if (begins("embedding forward" + name)) embed_forward<bf16>(nullptr, out, table, token_list, rows, hidden);
    if (begins("embedding backward" + name)) embed_backward<bf16>(nullptr, table_gradient, x, id_list, start_list, order, rows / 4, hidden);
    if (begins("scatter" + name)) scatter_add_rows<bf16>(nullptr, table, x, token_list, rows, hidden);
    if (begins("value forward" + name)) value_forward<bf16>(nullptr, rstd, x, gradient, rows, hidden);
    if (begins("value backward" + name)) value_backward<bf16>(nullptr, x, partial, rstd, branch, gradient, blocks, 4, rows, hidden);
}

struct Way {
    const char *name;
    eng_sampling sampling;
};
const Way ways[] = {{"all", {1, 0, 0}}, {"top-k", {1, 50, 0}}, {"top-p", {1, 0, 0.95f}}};

void head() {
    const int64_t rows = 2;
    const std::vector<bf16> logits = values<bf16>(rows * vocabulary, 3);
    Buffer<int32_t> targets(std::vector<int32_t>(rows, 1000));
    Buffer<float> logprobs = floats(rows), dlogprob = floats(rows);
    Buffer<RowStatistics> statistics(rows);
    for (const Way &way : ways) {
        Buffer<bf16> x(logits);
        if (!begins(std::string("head forward ") + way.name)) continue;
        head_forward<bf16>(nullptr, logprobs, statistics, x, vocabulary, targets, rows, vocabulary, way.sampling);
        begins(std::string("head backward ") + way.name);
        head_backward<bf16>(nullptr, x, vocabulary, statistics, targets, dlogprob, nullptr, rows, vocabulary, way.sampling);
    }
}

void sample() {
    const size_t n = 2;
    for (const Way &way : ways) {
        if (!begins(std::string("sample ") + way.name)) continue;
        Buffer<int32_t> token(std::vector<int32_t>(n, 1)), position(std::vector<int32_t>(n, 5)), remaining(std::vector<int32_t>(n, 9)),
            state(std::vector<int32_t>(n, ENG_RUNNING)), stops(std::vector<int32_t>(n, 0)), stop(std::vector<int32_t>(n * ENG_MAX_STOPS, 0)),
            count(std::vector<int32_t>(n, 0)), tokens(n * 16);
        Buffer<uint32_t> key(std::vector<uint32_t>(2 * n, 3)), stream(std::vector<uint32_t>(n, 0));
        Buffer<eng_sampling> samplings(std::vector<eng_sampling>(n, way.sampling));
        Buffer<float> logprobs(n * 16);
        Buffer<bf16> logits(values<bf16>(n * vocabulary, 3));
        const Slots slots{token, position, remaining, state, stops, stop, key, stream, samplings, count};
        sample_tokens<bf16>(nullptr, slots, tokens, logprobs, n, 16, logits, vocabulary, vocabulary, 1 << 20);
    }
}

void optimizer() {
    const int64_t n = 1 << 16;
    Buffer<bf16> weights = halves(n), half_average = halves(n), half_square(std::vector<bf16>(n, from_float<bf16>(0.01f)));
    Buffer<float> master = floats(n), average = floats(n), square(std::vector<float>(n, 0.01f)), gradient = floats(n);
    Buffer<double> partial(ceil_div(n, norm_segment())), total(std::vector<double>{1});
    const AdamW settings{1e-5f, 0.9f, 0.999f, 1e-8f, 0, 0.1f, 0.001f, 1, {1, 2}, 3};
    if (begins("squares")) squares(nullptr, partial, gradient, n);
    if (begins("add squares")) add_squares(nullptr, total, partial, static_cast<int64_t>(partial.size()));
    if (begins("AdamW float32 state")) adamw<bf16, float>(nullptr, weights, master, average, square, gradient, total, settings, 0, n);
    if (begins("AdamW bfloat16 state"))
        adamw<bf16, bf16>(nullptr, weights, nullptr, half_average, half_square, gradient, total, settings, 0, n);
    if (begins("convert")) convert<bf16, float>(nullptr, weights, master, n);
    if (begins("add float")) add_float(nullptr, master, average, n);
}

void run() {
    check_patterns();
    products(ProductPath::mma, product_tiles, 256);
    products(ProductPath::wgmma, warpgroup_tiles, 128);
    for (const Model &m : models) {
        attention(m);
        paged(m);
        rope(m);
        rows_of(m);
    }
    head();
    sample();
    optimizer();
    host::access_report(stdout);
}

} // namespace

} // namespace lathe::test

int main(int argc, char **argv) {
    lathe::test::wanted.assign(argv + 1, argv + argc);
    try {
        lathe::test::run();
    } catch (const std::exception &e) {
        fprintf(stderr, "access: %s\n", e.what());
        return 1;
    }
    return 0;
}
