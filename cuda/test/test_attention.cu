// test_attention.cu: attention against its twins; and pages give the bits of
// packed sequences, and those do not depend on what else is packed.
#include <algorithm>

#include "../kernels.h"
#include "../twins/twins_attention.h"
#include "harness.h"

namespace lathe::test {

namespace {

using twin::AttentionShape;

struct AttentionCase {
    AttentionShape shape;
    std::vector<int32_t> lengths;
};

const AttentionCase attention_cases[] = {
    {{2, 1, 64}, {1}},               // a single token
    {{7, 1, 64}, {65, 1, 64}},       // Qwen2.5-0.5B's groups; a block and one more
    {{4, 2, 128}, {70, 16}},         // wide heads
    {{1, 1, 64}, {130}},             // heads of their own; three blocks
    {{20, 1, 64}, {33}},             // more heads to a key than a tensor core has rows
    {{2, 1, 2}, {5, 66}},            // the plain path: the narrowest
    {{4, 2, 34}, {67}},              // an odd width
    {{1, 1, 256}, {40}},             // the widest
};

// Around the borders of splits.
const AttentionCase split_cases[] = {
    {{1, 1, 64}, {255, 256, 257}},
    {{8, 1, 64}, {258}},
    {{1, 1, 128}, {513}}, // three
    {{17, 1, 64}, {257}}, // more heads to a key than a tensor core has rows
};
const AttentionCase plain_split_cases[] = {
    {{1, 1, 34}, {255, 256, 257}},
    {{2, 1, 6}, {770}},
};

// A trunk and how long what goes on from it is.
struct FamilyCase {
    AttentionShape shape;
    int32_t trunk;
    std::vector<int32_t> branches;
};

// Trunks that end within a block of keys and at its border; branches of one
// token, that begin and end within a block, fill one, or leave zeros to write
// behind a tile that is full.
const FamilyCase family_cases[] = {
    {{2, 1, 64}, 1, {1, 63, 64, 65}},
    {{7, 1, 64}, 64, {5, 64, 1}},
    {{4, 2, 128}, 70, {54, 58, 122, 130}},
    {{2, 2, 64}, 10, {118}}, // 54 + 64 tokens, and 10 rows of zeros
    {{2, 1, 64}, 250, {3, 6, 7, 20}}, // around a split's border
    {{1, 1, 34}, 37, {30, 1}},
    {{2, 1, 6}, 127, {130, 129}},
};

// Sequences packed as a pass has them, with NaN in the rows between them. With
// trunk, the first is one on which all others go on.
template <class T>
struct Packed {
    AttentionShape shape;
    std::vector<int32_t> starts, lengths, tiles, trunks;
    int64_t rows = 0;
    std::vector<T> qkv;
    Buffer<int32_t> starts_buffer, lengths_buffer, tiles_buffer, trunks_buffer;
    Packing packing;

    Packed(Random &random, const AttentionShape &shape, const std::vector<int32_t> &lengths, bool trunk = false)
        : shape(shape), starts(places(lengths)), lengths(lengths), tiles(tiles_of(lengths, trunk)), trunks(trunks_of(lengths, trunk)),
          rows(starts.back()), qkv(random.values<T>(rows * shape.width())), starts_buffer(starts), lengths_buffer(lengths),
          tiles_buffer(tiles), trunks_buffer(trunks),
          packing{starts_buffer, lengths_buffer, tiles_buffer, static_cast<int32_t>(lengths.size()),
                  static_cast<int32_t>(tiles.size() / 2)} {
        if (trunk) packing.trunks = trunks_buffer;
        spoil(qkv, shape.width());
    }

