// attention_partials.cuh: what splits of one row leave for each other in global
// memory, and how they are folded.
#pragma once

#include <algorithm>

#include "attention.cuh"

namespace lathe {

// Where splits leave their results: outputs (room, heads, D), then maxima and
// sums (room, heads).
struct Partials {
    float *outputs;
    float2 *sums;
    int64_t room;
    int heads, width;
    __device__ Partials(const Splits &splits, int heads, int width)
        : outputs(splits.partials), sums(reinterpret_cast<float2 *>(splits.partials + splits.room * heads * width)), room(splits.room),
          heads(heads), width(width) {}
    __device__ int64_t at(int64_t entry, int head) const { return entry % room * heads + head; }
};

// Folds COLUMNS columns from column0 of a head over all splits of a row, the
// first of which is entry `begin` of the work, and stores them. COLUMNS is 1 or 4.
template <class Base, int COLUMNS, class Store>
__device__ __forceinline__ void fold_partials(const Partials &partials, int64_t begin, int32_t splits, int head, int column0, Store store) {
    FoldedSum<Base> folded;
    float o[COLUMNS] = {};
    int64_t at = partials.at(begin, head);
#pragma unroll 8
    for (int32_t split = 0; split < splits; split++) {
        const float2 of_split = partials.sums[at];
        const float *from = partials.outputs + at * partials.width + column0;
        float x[COLUMNS], keep, add;
        if constexpr (COLUMNS == 4) {
            const uint4 words = load16(from);
            x[0] = __uint_as_float(words.x), x[1] = __uint_as_float(words.y);
            x[2] = __uint_as_float(words.z), x[3] = __uint_as_float(words.w);
        } else {
            x[0] = *from;
        }
        folded.fold(of_split.x, of_split.y, keep, add);
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) {
            o[i] = fmaf(o[i], keep, x[i] * add);
        }
        at += partials.heads;
        at -= at >= partials.room * partials.heads ? partials.room * partials.heads : 0;
    }
    store(o, normalizer(folded.sum));
}

// Calls launch(first, count) for all of the work, as much at a time as leaves
// what a row that is begun has left so far where it is.
template <class Launch>
void for_work(const Splits &splits, Launch launch) {
    const int64_t most = splits.count <= splits.room ? splits.count : splits.room - splits.longest;
    for (int64_t first = 0; first < splits.count; first += most) {
        launch(first, std::min(most, splits.count - first));
    }
}

} // namespace lathe
