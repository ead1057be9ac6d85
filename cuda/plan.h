// plan.h: a batch as the kernels see it, worked out on the host.
#pragma once

#include <stdint.h>

#include <vector>

#include "engine.h"

namespace lathe {

// A run of words of a plan: where it begins and how many there are.
struct Span {
    int64_t at = 0, count = 0;
};

// Plan lays the sequences of a batch out in rows (kernels.h, Rows). Its arrays
// lie in one run of words, so that one copy takes them to the device.
//
// The rows that predict targets are gathered before the head, sequence after
// sequence, each sequence's rounded up to ENG_ROW_ALIGN.
struct Plan {
    int64_t tokens = 0;    // of the caller's batch
    int64_t rows = 0;      // of the pass
    int64_t targets = 0;   // gathered rows
    int32_t sequences = 0; // that are not empty
    int64_t pairs = 0;     // of a query and a key that it sees

    std::vector<int32_t> words;
    Span ids, positions;  // (rows) -1 in the rows after a sequence
    Span starts, lengths; // (sequences)
    Span trunks;          // (sequences) -1 where there is none; (0) where none has one
    Span tiles;           // (tiles, 2)
    Span blocks;          // (blocks + 1) first rows
    Span target_rows;     // (targets) row that predicts each; -1 where there is none
    Span target_ids;      // (targets) its id; -1

    std::vector<int32_t> target_tokens; // (targets) its number in the caller's batch; -1

    // Lays a batch out. Throws a Failure for what engine.h forbids, and for what
    // is more than the engine was opened for.
    void set(const eng_config &config, const eng_batch &batch);

    const int32_t *operator[](const Span &span) const { return words.data() + span.at; }
};

// Lookups is the plan's rows by their token, for the embedding's gradient.
struct Lookups {
    int64_t distinct = 0;
    std::vector<int32_t> words;
    Span ids;    // (distinct) ascending
    Span starts; // (distinct + 1) into order
    Span order;  // rows, ascending within an id

    void set(const Plan &plan);
};

} // namespace lathe
