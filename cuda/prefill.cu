// prefill.cu: eng_prefill and eng_copy_page: keys and values of prompts, page by
// page.
//
// Prompts are worked off in batches of at most prefill_rows rows; a long one is
// cut. A piece that begins its sequence attends over its own rows, any other over
// the pages, in tiles or, if it is short, row by row; the bits are the same. Nothing
// needs the last block's output, so it ends with its keys and values.
#include <algorithm>

#include "model.h"

namespace lathe {

namespace {

// A piece of a prompt, on rows of one batch.
struct Piece {
    const eng_prompt *prompt;
    int32_t from, count; // of the prompt's tokens
    int32_t position() const { return prompt->position + from; }
    int64_t pages() const { return (int64_t(position()) + count + ENG_PAGE_TOKENS - 1) / ENG_PAGE_TOKENS; }
};

// Whether `count` rows over the pages are cheaper row by row than in tiles. What is compared
// is the rows of the tensor cores' operands for each key: 16 for each row and up
// to 16 heads that share keys, or a whole tile for each head.
bool row_by_row(const eng_config &c, int64_t count) {
    const int64_t groups = (c.heads / c.kv_heads + 15) / 16, tile = attention_tile_rows();
    return count * c.kv_heads * groups * 16 <= (count + tile - 1) / tile * tile * c.heads;
}

// A batch of pieces as the kernels see it: words as in prefill_input_limit.
struct Rows {
    int64_t rows = 0;
    std::vector<int32_t> words;
    Span ids, positions, pages, places; // (rows) -1 in the rows after a piece
    Span tables, seen;                  // (rows) page table of each row that is computed by itself, and its position; else -1
    Span paged_tiles;                   // (…, 5) of the other pieces that continue: PagedTiles
    Span starts, lengths, tiles;        // of the pieces that begin their sequence
    Span page_tables;                   // (continued, width)
    int64_t width = 0;
    int32_t begun = 0, continued = 0;
    bool by_row = false; // some are
    int64_t splits = 0;  // of rows that are computed by themselves, and one of each other row
    int64_t pairs = 0;  // of a query and a key that it sees

