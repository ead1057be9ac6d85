// test_rope.cu: rope.cu against its twins.
#include <algorithm>

#include "../kernels.h"
#include "../twins/twins.h"
#include "cases.h"
#include "harness.h"

namespace lathe::test {

constexpr float epsilon = 1e-6f;

// As a model with the base 1e6 has them, and the factor that follows; padding and
// far positions among them.
static std::vector<float> frequencies(int width) {
    std::vector<float> all;
    for (int i = 0; i < width / 2; i++) all.push_back(static_cast<float>(std::pow(1e6, -2.0 * i / width)));
    all.push_back(1.125f); // exact in both types
    return all;
}

static std::vector<int32_t> some_positions(int64_t rows) {
    const int32_t far[] = {0, 1, -1, 40959, 131071, 7, 100};
    std::vector<int32_t> all;
    for (int64_t row = 0; row < rows; row++) all.push_back(far[row % 7] + (far[row % 7] < 0 ? 0 : static_cast<int32_t>(row / 7)));
    return all;
}

template <class T>
static void forward_and_backward(Test &t, const HeadCase &c) {
    t.describe("%s, %d+%d heads of %d, %d rows%s, offset %d", type_name<T>(), c.query, c.key, c.width, int(c.rows), c.norms ? ", norms" : "",
               c.offset);
    Random random(8);
    const twin::Heads heads{c.query, c.key, c.width};
    const int64_t turned = (c.query + c.key) * c.rows;
    std::vector<T> qkv = random.values<T>(c.rows * heads.row()), dqkv = random.values<T>(c.rows * heads.row());
    if (c.rows > 3) qkv[3 * heads.row()] = from_float<T>(NAN); // one head of one row
    const std::vector<T> q_norm = random.values<T>(c.norms ? c.width : 0), k_norm = random.values<T>(c.norms ? c.width : 0);
    const std::vector<float> angles = frequencies(c.width);
    const std::vector<int32_t> positions = some_positions(c.rows), blocks = row_blocks(c.rows);
    const int64_t block_count = int64_t(blocks.size()) - 1;

    Shifted<T> x(qkv, c.offset), d(dqkv, c.offset), device_q(q_norm, c.offset), device_k(k_norm, c.offset), unkept(qkv, c.offset);
    Shifted<T> before(std::vector<T>(turned * c.width), c.offset);
    Buffer<float> rstd(std::vector<float>(turned, 0.0f)), device_angles(angles), partial(block_count * 2 * c.width);
    Buffer<int32_t> device_positions(positions), device_blocks(blocks);
    T *q = c.norms ? device_q.get() : nullptr, *k = c.norms ? device_k.get() : nullptr, *kept = c.norms ? before.get() : nullptr;
    float *kept_rstd = c.norms ? rstd.get() : nullptr, *sums = c.norms ? partial.get() : nullptr;

    rope_forward(t.stream, x.get(), kept_rstd, kept, q, k, device_angles.get(), device_positions.get(), CacheRows<T>{}, c.rows,
                 c.query, c.key, c.width, epsilon);
    rope_forward(t.stream, unkept.get(), static_cast<float *>(nullptr), static_cast<T *>(nullptr), q, k, device_angles.get(),
                 device_positions.get(), CacheRows<T>{}, c.rows, c.query, c.key, c.width, epsilon);
    std::vector<double> want = widen(qkv);
    const twin::Rope want_kept = twin::rope_forward(want, widen(q_norm), widen(k_norm), angles, positions, heads, epsilon);
    // Two products and a sum in float32 of numbers below √width·√3, after some
    // roundings in the norm, then one rounding to T.
    const double single = unit_roundoff<float>(), size = c.norms ? 3 * std::sqrt(double(c.width)) : 2;
    const Tolerance tolerance = {unit_roundoff<T>() * 1.01, 16 * single * size};
    t.close("qkv", x.read(), want, tolerance);
    t.equal("qkv, nothing kept", unkept.read(), x.read());
    if (c.norms) {
        t.close("rstd", rstd.read(), want_kept.rstd, {16 * single, 0});
        t.close("before", before.read(), want_kept.before, {0, 0});
    }

    rope_backward(t.stream, d.get(), sums, kept_rstd, kept, q, k, device_angles.get(), device_positions.get(), device_blocks.get(), block_count,
                  c.rows, c.query, c.key, c.width);
    std::vector<double> want_d = widen(dqkv);
    const twin::Array want_partial = twin::rope_backward(want_d, widen(rstd.read()), want_kept.before, widen(q_norm), widen(k_norm), angles,
                                                         positions, blocks, heads);
    double most = 1;
    for (double r : want_kept.rstd) most = std::isnan(r) ? most : std::max(most, r);
    t.close("dqkv", d.read(), want_d, {tolerance.relative, tolerance.absolute * 4 * most});
    // Chains over 64 rows and the heads of numbers below 3·√width.
    if (c.norms) t.close("partial", partial.read(), want_partial, {0, single * size * 3 * 64 * std::max(c.query, c.key)});
}

TEST(rope_f32) {
    for (const HeadCase &c : head_cases) forward_and_backward<float>(t, c);
}
TEST(rope_bf16) {
    for (const HeadCase &c : head_cases) forward_and_backward<bf16>(t, c);
}

// What is turned, and the values, also go to the cache, but for rows of position -1.
template <class T>
static void writes(Test &t, const HeadCase &c, int64_t rows) {
    t.describe("%s, %d+%d heads of %d, %d rows, offset %d", type_name<T>(), c.query, c.key, c.width, int(rows), c.offset);
    Random random(9);
    const twin::Heads heads{c.query, c.key, c.width};
    const int64_t cache_pages = rows / ENG_PAGE_TOKENS + 1, cache = cache_pages * ENG_PAGE_TOKENS * c.key * c.width;
    const std::vector<T> qkv = random.values<T>(rows * heads.row()), empty = random.values<T>(cache);
    const std::vector<int32_t> positions = some_positions(rows);
    std::vector<int32_t> pages, places, written;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t place = rows - 1 - row;
        pages.push_back(row % 6 == 4 ? -1 : static_cast<int32_t>(place / ENG_PAGE_TOKENS));
        places.push_back(row % 6 == 5 ? -1 : static_cast<int32_t>(place % ENG_PAGE_TOKENS));
        written.push_back(positions[row] < 0 ? -1 : pages[row]);
    }
    Shifted<T> x(qkv, c.offset), apart(qkv, c.offset), keys(empty, c.offset), values(empty, c.offset);
    Buffer<int32_t> device_pages(pages), device_places(places), device_positions(positions);
    Buffer<float> angles(frequencies(c.width));
    const CacheRows<T> to{keys.get(), values.get(), device_pages.get(), device_places.get()};
    auto turn = [&](T *of, const CacheRows<T> &cache) {
        rope_forward<T>(t.stream, of, nullptr, nullptr, nullptr, nullptr, angles.get(), device_positions.get(), cache, rows, c.query, c.key,
                        c.width, epsilon);
    };
    turn(x.get(), to);
    turn(apart.get(), {});
    t.equal("qkv", x.read(), apart.read());
    std::vector<double> want_keys = widen(empty), want_values = widen(empty);
    twin::cache_write(want_keys, want_values, widen(x.read()), written, places, heads);
    t.close("keys", keys.read(), want_keys, {0, 0});
    t.close("values", values.read(), want_values, {0, 0});
}

TEST(rope_writes_to_the_cache) {
    for (const HeadCase &c : head_cases) {
        writes<float>(t, c, c.rows);
        writes<bf16>(t, c, c.rows);
    }
    writes<bf16>(t, head_cases[0], 150); // by the warps that a block has for many rows
}

template <class T>
static void copies(Test &t, int64_t elements) {
    t.describe("%s, pages of %d", type_name<T>(), int(elements));
    const int64_t caches = 3, pages = 4, from = 2, to = 1;
    Random random(10);
    std::vector<T> all = random.values<T>(caches * pages * elements);
    Buffer<T> cache(all);
    cache_copy(t.stream, cache.get(), caches, pages, elements, from, to);
    for (int64_t c = 0; c < caches; c++) {
        const auto page = all.begin() + c * pages * elements;
        std::copy_n(page + from * elements, elements, page + to * elements);
    }
    t.equal("cache", cache.read(), all);
}

TEST(cache_copy_copies_a_page_of_each) {
    for (int64_t elements : {8, ENG_PAGE_TOKENS * 2, ENG_PAGE_TOKENS * 4 * 128}) {
        copies<float>(t, elements);
        copies<bf16>(t, elements);
    }
}

} // namespace lathe::test
