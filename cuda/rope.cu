// rope.cu: rotary position embedding with the norms of query and key heads
// before it and the keys' and values' way to the cache after it, and backward.
//
// The pair (a, b) = (x_i, x_{i+d/2}) of a head becomes (a·cos − b·sin,
// b·cos + a·sin) of the angle position·frequency_i, which is rounded to
// float32; its sine and cosine are computed in float64, rounded and multiplied by a
// factor, which follows the frequencies, as pkg/policy/cpu does. Backward turns the other way.
#include "kernels.h"
#include "rows.cuh"

namespace lathe {

constexpr int threads = 128;      // of a row: four warps, which share its heads;
constexpr int most_threads = 512; // and sixteen where rows are so few that one has the time of all
constexpr int64_t few_rows = 128;
constexpr int partial_threads = 512; // of a block of rows
constexpr int64_t angle_rows = 8; // rows of a block of rows whose angles are computed together

struct Heads {
    int query, key, width; // heads of each kind, elements of one
    __host__ __device__ int turned() const { return query + key; }
    __host__ __device__ int64_t row() const { return static_cast<int64_t>(query + 2 * key) * width; }
};

// cosine and sine of position·frequency, times a factor.
__device__ inline float2 turn(int32_t position, float frequency, float factor) {
    double s, c;
    sincos(static_cast<double>(static_cast<float>(position) * frequency), &s, &c);
    return make_float2(static_cast<float>(c) * factor, static_cast<float>(s) * factor);
}

// Block r takes row r, a warp one head after the other, a lane every 32nd pair.
// Two blocks of the most threads fit a multiprocessor, if they are told to: else
// nvcc 11.8 spills registers to have four.
template <class T>
static __global__ void __launch_bounds__(most_threads, 2)
    rope_forward_kernel(T *qkv, float *rstd, T *before, const T *q_norm, const T *k_norm, const float *frequencies,
                        const int32_t *positions, CacheRows<T> cache, Heads heads, float eps) {
    DYNAMIC_SHARED(float2, angles); // (width/2)
    const int64_t row = blockIdx.x;
    const int half = heads.width / 2;
    const int32_t position = positions[row];
    for (int i = static_cast<int>(threadIdx.x); i < half; i += static_cast<int>(blockDim.x))
        angles[i] = turn(position < 0 ? 0 : position, frequencies[i], frequencies[half]);
    __syncthreads();
    if (position < 0) return;
    const int64_t page = cache.keys == nullptr ? -1 : cache.pages[row], place = cache.keys == nullptr ? -1 : cache.places[row];
    const bool kept = page >= 0 && place >= 0;
    const int64_t cached = (page * ENG_PAGE_TOKENS + place) * heads.key * heads.width;
    const int all = heads.turned() + (kept ? heads.key : 0), warps = static_cast<int>(blockDim.x) / 32;
    for (int head = warp_index(); head < all; head += warps) {
        T *x = qkv + row * heads.row() + static_cast<int64_t>(head) * heads.width;
        if (head >= heads.turned()) {
            T *to = cache.values + cached + static_cast<int64_t>(head - heads.turned()) * heads.width;
            for (int i = lane_index(); i < heads.width; i += 32) to[i] = x[i];
            continue;
        }
        T *key = kept && head >= heads.query ? cache.keys + cached + static_cast<int64_t>(head - heads.query) * heads.width : nullptr;
        const T *weight = head < heads.query ? q_norm : k_norm;
        float r = 1;
        if (weight != nullptr) {
            float sum = 0;
            for (int i = lane_index(); i < heads.width; i += 32) sum = fmaf(to_float(x[i]), to_float(x[i]), sum);
            r = 1 / sqrtf(warp_sum(sum) / static_cast<float>(heads.width) + eps);
            if (rstd != nullptr && lane_index() == 0) rstd[row * heads.turned() + head] = r;
        }
        T *copy = before == nullptr ? nullptr : before + (row * heads.turned() + head) * heads.width;
        for (int i = lane_index(); i < half; i += 32) {
            if (copy != nullptr) {
                copy[i] = x[i];
                copy[i + half] = x[i + half];
            }
            float a = to_float(x[i]), b = to_float(x[i + half]);
            if (weight != nullptr) {
                a = a * r * to_float(weight[i]);
                b = b * r * to_float(weight[i + half]);
            }
            const float2 t = angles[i];
            const T first = from_float<T>(fmaf(a, t.x, -(b * t.y))), second = from_float<T>(fmaf(b, t.x, a * t.y));
            x[i] = first;
            x[i + half] = second;
            if (key != nullptr) {
                key[i] = first;
                key[i + half] = second;
            }
        }
    }
}

// As forward: turns back, then goes through the norm.
template <class T>
static __global__ void __launch_bounds__(threads)
    rope_backward_kernel(T *dqkv, const float *rstd, const T *before, const T *q_norm, const T *k_norm, const float *frequencies,
                         const int32_t *positions, Heads heads) {
    DYNAMIC_SHARED(float2, angles); // (width/2)
    const int64_t row = blockIdx.x;
    const int half = heads.width / 2;
    const int32_t position = positions[row];
    for (int i = static_cast<int>(threadIdx.x); i < half; i += threads) angles[i] = turn(position < 0 ? 0 : position, frequencies[i], frequencies[half]);
    __syncthreads();
    if (position < 0) return;
    for (int head = warp_index(); head < heads.turned(); head += threads / 32) {
        T *d = dqkv + row * heads.row() + static_cast<int64_t>(head) * heads.width;
        const T *weight = head < heads.query ? q_norm : k_norm;
        const T *x = weight == nullptr ? nullptr : before + (row * heads.turned() + head) * heads.width;
        const float r = weight == nullptr ? 1 : rstd[row * heads.turned() + head];
        float sum = 0;
        for (int i = lane_index(); weight != nullptr && i < half; i += 32) {
            const float2 t = angles[i];
            const float a = to_float(d[i]), b = to_float(d[i + half]);
            sum = fmaf(fmaf(a, t.x, b * t.y) * to_float(weight[i]), to_float(x[i]) * r, sum);
            sum = fmaf(fmaf(b, t.x, -(a * t.y)) * to_float(weight[i + half]), to_float(x[i + half]) * r, sum);
        }
        const float mean = warp_sum(sum) / static_cast<float>(heads.width);
        for (int i = lane_index(); i < half; i += 32) {
            const float2 t = angles[i];
            const float a = to_float(d[i]), b = to_float(d[i + half]);
            float da = fmaf(a, t.x, b * t.y), db = fmaf(b, t.x, -(a * t.y));
            if (weight != nullptr) {
                da = fmaf(-mean, to_float(x[i]) * r, da * to_float(weight[i])) * r;
                db = fmaf(-mean, to_float(x[i + half]) * r, db * to_float(weight[i + half])) * r;
            }
            d[i] = from_float<T>(da);
            d[i + half] = from_float<T>(db);
        }
    }
}

// Block (b, kind) sums the gradient of q_norm (kind 0) or k_norm (1) over a
// block of rows: Σ over rows and heads of (turned back) d·x·rstd. A group of
// threads takes every so many heads, one chain over rows and then its heads;
// the groups' sums are added in ascending order. Runs before rope_backward_kernel.
template <class T>
static __global__ void __launch_bounds__(partial_threads)
    rope_partial_kernel(float *partial, const T *dqkv, const float *rstd, const T *before, const float *frequencies,
                        const int32_t *positions, const int32_t *blocks, Heads heads, int groups) {
    DYNAMIC_SHARED(float2, angles); // (angle_rows, width/2), then the groups' sums (groups, width)
    const int half = heads.width / 2;
    float *sums = reinterpret_cast<float *>(angles + angle_rows * half);
    const int first_head = blockIdx.y == 0 ? 0 : heads.query, head_end = blockIdx.y == 0 ? heads.query : heads.turned();
    const int64_t end = blocks[blockIdx.x + 1];
    for (int i = static_cast<int>(threadIdx.x); i < groups * heads.width; i += static_cast<int>(blockDim.x)) sums[i] = 0;
    for (int64_t begin = blocks[blockIdx.x]; begin < end; begin += angle_rows) {
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < angle_rows * half; i += static_cast<int>(blockDim.x)) {
            const int64_t row = begin + i / half;
            if (row < end && positions[row] >= 0) angles[i] = turn(positions[row], frequencies[i % half], frequencies[half]);
        }
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < groups * heads.width; i += static_cast<int>(blockDim.x)) {
            const int group = i / heads.width, column = i % heads.width, pair = column % half;
            float sum = sums[i];
            for (int64_t row = begin; row < end && row < begin + angle_rows; row++) {
                if (positions[row] < 0) continue;
                const float2 t = angles[(row - begin) * half + pair];
                for (int head = first_head + group; head < head_end; head += groups) {
                    const T *d = dqkv + row * heads.row() + static_cast<int64_t>(head) * heads.width;
                    const float a = to_float(d[pair]), b = to_float(d[pair + half]);
                    const float back = column < half ? fmaf(a, t.x, b * t.y) : fmaf(b, t.x, -(a * t.y));
                    const int64_t place = row * heads.turned() + head;
                    sum = fmaf(back, to_float(before[place * heads.width + column]) * rstd[place], sum);
                }
            }
            sums[i] = sum;
        }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < heads.width; i += static_cast<int>(blockDim.x)) {
        float sum = 0;
        for (int group = 0; group < groups; group++) sum += sums[group * heads.width + i];
        partial[(int64_t(blockIdx.x) * 2 + blockIdx.y) * heads.width + i] = sum;
    }
}