    static std::vector<int32_t> places(const std::vector<int32_t> &lengths) {
        std::vector<int32_t> starts{0};
        for (int32_t n : lengths) starts.push_back(starts.back() + ceil_div(n, ENG_ROW_ALIGN) * ENG_ROW_ALIGN);
        return starts;
    }
    static std::vector<int32_t> tiles_of(const std::vector<int32_t> &lengths, bool trunk) {
        std::vector<int32_t> tiles;
        for (size_t s = 0; s < lengths.size(); s++)
            list_tiles(trunk && s > 0 ? lengths[0] : 0, lengths[s],
                       [&](int32_t row) { tiles.insert(tiles.end(), {static_cast<int32_t>(s), row}); });
        return tiles;
    }
    static std::vector<int32_t> trunks_of(const std::vector<int32_t> &lengths, bool trunk) {
        std::vector<int32_t> trunks(lengths.size(), trunk ? 0 : -1);
        trunks[0] = -1;
        return trunks;
    }
    // Puts NaN in the rows between sequences.
    template <class E>
    void spoil(std::vector<E> &x, int64_t width) const {
        for (size_t s = 0; s < lengths.size(); s++)
            for (int64_t i = (starts[s] + lengths[s]) * width; i < starts[s + 1] * width; i++) x[i] = from_float<E>(NAN);
    }
    // The rows of one sequence.
    template <class E>
    twin::Numbers of(const std::vector<E> &x, size_t s, int64_t width) const {
        return widen(std::vector<E>(x.begin() + starts[s] * width, x.begin() + (starts[s] + lengths[s]) * width));
    }
    void put(twin::Numbers &to, const twin::Numbers &from, size_t s, int64_t width) const {
        std::copy(from.begin(), from.end(), to.begin() + starts[s] * width);
    }
};

template <class T>
struct Attended {
    std::vector<T> out;
    std::vector<float> lse;
};

template <class T>
Attended<T> attend(Test &t, const Packed<T> &p) {
    const AttentionShape s = p.shape;
    Buffer<T> qkv(p.qkv), out(static_cast<size_t>(p.rows * s.heads * s.head_dim));
    Buffer<float> lse(static_cast<size_t>(p.rows * s.heads));
    attention_forward<T>(t.stream, out, lse, qkv, p.packing, s.heads, s.kv_heads, s.head_dim);
    return {out.read(), lse.read()};
}

void describe(Test &t, const char *type, const AttentionCase &c) {
    t.describe("%s, %d heads, %d of keys, %d wide, %zu sequences, the first of %d", type, c.shape.heads, c.shape.kv_heads, c.shape.head_dim,
               c.lengths.size(), c.lengths[0]);
}

// Values are below 1.8 and so is every weighted mean. In bfloat16 weights are
// rounded before they meet the values, which changes a mean by less than 2^-8 of 1.8.
template <class T>
Tolerance attention_tolerance() {
    return {unit_roundoff<T>(), sizeof(T) == 2 ? 1.8 / 256 : 1e-5};
}

template <class T>
void check_forward(Test &t, const AttentionCase &c) {
    Random random(41);
    describe(t, type_name<T>(), c);
    const Packed<T> p(random, c.shape, c.lengths);
    const Attended<T> got = attend(t, p);
    const int64_t width = c.shape.heads * c.shape.head_dim;
    twin::Numbers out(got.out.size()), lse(got.lse.size());
    for (size_t s = 0; s < c.lengths.size(); s++) {
        twin::Numbers one, one_lse;
        twin::attention_forward(one, one_lse, p.of(p.qkv, s, c.shape.width()), c.lengths[s], c.shape);
        p.put(out, one, s, width);
        p.put(lse, one_lse, s, c.shape.heads);
    }
    t.close("out", got.out, out, attention_tolerance<T>());
    t.close("lse", got.lse, lse, {1e-6, 1e-5});
}

// Each sequence by itself gives the bits that it has among others.
template <class T>
void check_alone(Test &t, const AttentionCase &c) {
    Random random(43);
    describe(t, type_name<T>(), c);
    const Packed<T> p(random, c.shape, c.lengths);
    const Attended<T> all = attend(t, p);
    const int64_t width = c.shape.heads * c.shape.head_dim;
    for (size_t s = 0; s < c.lengths.size(); s++) {
        Packed<T> alone(random, c.shape, {c.lengths[s]});
        alone.qkv.assign(p.qkv.begin() + p.starts[s] * c.shape.width(), p.qkv.begin() + p.starts[s + 1] * c.shape.width());
        const Attended<T> got = attend(t, alone);
        t.equal("out", got.out, std::vector<T>(all.out.begin() + p.starts[s] * width, all.out.begin() + p.starts[s + 1] * width));
        t.equal("lse", got.lse,
                std::vector<float>(all.lse.begin() + p.starts[s] * c.shape.heads, all.lse.begin() + p.starts[s + 1] * c.shape.heads));
    }
}

// Splits with room for so many at a time, 0: for all, and with more listed than there are.
struct Work {
    std::vector<int32_t> counters;
    Buffer<int32_t> work, arrived;
    Buffer<float> partials;
    Splits splits;

