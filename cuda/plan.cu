#include "plan.h"

#include <algorithm>

#include "failure.h"
#include "kernels.h"
#include "memory.h"

namespace lathe {

namespace {

int32_t trunk_of(const eng_batch &b, int32_t s) { return b.trunks ? b.trunks[s] : -1; }

void check(const eng_config &c, const eng_batch &b) {
    REQUIRE(b.sequences >= 0, "a batch of %d sequences", b.sequences);
    REQUIRE(b.sequences <= c.pass_sequences, "a batch of %d sequences; the engine was opened for %d", b.sequences, c.pass_sequences);
    if (b.sequences == 0) return;
    REQUIRE(b.offsets != nullptr && b.offsets[0] == 0, "the offsets of a batch do not begin at 0");
    int64_t rows = 0;
    for (int32_t s = 0; s < b.sequences; s++) {
        const int64_t length = int64_t(b.offsets[s + 1]) - b.offsets[s];
        REQUIRE(length >= 0, "sequence %d has offsets %d to %d", s, b.offsets[s], b.offsets[s + 1]);
        const int32_t trunk = trunk_of(b, s);
        REQUIRE(trunk >= -1 && trunk < s, "sequence %d goes on from sequence %d", s, trunk);
        REQUIRE(trunk < 0 || (trunk_of(b, trunk) < 0 && (trunk == s - 1 || trunk_of(b, s - 1) == trunk)),
                "sequence %d goes on from sequence %d, which goes on from another or does not come right before", s, trunk);
        const int64_t positions = length + (trunk < 0 ? 0 : b.offsets[trunk + 1] - b.offsets[trunk]);
        REQUIRE(positions <= c.max_positions, "sequence %d has %d tokens; the policy takes %d", s, int(positions), c.max_positions);
        rows += round_up(length, ENG_ROW_ALIGN);
    }
    REQUIRE(rows <= c.pass_tokens, "a batch of %lld rows (each sequence's tokens rounded up to %d); the engine was opened for %d",
            static_cast<long long>(rows), ENG_ROW_ALIGN, c.pass_tokens);
    const int32_t n = b.offsets[b.sequences];
    REQUIRE(n == 0 || (b.tokens != nullptr && b.targets != nullptr), "a batch without tokens or targets");
    for (int32_t i = 0; i < n; i++)
        REQUIRE(b.tokens[i] >= 0 && b.tokens[i] < c.vocabulary, "token %d has id %d; the policy's vocabulary has %d", i, b.tokens[i],
                c.vocabulary);
    for (int32_t s = 0; s < b.sequences; s++)
        REQUIRE(b.offsets[s] == b.offsets[s + 1] || !b.targets[b.offsets[s]],
                "the first token of sequence %d is a target, but nothing predicts it", s);
}

} // namespace

void Plan::set(const eng_config &c, const eng_batch &b) {
    check(c, b);
    *this = Plan{};
    std::vector<int32_t> of_ids, of_positions, of_starts, of_lengths, of_trunks, of_tiles, of_blocks, of_rows, of_targets;
    int32_t root = -1; // the last sequence that begins by itself, -1 if it is empty
    for (int32_t s = 0; s < b.sequences; s++) {
        const int32_t from = b.offsets[s], length = b.offsets[s + 1] - from, start = int32_t(rows);
        if (trunk_of(b, s) < 0) root = length > 0 ? sequences : -1;
        if (length == 0) continue;
        const int32_t trunk = root == sequences ? -1 : root, before = trunk < 0 ? 0 : of_lengths[trunk];
        for (int32_t i = 0; i < length; i++) {
            of_ids.push_back(b.tokens[from + i]);
            of_positions.push_back(before + i);
            if (!b.targets[from + i]) continue;
            of_rows.push_back(start + i - 1);
            of_targets.push_back(b.tokens[from + i]);
            target_tokens.push_back(from + i);
        }
        rows = start + round_up(length, ENG_ROW_ALIGN);
        of_ids.resize(rows, -1);
        of_positions.resize(rows, -1);
        const int64_t padded = round_up(int64_t(of_rows.size()), ENG_ROW_ALIGN);
        of_rows.resize(padded, -1);
        of_targets.resize(padded, -1);
        target_tokens.resize(padded, -1);
        list_tiles(before, length, [&](int32_t row) { of_tiles.insert(of_tiles.end(), {sequences, row}); });
        for (int64_t row = start; row < rows; row += BLOCK_ROWS) of_blocks.push_back(int32_t(row));
        of_starts.push_back(start);
        of_lengths.push_back(length);
        of_trunks.push_back(trunk);
        sequences++;
        tokens += length;
        pairs += int64_t(length) * before + int64_t(length) * (length + 1) / 2;
    }
    of_blocks.push_back(int32_t(rows));
    targets = int64_t(of_rows.size());
    auto add = [&](Span &span, const std::vector<int32_t> &array) {
        span = {int64_t(words.size()), int64_t(array.size())};
        words.insert(words.end(), array.begin(), array.end());
    };
    add(ids, of_ids);
    add(positions, of_positions);
    add(starts, of_starts);
    add(lengths, of_lengths);
    if (std::any_of(of_trunks.begin(), of_trunks.end(), [](int32_t trunk) { return trunk >= 0; })) add(trunks, of_trunks);
    add(tiles, of_tiles);
    add(blocks, of_blocks);
    add(target_rows, of_rows);
    add(target_ids, of_targets);
}

void Lookups::set(const Plan &plan) {
    const int32_t *tokens = plan[plan.ids];
    std::vector<uint64_t> keys;
    for (int64_t row = 0; row < plan.rows; row++)
        if (tokens[row] >= 0) keys.push_back(uint64_t(tokens[row]) << 32 | uint64_t(row));
    std::sort(keys.begin(), keys.end());
    words.clear();
    for (size_t i = 0; i < keys.size(); i++)
        if (i == 0 || keys[i] >> 32 != keys[i - 1] >> 32) words.push_back(int32_t(keys[i] >> 32));
    distinct = int64_t(words.size());
    ids = {0, distinct};
    starts = {distinct, distinct + 1};
    for (size_t i = 0; i < keys.size(); i++)
        if (i == 0 || keys[i] >> 32 != keys[i - 1] >> 32) words.push_back(int32_t(i));
    words.push_back(int32_t(keys.size()));
    order = {2 * distinct + 1, int64_t(keys.size())};
    for (uint64_t key : keys) words.push_back(int32_t(key & 0xffffffff));
}

} // namespace lathe
