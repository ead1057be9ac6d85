// kept_set.cuh: the kept set of top-k and top-p of one row of logits, found by
// one block without sorting.
//
// The definition is pkg/policy/cpu's (distribution.go): the most probable
// tokens, ties to the lowest id, until k are kept, or until their mass is at
// least top-p of the mass of the top k. Here a mass is exp((x-max)/T) in fixed
// point, 44 bits behind the point, so that sums are exact, do not depend on
// their order, and may be made by atomic additions of integers. The set differs
// from the CPU's only where the mass at its edge is within 2^-26 or so of the
// wanted share.
//
// First the logits are counted and weighed in bins of 1/64 nat by their distance
// from the largest one, which spreads them evenly. The bin in which the set
// ends is then searched byte by byte of the logits' ordered keys, and ties of
// the last key by their ids.
#pragma once

#include "engine.h"
#include "exponential.cuh"

namespace lathe {

constexpr int row_threads = 512; // of a block that has a row: the order of its sums

using Mass = unsigned long long;
constexpr float mass_unit = 17592186044416.0f; // 2^44: the sum of fewer than 2^20 masses stays below 2^64

__device__ __forceinline__ Mass mass_of(float x, float largest, float scale2) {
    return static_cast<Mass>(fast_exp2((x - largest) * scale2) * mass_unit);
}

// The tokens whose key is above the threshold, and of those at it the ids up
// to last_tie.
struct KeptSet {
    uint32_t threshold;
    int32_t last_tie;
    __device__ __forceinline__ bool holds(float x, int32_t id) const {
        uint32_t key = ordered_key(x);
        return key > threshold || (key == threshold && id <= last_tie);
    }
};
constexpr int32_t every_id = 0x7fffffff;

__device__ __forceinline__ KeptSet keep_all() { return {0, every_id}; }

// As pkg/policy/cpu's keepsAll and scaleOf.
__host__ __device__ inline bool keeps_all(const eng_sampling &s, int64_t vocabulary) {
    return (s.top_k <= 0 || s.top_k >= vocabulary) && (s.top_p <= 0 || s.top_p >= 1);
}
__host__ __device__ inline float scale_of(const eng_sampling &s) { return s.temperature == 0 ? 1 : 1 / s.temperature; }

// Calls f(x, id, n) with eight logits from id on, of which n exist, for all of a
// row; a thread sees the same ones whatever the row's alignment.
template <class T, class Function>
__device__ __forceinline__ void for_each_eight(const T *logits, int32_t vocabulary, Function f) {
    for (int32_t id = threadIdx.x * 8; id < vocabulary; id += row_threads * 8) {
        f(load8(logits + id, vocabulary - id), id, min(vocabulary - id, 8));
    }
}

constexpr int distance_bins = 2048, digit_bins = 256;
constexpr float bins_per_nat = 64;

// Masses of bins in shared memory, by halves. There no instruction adds 64 bits
// atomically: nvcc makes a loop of compare-and-swap of it, which the threads that
// add to one bin go round one after the other. Two additions of 32 bits and
// their carry give the same sum, and the second one is not always needed: a mass of
// less than e^-8.3 is below 2^32.
template <int BINS>
struct Masses {
    uint32_t low[BINS], high[BINS];

    __device__ __forceinline__ Mass operator[](int bin) const { return static_cast<Mass>(high[bin]) << 32 | low[bin]; }
    __device__ __forceinline__ void set(int bin, Mass mass) {
        low[bin] = static_cast<uint32_t>(mass);
        high[bin] = static_cast<uint32_t>(mass >> 32);
    }
    __device__ __forceinline__ void add(int bin, Mass mass) {
        const uint32_t term = static_cast<uint32_t>(mass), sum = atomicAdd(&low[bin], term) + term;
        const uint32_t rest = static_cast<uint32_t>(mass >> 32) + (sum < term ? 1 : 0);
        if (rest != 0) {
            atomicAdd(&high[bin], rest);
        }
    }
};

template <int BINS>
struct Histogram {
    uint32_t counts[BINS];
    Masses<BINS> masses;
};

// Where a running sum over bins reaches what is wanted: the bin, and the sum before it.
struct Crossing {
    int bin;
    Mass before;
};

struct KeptSetShared {
    Histogram<distance_bins> distances;
    Histogram<digit_bins> digits;
    Crossing crossing;
    Mass total;
    float scratch[32];
};

// The sum over this and all lower lanes.
__device__ __forceinline__ Mass running_sum(Mass x) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        Mass below = __shfl_up_sync(all_lanes, x, distance);
        x += lane_index() >= distance ? below : 0;
    }
    return x;
}