    static int64_t total(const std::vector<int32_t> &positions) {
        int64_t splits = 0;
        for (int32_t p : positions) splits += p < 0 ? 1 : attention_splits(p);
        return splits;
    }
    Work(Test &t, const AttentionShape &s, const std::vector<int32_t> &positions, int32_t *positions_buffer, int64_t room, int64_t surplus)
        : counters(positions.size() * s.heads, 0), work(2 * (total(positions) + surplus)), arrived(counters),
          partials((room == 0 ? total(positions) + surplus : room) * attention_partial_width(s.heads, s.head_dim)) {
        const int64_t count = total(positions) + surplus, longest = attention_splits(*std::max_element(positions.begin(), positions.end()));
        splits = {work, count, room == 0 ? count : room, longest, partials, arrived};
        list_splits(t.stream, work, count, positions_buffer, static_cast<int64_t>(positions.size()));
    }
};

// Keys and values in pages that are in no order and hold NaN behind each
// sequence's end: every row's bits are those of attention_forward, however many
// of its splits there is room for.
template <class T>
void check_paged(Test &t, const AttentionCase &c) {
    Random random(47);
    describe(t, type_name<T>(), c);
    const AttentionShape s = c.shape;
    const Packed<T> p(random, s, c.lengths);
    const Attended<T> all = attend(t, p);
    const int64_t table_width = ceil_div(*std::max_element(c.lengths.begin(), c.lengths.end()), ENG_PAGE_TOKENS) + 1;
    const int64_t page_count = table_width * static_cast<int64_t>(c.lengths.size()), row = s.kv_heads * s.head_dim;
    std::vector<int32_t> tables(page_count);
    for (int64_t i = 0; i < page_count; i++) tables[i] = static_cast<int32_t>(page_count - 1 - i);
    std::vector<T> keys(page_count * ENG_PAGE_TOKENS * row, from_float<T>(NAN)), values = keys;
    std::vector<int32_t> of_row, positions;
    std::vector<T> queries;
    std::vector<T> want;
    for (size_t q = 0; q < c.lengths.size(); q++) {
        for (int32_t i = 0; i < c.lengths[q]; i++) {
            const T *from = &p.qkv[(p.starts[q] + i) * s.width()];
            const int64_t to = (tables[q * table_width + i / ENG_PAGE_TOKENS] * int64_t{ENG_PAGE_TOKENS} + i % ENG_PAGE_TOKENS) * row;
            std::copy(from + s.heads * s.head_dim, from + s.heads * s.head_dim + row, keys.begin() + to);
            std::copy(from + s.heads * s.head_dim + row, from + s.width(), values.begin() + to);
            const int32_t of_split = i % attention_split_keys;
            const bool asked = i < 2 || (i < 256 && i % 31 == 0) || of_split < 2 || of_split == attention_split_keys - 1 || i == c.lengths[q] - 1;
            if (!asked) continue;
            of_row.push_back(static_cast<int32_t>(q));
            positions.push_back(i);
            queries.insert(queries.end(), from, from + s.width());
            auto out = all.out.begin() + (p.starts[q] + i) * s.heads * s.head_dim;
            want.insert(want.end(), out, out + s.heads * s.head_dim);
        }
    }
    // A slot that is idle, one way and the other.
    for (int idle = 0; idle < 2; idle++) {
        of_row.push_back(idle == 0 ? -1 : 0);
        positions.push_back(idle == 0 ? 3 : -1);
        queries.resize(queries.size() + s.width(), from_float<T>(NAN));
        want.resize(want.size() + s.heads * s.head_dim, from_float<T>(0));
    }
    Buffer<T> queries_buffer(queries), keys_buffer(keys), values_buffer(values), out(want.size());
    Buffer<int32_t> tables_buffer(tables), rows_buffer(of_row), positions_buffer(positions);
    const int64_t longest = attention_splits(*std::max_element(positions.begin(), positions.end()));
    for (int64_t room : {int64_t{0}, longest + 1, 2 * longest + 3}) {
        if (room > 0 && longest == 1) continue;
        Work work(t, s, positions, positions_buffer, room, room == 0 ? 5 : 0);
        for (int run = 0; run < (room == 0 ? 2 : 1); run++) { // what counts the splits is as it was
            attention_paged<T>(t.stream, out, queries_buffer, keys_buffer, values_buffer, tables_buffer, table_width, rows_buffer,
                               positions_buffer, work.splits, s.heads, s.kv_heads, s.head_dim);
            t.equal("out", out.read(), want);
            t.equal("arrived", work.arrived.read(), work.counters);
        }
    }
}

// Rows of a sequence from some position on, in tiles over pages: their bits are
// those of attention_forward, and the rows after them become 0.
template <class T>
void check_tiles(Test &t, const AttentionCase &c) {
    Random random(59);
    describe(t, type_name<T>(), c);
    const AttentionShape s = c.shape;
    const Packed<T> p(random, s, c.lengths);
    const Attended<T> all = attend(t, p);
    const int64_t row = s.kv_heads * s.head_dim, width = s.heads * s.head_dim;
    const int64_t table_width = ceil_div(*std::max_element(c.lengths.begin(), c.lengths.end()), ENG_PAGE_TOKENS);
    const int64_t page_count = table_width * static_cast<int64_t>(c.lengths.size());
    std::vector<int32_t> tables(page_count), tiles;
    for (int64_t i = 0; i < page_count; i++) tables[i] = static_cast<int32_t>(page_count - 1 - i);
    std::vector<T> keys(page_count * ENG_PAGE_TOKENS * row, from_float<T>(NAN)), values = keys, queries, want;
    std::vector<float> want_lse;
    for (size_t q = 0; q < c.lengths.size(); q++) {
        const int32_t length = c.lengths[q], begin = length / 3; // not at a page's border
        for (int32_t i = 0; i < length; i++) {
            const T *from = &p.qkv[(p.starts[q] + i) * s.width()];
            const int64_t to = (tables[q * table_width + i / ENG_PAGE_TOKENS] * int64_t{ENG_PAGE_TOKENS} + i % ENG_PAGE_TOKENS) * row;
            std::copy(from + width, from + width + row, keys.begin() + to);
            std::copy(from + width + row, from + s.width(), values.begin() + to);
        }
        const int32_t first = static_cast<int32_t>(queries.size() / s.width());
        for (int32_t i = begin, n; i < length; i += n) {
            n = std::min(length - i, ENG_PAGE_TOKENS - i % ENG_PAGE_TOKENS);
            const int32_t left = i + n < length ? n : ceil_div(length - begin, ENG_ROW_ALIGN) * ENG_ROW_ALIGN - (i - begin);
            tiles.insert(tiles.end(), {first + i - begin, i, n, std::min(left, 64), static_cast<int32_t>(q)});
            if (left > 64) tiles.insert(tiles.end(), {first + i - begin + 64, 0, 0, left - 64, static_cast<int32_t>(q)});
        }
        auto take = [&](auto &to, const auto &from, int64_t of_row, auto after) {
            to.insert(to.end(), from.begin() + (p.starts[q] + begin) * of_row, from.begin() + (p.starts[q] + length) * of_row);
            to.resize((first + ceil_div(length - begin, ENG_ROW_ALIGN) * ENG_ROW_ALIGN) * of_row, after);
        };
        take(queries, p.qkv, s.width(), from_float<T>(NAN));
        take(want, all.out, width, from_float<T>(0));
        take(want_lse, all.lse, s.heads, 0.0f);
    }
    Buffer<T> queries_buffer(queries), keys_buffer(keys), values_buffer(values), out(want.size());
    Buffer<float> lse(want_lse.size());
    Buffer<int32_t> tables_buffer(tables), tiles_buffer(tiles);
    attention_tiles<T>(t.stream, out, lse, queries_buffer, keys_buffer, values_buffer,
                       {tiles_buffer, tables_buffer, table_width, static_cast<int32_t>(tiles.size() / 5)}, s.heads, s.kv_heads, s.head_dim);
    t.equal("out", out.read(), want);
    t.equal("lse", lse.read(), want_lse);
}

// In bfloat16 p, ds and out are rounded, each by 2^-9 of itself at most. Sums over 64 and
// more rows of products with numbers below 1.8 stay below 8 here.
template <class T>
Tolerance gradient_tolerance() {
    return {unit_roundoff<T>(), sizeof(T) == 2 ? 8.0 / 256 : 2e-5};
}

template <class T>
void check_backward(Test &t, const AttentionCase &c) {
    Random random(53);
    describe(t, type_name<T>(), c);
    const AttentionShape s = c.shape;
    const Packed<T> p(random, s, c.lengths);
    const Attended<T> forward = attend(t, p);
    const int64_t width = s.heads * s.head_dim;
    std::vector<T> dout = random.values<T>(p.rows * width), out = forward.out;
    p.spoil(dout, width);
    p.spoil(out, width);
    std::vector<T> before(p.qkv.size(), from_float<T>(5));
    Buffer<T> dqkv(before), dout_buffer(dout), out_buffer(out), qkv(p.qkv);
    Buffer<float> delta(static_cast<size_t>(p.rows * s.heads)), lse(forward.lse);
    attention_backward<T>(t.stream, dqkv, delta, dout_buffer, out_buffer, lse, qkv, p.packing, p.rows, s.heads, s.kv_heads, s.head_dim);
    twin::Numbers want(p.qkv.size());
    for (size_t q = 0; q < c.lengths.size(); q++) {
        twin::Numbers one;
        twin::attention_backward(one, p.of(dout, q, width), p.of(p.qkv, q, s.width()), c.lengths[q], s);
        p.put(want, one, q, s.width());
    }
    t.close("dqkv", dqkv.read(), want, gradient_tolerance<T>());
}

// What goes on from a trunk has the bits that it has in a sequence that spells
// the trunk out; the gradients are those of all such sequences together, and of the trunk.
template <class T>
void check_family(Test &t, const FamilyCase &c) {
    Random random(61);
    const AttentionShape s = c.shape;
    t.describe("%s, %d heads, %d of keys, %d wide, a trunk of %d, %zu branches, the first of %d", type_name<T>(), s.heads, s.kv_heads,
               s.head_dim, c.trunk, c.branches.size(), c.branches[0]);
    const int64_t width = s.heads * s.head_dim;
    std::vector<int32_t> lengths{c.trunk}, whole{c.trunk};
    for (int32_t n : c.branches) {
        lengths.push_back(n);
        whole.push_back(c.trunk + n);
    }
    const Packed<T> p(random, s, lengths, true);
    Packed<T> apart(random, s, whole);
    auto spell_out = [&](auto &to, const auto &from, int64_t of_row) {
        for (size_t q = 0; q < lengths.size(); q++) {
            auto at = std::copy_n(from.begin(), c.trunk * of_row, to.begin() + apart.starts[q] * of_row);
            if (q > 0) std::copy_n(from.begin() + p.starts[q] * of_row, lengths[q] * of_row, at);
        }
    };
    spell_out(apart.qkv, p.qkv, s.width());
    const Attended<T> got = attend(t, p), all = attend(t, apart);
    std::vector<T> want_out(got.out.size());
    std::vector<float> want_lse(got.lse.size());
    for (size_t q = 0; q < lengths.size(); q++) {
        const int64_t from = apart.starts[q] + (q > 0 ? c.trunk : 0);
        std::copy_n(all.out.begin() + from * width, lengths[q] * width, want_out.begin() + p.starts[q] * width);
        std::copy_n(all.lse.begin() + from * s.heads, lengths[q] * s.heads, want_lse.begin() + p.starts[q] * s.heads);
    }
    t.equal("out", got.out, want_out);
    t.equal("lse", got.lse, want_lse);

    std::vector<T> dout = random.values<T>(p.rows * width), out = got.out;
    p.spoil(dout, width);
    p.spoil(out, width);
    Buffer<T> dqkv(std::vector<T>(p.qkv.size(), from_float<T>(5))), dout_buffer(dout), out_buffer(out), qkv(p.qkv);
    Buffer<float> delta(static_cast<size_t>(p.rows * s.heads)), lse(got.lse);
    attention_backward<T>(t.stream, dqkv, delta, dout_buffer, out_buffer, lse, qkv, p.packing, p.rows, s.heads, s.kv_heads, s.head_dim);
    twin::Numbers want(p.qkv.size());
    for (size_t q = 0; q < lengths.size(); q++) {
        // Of the trunk's own queries once, with the trunk by itself.
        twin::Numbers gradient = p.of(dout, q, width), one;
        if (q > 0) gradient.insert(gradient.begin(), c.trunk * width, 0.0);
        twin::attention_backward(one, gradient, apart.of(apart.qkv, q, s.width()), whole[q], s);
        for (int64_t i = 0; i < c.trunk * s.width(); i++) want[i] += one[i];
        if (q > 0) std::copy(one.begin() + c.trunk * s.width(), one.end(), want.begin() + p.starts[q] * s.width());
    }
    const Tolerance of_one = gradient_tolerance<T>();
    // As many sums meet in the trunk.
    t.close("dqkv", dqkv.read(), want, {of_one.relative, of_one.absolute * static_cast<double>(lengths.size())});
}

template <void (*check)(Test &, const AttentionCase &), size_t N>
void for_all(Test &t, const AttentionCase (&cases)[N]) {
    for (const AttentionCase &c : cases) check(t, c);
}

} // namespace

TEST(attention_forward_bf16) {
    for_all<check_forward<bf16>>(t, attention_cases);
    for_all<check_forward<bf16>>(t, split_cases);
}
TEST(attention_forward_float) {
    for_all<check_forward<float>>(t, attention_cases);
    for_all<check_forward<float>>(t, plain_split_cases);
}
TEST(attention_of_a_sequence_depends_on_nothing_else) {
    for_all<check_alone<bf16>>(t, attention_cases);
    for_all<check_alone<float>>(t, attention_cases);
}
TEST(attention_paged_has_the_bits_of_attention_forward) {
    for_all<check_paged<bf16>>(t, attention_cases);
    for_all<check_paged<float>>(t, attention_cases);
    for_all<check_paged<bf16>>(t, split_cases);
    for_all<check_paged<float>>(t, plain_split_cases);
}
TEST(attention_tiles_have_the_bits_of_attention_forward) {
    for_all<check_tiles<bf16>>(t, attention_cases);
    for_all<check_tiles<float>>(t, attention_cases);
    for_all<check_tiles<bf16>>(t, split_cases);
    for_all<check_tiles<float>>(t, plain_split_cases);
}
TEST(attention_of_a_trunk_and_its_branches) {
    for (const FamilyCase &c : family_cases) {
        check_family<bf16>(t, c);
        check_family<float>(t, c);
    }
}
TEST(attention_backward_bf16) { for_all<check_backward<bf16>>(t, attention_cases); }
TEST(attention_backward_float) { for_all<check_backward<float>>(t, attention_cases); }

// Positions on both sides of a split's border, rows that are skipped, more rows
// than a block lists at a time, and room for more entries than there are.
TEST(splits_are_listed_in_order) {
    std::vector<int32_t> positions{255, -1, 256, 0, 1023, 1024};
    for (int32_t i = 0; i < 1300; i++) positions.push_back(i % 7 == 0 ? -1 : i * 3);
    for (size_t rows : {size_t{0}, size_t{1}, size_t{6}, positions.size()}) {
        t.describe("%zu rows", rows);
        const std::vector<int32_t> of_rows(positions.begin(), positions.begin() + rows);
        std::vector<int32_t> want;
        for (size_t row = 0; row < rows; row++)
            for (int32_t split = 0; split <= std::max(0, of_rows[row]) / 256; split++) want.insert(want.end(), {static_cast<int32_t>(row), split});
        want.resize(want.size() + 6, -1);
        Buffer<int32_t> buffer(of_rows), work(want.size());
        list_splits(t.stream, work, static_cast<int64_t>(want.size() / 2), buffer, static_cast<int64_t>(rows));
        t.equal("work", work.read(), want);
    }
}

// A pass of no sequences launches nothing.
TEST(attention_of_nothing) {
    Buffer<bf16> none(0);
    Buffer<float> floats(0);
    attention_forward<bf16>(t.stream, none, floats, none, Packing{}, 2, 1, 64);
    attention_backward<bf16>(t.stream, none, floats, none, none, floats, none, Packing{}, 0, 2, 1, 64);
    attention_tiles<bf16>(t.stream, none, floats, none, none, none, PagedTiles{}, 2, 1, 64);
    attention_paged<bf16>(t.stream, none, none, none, none, nullptr, 0, nullptr, nullptr, Splits{}, 2, 1, 64);
    CHECK(cudaDeviceSynchronize());
}

} // namespace lathe::test