    Rows(const eng_config &c, const std::vector<Piece> &pieces);
};

Rows::Rows(const eng_config &c, const std::vector<Piece> &pieces) {
    std::vector<int32_t> of_ids, of_positions, of_pages, of_places, of_tables, of_seen, of_starts, of_lengths, of_tiles, of_paged_tiles,
        of_page_tables;
    for (const Piece &piece : pieces)
        if (piece.position() > 0) width = std::max(width, piece.pages());
    for (const Piece &piece : pieces) {
        const bool begins = piece.position() == 0, by_itself = !begins && row_by_row(c, piece.count);
        by_row = by_row || by_itself;
        for (int32_t i = 0; i < piece.count; i++) {
            const int32_t position = piece.position() + i;
            of_ids.push_back(piece.prompt->tokens[piece.from + i]);
            of_positions.push_back(position);
            of_pages.push_back(piece.prompt->pages[position / ENG_PAGE_TOKENS]);
            of_places.push_back(position % ENG_PAGE_TOKENS);
            of_tables.push_back(by_itself ? continued : -1);
            of_seen.push_back(by_itself ? position : -1);
            pairs += position + 1;
        }
        if (begins) {
            list_tiles(0, piece.count, [&](int32_t row) { of_tiles.insert(of_tiles.end(), {begun, row}); });
            of_starts.push_back(int32_t(rows));
            of_lengths.push_back(piece.count);
            begun++;
        } else {
            for (int32_t from = 0, n; !by_itself && from < piece.count; from += n) {
                const int32_t position = piece.position() + from;
                n = std::min(piece.count - from, attention_tile_rows() - position % attention_tile_rows());
                const bool last = from + n == piece.count;
                const int32_t left = last ? int32_t(round_up(piece.count, ENG_ROW_ALIGN)) - from : n, tile = attention_tile_rows();
                of_paged_tiles.insert(of_paged_tiles.end(), {int32_t(rows) + from, position, n, std::min(left, tile), continued});
                if (left > tile) of_paged_tiles.insert(of_paged_tiles.end(), {int32_t(rows) + from + tile, 0, 0, left - tile, continued});
            }
            of_page_tables.insert(of_page_tables.end(), piece.prompt->pages, piece.prompt->pages + piece.pages());
            of_page_tables.resize(++continued * width, -1);
        }
        rows += round_up(piece.count, ENG_ROW_ALIGN);
        for (std::vector<int32_t> *array : {&of_ids, &of_positions, &of_pages, &of_places, &of_tables, &of_seen}) array->resize(rows, -1);
    }
    for (int32_t position : of_seen) splits += position < 0 ? 1 : attention_splits(position);
    auto add = [&](Span &span, const std::vector<int32_t> &array) {
        span = {int64_t(words.size()), int64_t(array.size())};
        words.insert(words.end(), array.begin(), array.end());
    };
    add(ids, of_ids);
    add(positions, of_positions);
    add(pages, of_pages);
    add(places, of_places);
    add(tables, of_tables);
    add(seen, of_seen);
    add(starts, of_starts);
    add(lengths, of_lengths);
    add(tiles, of_tiles);
    add(paged_tiles, of_paged_tiles);
    add(page_tables, of_page_tables);
}

// Takes the next pieces, as many as a batch has room for. done is what of the
// first prompt is computed already; both move on.
std::vector<Piece> take(const eng_config &c, const eng_prompt *&prompt, const eng_prompt *end, int32_t &done) {
    std::vector<Piece> pieces;
    int64_t rows = 0, width = 0, continued = 0;
    while (prompt < end && rows < prefill_rows(c)) {
        const Piece piece = {prompt, done, int32_t(std::min<int64_t>(prompt->count - done, prefill_rows(c) - rows))};
        if (piece.count > 0 && piece.position() > 0) {
            width = std::max(width, piece.pages());
            if (++continued * width > prefill_table_limit(c)) break;
        }
        if (piece.count > 0) pieces.push_back(piece);
        rows += round_up(piece.count, ENG_ROW_ALIGN);
        done += piece.count;
        if (done < prompt->count) break;
        prompt++;
        done = 0;
    }
    return pieces;
}

template <class T>
void run(Engine<T> &e, const Rows &r) {
    const eng_config &c = e.config;
    const GenerateBuffers<T> &g = e.buffers.generate;
    const Activations<T> a = shared_activations(g);
    auto at = [&](const Span &span) { return e.buffers.prefill_inputs + span.at; };
    const Packing packing = {at(r.starts), at(r.lengths), at(r.tiles), r.begun, int32_t(r.tiles.count / 2)};
    std::copy(r.words.begin(), r.words.end(), e.prefill_inputs.data());
    to_device(e, e.buffers.prefill_inputs, e.prefill_inputs.data(), r.words.size());
    const PagedTiles paged = {at(r.paged_tiles), at(r.page_tables), r.width, int32_t(r.paged_tiles.count / 5)};
    if (r.by_row) list_splits(e.stream, g.work, r.splits, at(r.seen), r.rows);
    embed_forward<T>(e.stream, g.stream, e.model.embedding.weight, at(r.ids), r.rows, c.hidden);
    const T *branch = nullptr;
    for (size_t i = 0; i < e.model.layers.size(); i++) {
        const auto [keys, values] = cache_of(e, i);
        project(e, e.model.layers[i], a, g.stream, branch, at(r.positions), {keys, values, at(r.pages), at(r.places)}, r.rows, g.low);
        if (i + 1 == e.model.layers.size()) break;
        if (r.by_row) // first, because it writes all rows
            attention_paged<T>(e.stream, g.mixed, g.qkv, keys, values, at(r.page_tables), r.width, at(r.tables), at(r.seen),
                               splits_of(e, r.splits), c.heads, c.kv_heads, c.head_dim);
        if (paged.tile_count > 0)
            attention_tiles<T>(e.stream, g.mixed, g.lse, g.qkv, keys, values, paged, c.heads, c.kv_heads, c.head_dim);
        if (r.begun > 0) attention_forward<T>(e.stream, g.mixed, g.lse, g.qkv, packing, c.heads, c.kv_heads, c.head_dim);
        e.flops += 4 * r.pairs * query_width(c);
        combine(e, e.model.layers[i], a, g.branch, r.rows, g.low, r.rows);
        branch = g.branch;
    }
}

void check(const eng_config &c, int32_t count, const eng_prompt *prompts) {
    REQUIRE(c.slots > 0, "a prefill, but the engine was opened without slots");
    REQUIRE(count >= 0 && (count == 0 || prompts != nullptr), "a prefill of %d prompts", count);
    for (int32_t i = 0; i < count; i++) {
        const eng_prompt &p = prompts[i];
        REQUIRE(p.count >= 0 && p.position >= 0 && int64_t(p.position) + p.count <= c.max_positions,
                "prompt %d has %d tokens from position %d on; the policy takes %d", i, p.count, p.position, c.max_positions);
        REQUIRE(p.count == 0 || (p.tokens != nullptr && p.pages != nullptr), "prompt %d has no tokens or no pages", i);
        for (int32_t at = 0; at < p.count; at++)
            REQUIRE(p.tokens[at] >= 0 && p.tokens[at] < c.vocabulary, "token %d of prompt %d has id %d; the policy's vocabulary has %d", at,
                    i, p.tokens[at], c.vocabulary);
        for (int64_t page = 0; p.count > 0 && page * ENG_PAGE_TOKENS < int64_t(p.position) + p.count; page++)
            REQUIRE(p.pages[page] >= 0 && p.pages[page] < c.cache_pages, "page %d of prompt %d; the cache has %d", p.pages[page], i,
                    c.cache_pages);
    }
}

} // namespace

template <class T>
void prefill(Engine<T> &e, int32_t count, const eng_prompt *prompts) {
    check(e.config, count, prompts);
    int32_t done = 0;
    for (const eng_prompt *prompt = prompts, *end = prompts + count; prompt < end;) {
        const std::vector<Piece> pieces = take(e.config, prompt, end, done);
        if (pieces.empty()) continue;
        Timed<T> timed(e);
        run(e, Rows(e.config, pieces));
        timed.finish();
    }
}

template <class T>
void copy_page(Engine<T> &e, int32_t from, int32_t to) {
    const eng_config &c = e.config;
    for (int32_t page : {from, to}) REQUIRE(page >= 0 && page < c.cache_pages, "page %d; the cache has %d", page, c.cache_pages);
    if (from == to) return;
    // In each of the (layers, 2) arrays of keys and of values.
    cache_copy<T>(e.stream, e.buffers.cache, 2 * int64_t(c.layers), c.cache_pages, ENG_PAGE_TOKENS * key_width(c), from, to);
}

#define INSTANTIATE(T) \
    template void prefill(Engine<T> &, int32_t, const eng_prompt *); \
    template void copy_page(Engine<T> &, int32_t, int32_t);
INSTANTIATE(float)
INSTANTIATE(bf16)

} // namespace lathe