// The lowest lane of a mask, 31 if there is none.
__device__ __forceinline__ int first_lane(uint32_t mask) { return mask == 0 ? 31 : __ffs(static_cast<int>(mask)) - 1; }

// Finds the first bin at which the running sum of values (n, a multiple of 32, of 1024 if it is more than that)
// is at least wanted, which it is at the last bin at the latest. By a warp.
template <class Values>
__device__ inline Crossing find_crossing(const Values &values, int n, Mass wanted) {
    const int lane = lane_index(), share = n / 32, part = share < 32 ? 1 : share / 32;
    Mass own = 0;
    for (int i = 0; i < share; i++) {
        own += values[lane * share + (i + lane) % share]; // lanes start at different banks
    }
    Mass sum = running_sum(own);
    int owner = first_lane(__ballot_sync(all_lanes, sum >= wanted));
    Mass before = __shfl_sync(all_lanes, sum - own, owner);
    own = 0;
    for (int i = 0; i < part && lane * part + i < share; i++) {
        own += values[owner * share + lane * part + i];
    }
    sum = running_sum(own);
    int first = first_lane(__ballot_sync(all_lanes, before + sum >= wanted));
    before += __shfl_sync(all_lanes, sum - own, first);
    int bin = owner * share + first * part;
    for (int last = min(bin + part, (owner + 1) * share) - 1; bin < last && before + values[bin] < wanted; bin++) {
        before += values[bin];
    }
    return {bin, before};
}

// A row and how its logits are measured.
template <class T>
struct Row {
    const T *logits;
    int32_t vocabulary;
    float largest, scale;
    __device__ __forceinline__ int bin(float x) const {
        float distance = (largest - x) * (scale * bins_per_nat);
        return distance < distance_bins - 1 ? static_cast<int>(distance) : distance_bins - 1;
    }
};

// Counts and weighs in shared.digits the logits that digit(x, id) gives a digit,
// not -1.
template <class T, class Digit>
__device__ inline void count_digits(KeptSetShared &shared, const Row<T> &row, Digit digit) {
    for (int i = threadIdx.x; i < digit_bins; i += row_threads) {
        shared.digits.counts[i] = 0;
        shared.digits.masses.set(i, 0);
    }
    __syncthreads();
    for_each_eight(row.logits, row.vocabulary, [&](const Vec8 &x, int32_t id, int n) {
        for (int i = 0; i < n; i++) {
            int at = digit(x.at[i], id + i);
            if (at >= 0) {
                atomicAdd(&shared.digits.counts[at], 1u);
                shared.digits.masses.add(at, mass_of(x.at[i], row.largest, row.scale * log2_e));
            }
        }
    });
    __syncthreads();
}

// find_crossing by the first warp, for all threads.
template <class Values>
__device__ inline Crossing find_for_all(KeptSetShared &shared, const Values &values, int n, Mass wanted) {
    if (warp_index() == 0) {
        Crossing found = find_crossing(values, n, wanted);
        if (lane_index() == 0) {
            shared.crossing = found;
        }
    }
    __syncthreads();
    Crossing crossing = shared.crossing;
    __syncthreads();
    return crossing;
}