// Block (c, b) copies up to 16·threads bytes of a page of cache c. A copy in two
// dimensions of the runtime's would not do: it takes rows up to 2 GiB apart.
static __global__ void __launch_bounds__(threads)
    cache_copy_kernel(unsigned char *cache, int64_t cache_bytes, int64_t page_bytes, int64_t from, int64_t to) {
    const int64_t i = 16 * (static_cast<int64_t>(blockIdx.y) * threads + threadIdx.x);
    if (i >= page_bytes) return;
    unsigned char *own = cache + blockIdx.x * cache_bytes + i;
    store16(own + to * page_bytes, load16(own + from * page_bytes));
}

template <class T>
void rope_forward(Stream stream, T *qkv, float *rstd, T *before, const T *q_norm, const T *k_norm, const float *frequencies,
                  const int32_t *positions, const CacheRows<T> &cache, int64_t rows, int heads, int kv_heads, int head_dim, float eps) {
    const Heads h{heads, kv_heads, head_dim};
    LAUNCH((rope_forward_kernel<T>), rows, rows > few_rows ? threads : most_threads, sizeof(float2) * (head_dim / 2), stream, qkv, rstd,
           before, q_norm, k_norm, frequencies, positions, cache, h, eps);
}

template <class T>
void rope_backward(Stream stream, T *dqkv, float *partial, const float *rstd, const T *before, const T *q_norm, const T *k_norm,
                   const float *frequencies, const int32_t *positions, const int32_t *blocks, int64_t block_count, int64_t rows, int heads,
                   int kv_heads, int head_dim) {
    const Heads h{heads, kv_heads, head_dim};
    if (partial != nullptr) {
        const int groups = head_dim >= partial_threads ? 1 : partial_threads / head_dim;
        const size_t shared = sizeof(float2) * angle_rows * (head_dim / 2) + sizeof(float) * groups * head_dim;
        LAUNCH((rope_partial_kernel<T>), dim3(block_count, 2), partial_threads, shared, stream, partial, dqkv, rstd, before, frequencies,
               positions, blocks, h, groups);
    }
    LAUNCH((rope_backward_kernel<T>), rows, threads, sizeof(float2) * (head_dim / 2), stream, dqkv, rstd, before, q_norm, k_norm,
           frequencies, positions, h);
}

template <class T>
void cache_copy(Stream stream, T *cache, int64_t caches, int64_t pages, int64_t page_elements, int64_t from, int64_t to) {
    const int64_t bytes = page_elements * int64_t(sizeof(T));
    LAUNCH(cache_copy_kernel, dim3(caches, ceil_div(bytes, int64_t(16 * threads))), threads, 0, stream,
           reinterpret_cast<unsigned char *>(cache), pages * bytes, bytes, from, to);
}

#define INSTANTIATE(T)                                                                                                                   \
    template void rope_forward<T>(Stream, T *, float *, T *, const T *, const T *, const float *, const int32_t *, const CacheRows<T> &, \
                                  int64_t, int, int, int, float);                                                                        \
    template void rope_backward<T>(Stream, T *, float *, const float *, const T *, const T *, const T *, const float *, const int32_t *, \
                                   const int32_t *, int64_t, int64_t, int, int, int);                                                    \
    template void cache_copy<T>(Stream, T *, int64_t, int64_t, int64_t, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(bf16)
#undef INSTANTIATE

} // namespace lathe
