// kernels.h: every kernel's launcher, with its shapes and its mathematics.
//
// T is the type of weights and activations, float or bf16; each launcher is
// instantiated for both. Statistics and sums are float32. Matrices are
// row-major; a leading dimension (ld…) counts elements between rows.
//
// # Rows
//
// A pass packs sequences without padding but for this: each starts at a row
// that is a multiple of ENG_ROW_ALIGN (16), and the rows up to the next are
// zero tokens (id -1) whose activations are exactly 0 and whose gradients are
// exactly 0. So the blocks of 16 rows in which products over tokens add up
// never hold two sequences, and a sum over a batch is the same chain of blocks
// however the batch is divided among calls.
//
// # Order of summation
//
// Every sum has an order that depends on the model's shape and the sequence
// alone. Nothing here uses atomics on floating-point numbers, splits K, or
// chooses an algorithm by the number of rows in a way that changes a sum.
//
// # Launching
//
// A launcher checks nothing about memory and never waits. It reports a launch
// that failed by throwing CudaError (common.cuh), which the functions of
// engine.h turn into a status.
#pragma once

#include <stdint.h>

#include "common.cuh"
#include "engine.h"

namespace lathe {

// ---------------------------------------------------------------- gemm.cu

// y (M,N) = alpha · x (M,K) · w (N,K)ᵀ + bias (N) [+ y if accumulate].
// One chain over k in ascending blocks of 16, the same for every M: a row of y
// depends on its row of x alone. bias may be null. w may be a slice.
template <class T>
void product_nt(Stream stream, T *y, int64_t ldy, const T *x, int64_t ldx, const T *w, int64_t ldw, const T *bias,
                int64_t M, int64_t N, int64_t K, float alpha, bool accumulate);

// dx (M,K) = alpha · dy (M,N) · w (N,K) [+ dx if accumulate].
template <class T>
void product_nn(Stream stream, T *dx, int64_t lddx, const T *dy, int64_t lddy, const T *w, int64_t ldw,
                int64_t M, int64_t N, int64_t K, float alpha, bool accumulate);

// dw (N,K) += alpha · dy (M,N)ᵀ · x (M,K), in float32. The accumulators start
// from dw and go through the rows in ascending blocks of 16, so that two calls
// on consecutive rows (the first a multiple of 16 of them) give the bits of one.
template <class T>
void product_tn(Stream stream, float *dw, int64_t lddw, const T *dy, int64_t lddy, const T *x, int64_t ldx,
                int64_t M, int64_t N, int64_t K, float alpha);

// ---------------------------------------------------------------- embed.cu

// out (rows,hidden) = table[tokens[row]], zeros where the token is -1.
template <class T>
void embed_forward(Stream stream, T *out, const T *table, const int32_t *tokens, int64_t rows, int64_t hidden);

// gradient (vocabulary,hidden) float32: row ids[u] += Σ dout[order[i]] for i in
// [starts[u], starts[u+1]), in ascending i, a chain that starts from what the
// row holds. ids are distinct; order lists rows of dout ascending within an id.
template <class T>
void embed_backward(Stream stream, float *gradient, const T *dout, const int32_t *ids, const int32_t *starts,
                    const int32_t *order, int64_t distinct, int64_t hidden);

// out (n,width) = x[index[i]] and x[index[i]] += out[i]: gathers the target
// rows before the head and scatters their gradients after it. index -1 gathers
// zeros and scatters nothing; indices are distinct.
template <class T>
void gather_rows(Stream stream, T *out, const T *x, const int32_t *index, int64_t n, int64_t width);
template <class T>
void scatter_add_rows(Stream stream, T *x, const T *in, const int32_t *index, int64_t n, int64_t width);

// ---------------------------------------------------------------- norm.cu

// RMSNorm with the residual sum before it. With branch:
//   residual = x + branch (rounded to T, stored), else residual = x and nothing is stored;
//   rstd[row] = 1/sqrt(mean(residual²) + eps);  out = residual · rstd · weight.
// residual may be x itself. rstd may be null.
template <class T>
void rmsnorm_forward(Stream stream, T *out, float *rstd, T *residual, const T *x, const T *branch, const T *weight,
                     int64_t rows, int64_t width, float eps);

// dx += (dout·weight − y·mean(dout·weight·y))·rstd with y = x·rstd, added to
// what dx holds (the residual's gradient). partial (blocks,width) gets the
// weight's gradient of each block of rows: Σ dout·y over blocks[b] … blocks[b+1]-1;
// null where the weight is frozen. The blocks cover all rows.
template <class T>
void rmsnorm_backward(Stream stream, T *dx, float *partial, const T *dout, const T *x, const float *rstd, const T *weight,
                      const int32_t *blocks, int64_t block_count, int64_t width);

// gradient (width) = chain over b of partial[b] (block_count,width), starting
// from what gradient holds. Blocks are in the order of rows. Those of a pass are at
// most 64 rows and start at a sequence's first row or a multiple of 64 rows after
// it; the head's are of ENG_ROW_ALIGN rows, so that no division of its rows cuts one.
void add_partials(Stream stream, float *gradient, const float *partial, int64_t block_count, int64_t width);

// partial (blocks,width) = Σ over each block's rows of dy (rows,width; ld): a
// bias's gradient.
template <class T>
void bias_partials(Stream stream, float *partial, const T *dy, int64_t lddy, const int32_t *blocks, int64_t block_count, int64_t width);

// ---------------------------------------------------------------- rope.cu

// Where the key and value heads of rows go in the cache of one layer, which is
// (pages, ENG_PAGE_TOKENS, kv_heads, head_dim) for keys and likewise for values:
// row r to page pages[r], place places[r]; -1: nowhere.
template <class T>
struct CacheRows {
    T *keys = nullptr, *values = nullptr; // null: no row goes anywhere
    const int32_t *pages = nullptr, *places = nullptr;
};

// In place on qkv (rows, (heads+2·kv_heads)·head_dim): if q_norm and k_norm are
// given, each query and key head is first RMS-normed (weight (head_dim));
// then the pair (i, i+head_dim/2) of each query and key head is turned by
// positions[row]·frequencies[i], the angle rounded to float32, with cosine and sine
// multiplied by frequencies[head_dim/2]. rstd (rows,
// heads+kv_heads) keeps the norms' 1/rms, and before (like the query and key part
// of qkv; ld (heads+kv_heads)·head_dim) what was normed; both are null without
// norms and where nothing is kept. The keys that result, and the values, go to
// the cache too. Rows of position -1 are left alone.
template <class T>
void rope_forward(Stream stream, T *qkv, float *rstd, T *before, const T *q_norm, const T *k_norm, const float *frequencies,
                  const int32_t *positions, const CacheRows<T> &cache, int64_t rows, int heads, int kv_heads, int head_dim, float eps);

// In place on the gradient of rope_forward's result. partial (blocks,
// 2·head_dim): gradients of q_norm, then of k_norm, by blocks of rows; null without
// norms and where they are frozen.
template <class T>
void rope_backward(Stream stream, T *dqkv, float *partial, const float *rstd, const T *before, const T *q_norm, const T *k_norm,
                   const float *frequencies, const int32_t *positions, const int32_t *blocks, int64_t block_count,
                   int64_t rows, int heads, int kv_heads, int head_dim);

// Copies page `from` of each of `caches` arrays of keys or values, which lie one
// after the other and have `pages` pages of page_elements each, a multiple of 8,
// to page `to`. The first array begins at a multiple of 16 bytes.
template <class T>
void cache_copy(Stream stream, T *cache, int64_t caches, int64_t pages, int64_t page_elements, int64_t from, int64_t to);

// ---------------------------------------------------------------- mlp.cu

// out (rows,width) = silu(gate)·up; gate and up are the halves of gate_up
// (rows, 2·width).
template <class T>
void swiglu_forward(Stream stream, T *out, const T *gate_up, int64_t rows, int64_t width);
// d_gate_up from dout, in place of gate_up if they are the same.
template <class T>
void swiglu_backward(Stream stream, T *d_gate_up, const T *dout, const T *gate_up, int64_t rows, int64_t width);
// y = x + branch, the last residual sum of a pass whose end is not normed, and
// plain sums of gradients. y may be x.
template <class T>
void add(Stream stream, T *y, const T *x, const T *branch, int64_t n);

// ---------------------------------------------------------------- attention.cu, attention_backward.cu

// How the kernels see packed sequences: sequence s has rows starts[s] …
// starts[s]+lengths[s]-1, and then rows of zeros up to a multiple of
// ENG_ROW_ALIGN; lengths are positive. Sequence s goes on where sequence
// trunks[s] ends: it sees its trunk's rows before its own. A trunk has none
// itself, and its branches come right after it.
// tiles lists (sequence, first row within it) of each tile of query rows:
// list_tiles makes it, on the host.
struct Packing {
    const int32_t *starts, *lengths; // (sequences)
    const int32_t *tiles;            // (tile_count, 2)
    int32_t sequences, tile_count;
    const int32_t *trunks = nullptr; // (sequences) -1: none; null: none has one
};
// Rows of a tile, at most: 64. Its positions lie in one block of so many keys.
int attention_tile_rows();
// Calls add(first row) for the tiles of a sequence of `length` tokens that goes
// on after `trunk` tokens. Where the rows after its last token, up to a multiple
// of ENG_ROW_ALIGN, reach beyond 64 rows of its last tile, a tile of none of its
// tokens writes their zeros.
template <class Add>
void list_tiles(int32_t trunk, int32_t length, Add add) {
    const int32_t most = attention_tile_rows(), padded = (length + ENG_ROW_ALIGN - 1) / ENG_ROW_ALIGN * ENG_ROW_ALIGN;
    int32_t first = 0, last = 0;
    for (; first < length; first += most - (trunk + first) % most) add(last = first);
    if (padded - last > most) add(last + most);
}

// Keys of a split: what a row sees is summed up by splits of so many keys from
// the sequence's start, each by itself, and their results are folded from the first
// to the last. How many splits are computed at once changes no bit.
constexpr int32_t attention_split_keys = 256;
// Splits of a row that sees the keys 0 … position.
inline __host__ __device__ int32_t attention_splits(int32_t position) { return position / attention_split_keys + 1; }

// Causal attention with grouped heads: out (rows, heads·head_dim) and lse
// (rows,heads), ln Σ exp(score), with score = q·k/√head_dim. A split's keys are
// taken in blocks of ENG_PAGE_TOKENS in ascending order, with one running maximum
// and sum per row: attention_paged adds up in exactly this order (attention.cuh). The rows after each sequence get out = 0, whatever qkv has there. q, k and v are parts of qkv (rows, (heads+2·kv_heads)·head_dim).
template <class T>
void attention_forward(Stream stream, T *out, float *lse, const T *qkv, const Packing &packing, int heads, int kv_heads, int head_dim);

// Gradients of attention_forward, written to dqkv (shaped as qkv), exact zeros in
// the rows after each sequence. delta (rows, heads) is scratch for Σ dout·out. Two kernels, over blocks of keys and over
// blocks of queries, without atomics.
template <class T>
void attention_backward(Stream stream, T *dqkv, float *delta, const T *dout, const T *out, const float *lse, const T *qkv,
                        const Packing &packing, int64_t rows, int heads, int kv_heads, int head_dim);

// How attention_paged is divided among blocks. work lists (row, split of the
// row), all splits of a row one after the other, and (-1, -1) where there is
// nothing to do; list_splits makes it. What splits of one row leave for each
// other lies in a ring of `room` entries, which is either all of work or `longest`,
// the most splits of a row, and more.
struct Splits {
    const int32_t *work; // (count, 2)
    int64_t count, room, longest;
    float *partials;  // (room · attention_partial_width())
    int32_t *arrived; // (rows, heads) zeros; zeros again afterwards
};
// Floats that one split of one row leaves: the output, maximum and sum of each head.
inline int64_t attention_partial_width(int64_t heads, int64_t head_dim) { return heads * (head_dim + 2); }

// Attention over the cache: query row r belongs to table tables[r] (a row of
// page_tables (…, table_width)) and has position positions[r]; it sees the keys
// 0 … positions[r] of its pages. -1 skips a row (out is then 0). q is the query part of qkv (as
// above). The bits of a row are those of attention_forward.
template <class T>
void attention_paged(Stream stream, T *out, const T *qkv, const T *keys, const T *values, const int32_t *page_tables,
                     int64_t table_width, const int32_t *tables, const int32_t *positions, const Splits &splits, int heads, int kv_heads,
                     int head_dim);

// Query rows over the cache in tiles, as attention_forward takes them: what reads
// a page once for up to tile_rows() rows. tiles (tile_count, 5) lists of each its first
// row in qkv, that row's position, how many rows it has, how many it writes (those
// after its own, which may be all, get out = 0) and its row of page_tables
// (…, table_width). A tile's positions lie in one page.
struct PagedTiles {
    const int32_t *tiles, *page_tables;
    int64_t table_width;
    int32_t tile_count;
};

// Attention over the cache for tiles of rows; out and lse of their rows have the
// bits of attention_forward.
template <class T>
void attention_tiles(Stream stream, T *out, float *lse, const T *qkv, const T *keys, const T *values, const PagedTiles &tiles, int heads,
                     int kv_heads, int head_dim);

// Writes work (count, 2) of rows: attention_splits of each row's position, one
// entry for a row of position -1; then (-1, -1). count is at least that many.
void list_splits(Stream stream, int32_t *work, int64_t count, const int32_t *positions, int64_t rows);

// ---------------------------------------------------------------- head.cu

// What head_forward keeps of a row for head_backward.
struct RowStatistics {
    float largest;   // max of x over the kept set
    float log_sum;   // ln Σ exp((x - largest)/T) over the kept set
    float entropy;   // nats
    uint32_t threshold; // ordered key of the least kept logit (common.cuh, ordered_key)
    int32_t last_tie;   // the highest id kept among those at the threshold
};

// logits (rows, ldlogits), of which the first `vocabulary` columns count.
// logprobs and entropy (rows) of targets (rows; -1: no target, results 0) at the
// sampling's temperature and over its kept set extended by the target. The same
// code chooses the kept set for sample_tokens.
template <class T>
void head_forward(Stream stream, float *logprobs, RowStatistics *statistics, const T *logits, int64_t ldlogits,
                  const int32_t *targets, int64_t rows, int64_t vocabulary, eng_sampling sampling);

// Overwrites logits with dL/dlogits, given dlogprob and dentropy (rows; either may
// be null), with zeros in rows without a target:
//   dL/dx_j = (c·(1[j=target] − p_j) − h·p_j·(ln p_j + H)) / T
template <class T>
void head_backward(Stream stream, T *logits, int64_t ldlogits, const RowStatistics *statistics, const int32_t *targets,
                   const float *dlogprob, const float *dentropy, int64_t rows, int64_t vocabulary, eng_sampling sampling);

// values (rows) = x (rows,hidden) · w (hidden); dx += dvalue·w; partial (blocks,
// hidden) = Σ dvalue·x by blocks of rows. w is float32, as the value head is.
template <class T>
void value_forward(Stream stream, float *values, const T *x, const float *w, int64_t rows, int64_t hidden);
template <class T>
void value_backward(Stream stream, T *dx, float *partial, const float *dvalue, const T *x, const float *w,
                    const int32_t *blocks, int64_t block_count, int64_t rows, int64_t hidden);

// ---------------------------------------------------------------- sample.cu

// The state of the slots that decode, on the device; arrays of `slots`.
struct Slots {
    int32_t *token, *position, *remaining, *state; // eng_slot_state
    int32_t *stops, *stop;                         // stop (slots, ENG_MAX_STOPS)
    uint32_t *key, *sample;                        // key (slots, 2)
    eng_sampling *sampling;
    int32_t *count; // new tokens of this call
};

// For each running slot draws a token from its row of logits (slots, ldlogits),
// by inverting the cumulative distribution in the order of ids at
// Float64(position+1) of its stream, or takes the argmax if greedy (ties to the
// lowest id); writes it and its log-probability (head_forward's bits) to
// tokens and logprobs (slots, steps) at [count]; then moves the slot on: token,
// position, remaining, count, state (a stop token ends it as STOPPED, the last
// of remaining or max_positions as LENGTH).
template <class T>
void sample_tokens(Stream stream, Slots slots, int32_t *tokens, float *logprobs, int64_t slot_count, int64_t steps,
                   const T *logits, int64_t ldlogits, int64_t vocabulary, int32_t max_positions);

// Fills what a decode step needs from the slots: tokens (-1 if not running),
// positions (-1), the page and place of each new key (-1), from page_tables (slots, table_width).
void decode_inputs(Stream stream, int32_t *tokens, int32_t *positions, int32_t *pages, int32_t *places, Slots slots,
                   const int32_t *page_tables, int64_t table_width, int64_t slot_count);

// ---------------------------------------------------------------- optim.cu

// partial (ceil(n/norm_segment())) = Σ x² in float64 of each run of norm_segment() elements.
int64_t norm_segment();
void squares(Stream stream, double *partial, const float *x, int64_t n);
// total += Σ partial (n), in ascending order.
void add_squares(Stream stream, double *total, const double *partial, int64_t n);

// What a step needs of eng_adamw, the clipping's factor computed on the device:
// scale = 0 if total is not finite (nothing is changed then), else
// min(1, max_grad_norm/(√total + 1e-6)) or 1 without clipping.
struct AdamW {
    float learning_rate, beta1, beta2, epsilon, weight_decay, correction1, correction2; // 1 - betaᵗ
    double max_grad_norm; // 0: no clipping
    uint32_t key[2], sample; // for random rounding
};

// One AdamW step of n elements that start at element `first` of all parameters
// (which addresses the random numbers as pkg/policy/cpu's noise does). master is
// null if weights are float32 or state is bf16. With S = bf16, moments and bf16
// weights are rounded randomly.
template <class T, class S>
void adamw(Stream stream, T *weights, float *master, S *exp_avg, S *exp_avg_sq, const float *gradient, const double *total,
           AdamW settings, int64_t first, int64_t n);

// Conversions and sums of whole arrays.
template <class To, class From>
void convert(Stream stream, To *to, const From *from, int64_t n);
void add_float(Stream stream, float *y, const float *x, int64_t n); // y += x

} // namespace lathe