// The least part of `within` that holds all of its logits in lower bins, and
// of those in `bin` the most probable until their number or mass is `wanted` (at least 1).
template <class T>
__device__ inline KeptSet cut_bin(KeptSetShared &shared, const Row<T> &row, KeptSet within, int bin, bool by_mass, Mass wanted) {
    // A bfloat16 has its key's upper half; the lower one follows from the sign.
    constexpr int last_shift = sizeof(T) == 2 ? 16 : 0;
    uint32_t key = 0, ties = 0;
    for (int shift = 24; shift >= last_shift; shift -= 8) {
        const uint64_t above = static_cast<uint64_t>(key);
        count_digits(shared, row, [&](float x, int32_t id) {
            uint32_t k = ordered_key(x);
            bool member = static_cast<uint64_t>(k) >> (shift + 8) == above && row.bin(x) == bin && within.holds(x, id);
            return member ? static_cast<int>(255 - (k >> shift & 255)) : -1;
        });
        Crossing digit = by_mass ? find_for_all(shared, shared.digits.masses, digit_bins, wanted)
                                 : find_for_all(shared, shared.digits.counts, digit_bins, wanted);
        wanted -= digit.before;
        key = key << 8 | static_cast<uint32_t>(255 - digit.bin);
        ties = shared.digits.counts[digit.bin];
        __syncthreads();
    }
    if (last_shift == 16) {
        key = key << 16 | (key & 0x8000 ? 0 : 0xffff);
    }
    Mass needed = wanted;
    if (by_mass) {
        Mass each = mass_of(from_ordered_key(key), row.largest, row.scale * log2_e);
        needed = ceil_div(wanted, each);
    }
    if (needed >= ties) {
        return {key, key == within.threshold ? within.last_tie : every_id};
    }
    int32_t last = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        if ((row.vocabulary - 1) >> shift == 0 && shift > 0) {
            continue;
        }
        const int64_t above = last;
        count_digits(shared, row, [&](float x, int32_t id) {
            bool member = ordered_key(x) == key && static_cast<int64_t>(id) >> (shift + 8) == above && within.holds(x, id);
            return member ? id >> shift & 255 : -1;
        });
        Crossing digit = find_for_all(shared, shared.digits.counts, digit_bins, needed);
        needed -= digit.before;
        last = last << 8 | digit.bin;
    }
    return {key, last};
}

// The kept set of a row, the same in every thread of the block. Where a logit
// is NaN or +Inf, or none is finite, all are kept, so that it shows in the distribution.
template <class T>
__device__ inline KeptSet choose_kept(KeptSetShared &shared, const T *logits, int32_t vocabulary, const eng_sampling &sampling) {
    float largest = -INFINITY;
    bool damaged = false;
    for_each_eight(logits, vocabulary, [&](const Vec8 &x, int32_t, int n) {
        for (int i = 0; i < n; i++) {
            damaged |= !(x.at[i] < INFINITY);
            largest = fmaxf(largest, x.at[i]);
        }
    });
    largest = block_max(largest, shared.scratch);
    if (__syncthreads_or(damaged) || largest == -INFINITY) {
        return keep_all();
    }
    const Row<T> row{logits, vocabulary, largest, scale_of(sampling)};
    for (int i = threadIdx.x; i < distance_bins; i += row_threads) {
        shared.distances.counts[i] = 0;
        shared.distances.masses.set(i, 0);
    }
    __syncthreads();
    for_each_eight(logits, vocabulary, [&](const Vec8 &x, int32_t, int n) {
        for (int i = 0; i < n; i++) {
            int bin = row.bin(x.at[i]);
            atomicAdd(&shared.distances.counts[bin], 1u);
            shared.distances.masses.add(bin, mass_of(x.at[i], largest, row.scale * log2_e));
        }
    });
    __syncthreads();

    KeptSet kept = keep_all();
    const bool cut_mass = sampling.top_p > 0 && sampling.top_p < 1;
    if (sampling.top_k > 0 && sampling.top_k < vocabulary) {
        Crossing end = find_for_all(shared, shared.distances.counts, distance_bins, sampling.top_k);
        kept = cut_bin(shared, row, kept, end.bin, false, sampling.top_k - end.before);
        if (cut_mass) {
            // What is left of the bins' masses is that of the top k.
            count_digits(shared, row, [&](float x, int32_t id) { return row.bin(x) == end.bin && kept.holds(x, id) ? 0 : -1; });
            for (int i = end.bin + threadIdx.x; i < distance_bins; i += row_threads) {
                shared.distances.masses.set(i, i == end.bin ? shared.digits.masses[0] : 0);
            }
            __syncthreads();
        }
    }
    if (cut_mass) {
        if (warp_index() == 0) {
            Mass sum = 0;
            for (int i = lane_index(); i < distance_bins; i += 32) {
                sum += shared.distances.masses[i];
            }
            sum = running_sum(sum);
            if (lane_index() == 31) {
                shared.total = sum;
            }
        }
        __syncthreads();
        const Mass wanted = static_cast<Mass>(ceil(static_cast<double>(sampling.top_p) * static_cast<double>(shared.total)));
        Crossing end = find_for_all(shared, shared.distances.masses, distance_bins, wanted);
        kept = cut_bin(shared, row, kept, end.bin, true, wanted - end.before);
    }
    return kept;
}

} // namespace lathe
