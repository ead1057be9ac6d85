// attention_paged.cu: attention of single query rows over pages of keys and
// values, as decoding does it, with the bits of attention_forward.
//
// In bfloat16 with D = 64 and 128 a block of four warps computes a split of one
// row's heads that share a key-value head, up to 16: they are the 16 rows of the
// tensor cores' operand. A page is a block of keys. Warp w has the scores of
// the page's group of 16 keys w, and columns 16w … of the output (and those
// 64 further on). Other types and widths go the plain way of attention_row.cuh, a
// warp for a split of one head.
//
// A row with one split is done then. Else each split leaves what it has in global
// memory, counts itself, and the one that is last folds them all in their order,
// whatever the order in which they came.
//
// The decode step of one sequence reads 4·kv_heads·D bytes per key and layer and
// takes 4·heads·D operations for them: Qwen2.5-0.5B (24 layers, 2 heads of keys,
// 14 of queries, D = 64) at 4,096 keys 50 MB and 0.35 GFLOP, at 32,768 keys 403
// MB and 2.8 GFLOP, beside 0.99 GB of weights, on 32 and 256 blocks instead of 2.
// The splits write and read 2·4·heads·(D+2)/attention_split_keys bytes per key more, 5.6 % of that.
#include "attention_partials.cuh"
#include "attention_row.cuh"

namespace lathe {

namespace {

template <int D>
struct PagedShared {
    bf16 keys[2][key_block * D], values[2][key_block * D];
    // Of each group and lane: the operand p, the largest score and the sum of p of
    // its two rows. Written whole: word by word, lanes would meet in banks.
    uint4 weights[4][32];
    float2 largest[4][32], sums[4][32];
    int32_t arrived;
};

// The operand of 16 heads of one row, of which `heads` exist.
template <int D>
__device__ __forceinline__ void load_heads(uint32_t q[D / 16][4], const bf16 *row, int heads) {
    const int head = lane_index() / 4, column = (lane_index() & 3) * 2;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int h = head + i % 2 * 8, c = k * 16 + column + i / 2 * 8;
            q[k][i] = h < heads ? *reinterpret_cast<const uint32_t *>(row + h * D + c) : 0;
        }
    }
}

// Writes the output of up to 16 heads, of which this warp has 16 columns of each 64.
template <int D>
__device__ __forceinline__ void store_heads(bf16 *out, const float o[D / 64][2][4], const float sum[2], int heads) {
    bf16 *to = out + warp_index() * 16 + (lane_index() & 3) * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float factor = normalizer(sum[half]);
        const int head = lane_index() / 4 + half * 8;
        if (head >= heads) {
            continue;
        }
#pragma unroll
        for (int j = 0; j < D / 64; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                *reinterpret_cast<uint32_t *>(to + head * D + j * 64 + i * 8) =
                    pack_bf16(o[j][i][half * 2] * factor, o[j][i][half * 2 + 1] * factor);
            }
        }
    }
}

// Leaves a split's results of these heads at a place of the partials.
template <int D>
__device__ __forceinline__ void leave_split(const Partials &partials, int64_t at, const float o[D / 64][2][4], const float sum[2],
                                            const RowMaxima &maxima, int heads) {
    float *to = partials.outputs + at * D + warp_index() * 16 + (lane_index() & 3) * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int head = lane_index() / 4 + half * 8;
        if (head >= heads) {
            continue;
        }
#pragma unroll
        for (int j = 0; j < D / 64; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                *reinterpret_cast<float2 *>(to + head * D + j * 64 + i * 8) = make_float2(o[j][i][half * 2], o[j][i][half * 2 + 1]);
            }
        }
        if (threadIdx.x < 32 && (lane_index() & 3) == 0) {
            partials.sums[at + head] = make_float2(maxima.maximum[half], sum[half]);
        }
    }
}

// Blocks: (entries of work from `first` on · kv_heads, groups of 16 heads of a key-value head).
template <int D>
__global__ void __launch_bounds__(128, D == 64 ? 7 : 1) // else nvcc 13 spills registers to have an eighth block
    attention_paged_kernel(bf16 *out, const bf16 *qkv, const bf16 *keys, const bf16 *values, const int32_t *page_tables,
                           int64_t table_width, const int32_t *tables, const int32_t *positions, Splits splits, int64_t first,
                           int heads, int kv_heads) {
    DYNAMIC_SHARED(PagedShared<D>, shared);
    const int64_t entry = first + blockIdx.x / kv_heads, row = splits.work[2 * entry];
    const int32_t split = splits.work[2 * entry + 1];
    if (row < 0) {
        return;
    }
    const int kv_head = blockIdx.x % kv_heads, group = heads / kv_heads;
    const int first_head = kv_head * group + blockIdx.y * 16, row_heads = min(group - static_cast<int>(blockIdx.y) * 16, 16);
    const int lane = lane_index(), warp = warp_index();
    const int32_t table = tables[row], last = table < 0 ? -1 : positions[row];
    const int32_t *pages = page_tables + (table < 0 ? 0 : table * table_width);
    const int32_t splits_of_row = last < 0 ? 1 : attention_splits(last);
    const int32_t begin = split * split_blocks, blocks = last < 0 ? 0 : min(begin + split_blocks, last / key_block + 1);
    const int64_t ld = static_cast<int64_t>(kv_heads) * D;

    auto load_block = [&](int32_t block) {
        if (block < blocks) {
            int64_t from = static_cast<int64_t>(pages[block]) * key_block * ld + kv_head * D;
            int32_t exist = last + 1 - block * key_block;
            copy_rows<D, key_block, 128>(shared->keys[block % 2], keys + from, ld, exist);
            copy_rows<D, key_block, 128>(shared->values[block % 2], values + from, ld, exist);
        }
        cp_async_commit();
    };
    load_block(begin);
    uint32_t q[D / 16][4];
    load_heads<D>(q, qkv + row * (heads + 2 * kv_heads) * D + first_head * D, row_heads);
    const int32_t position[2] = {last, last};
    const float scale = log2_e / sqrtf(static_cast<float>(D));
    float o[D / 64][2][4] = {};
    float sum[2] = {0, 0};
    RowMaxima maxima;
#pragma unroll 1
    for (int32_t block = begin; block < blocks; block++) {
        cp_async_wait<0>();
        __syncthreads(); // the block has arrived, and everyone has left the one that is overwritten now
        load_block(block + 1);
        float s[2][4], largest[2];
        score_group<D>(s, q, shared->keys[block % 2], warp * 16);
        if (block == last / key_block) {
            mask_group(s, block * key_block + warp * 16, position);
        }
        shared->largest[warp][lane] = make_float2(largest_of_row(largest_of_group(s, 0)), largest_of_row(largest_of_group(s, 1)));
        __syncthreads();
        float2 of_group[4];
#pragma unroll
        for (int g = 0; g < 4; g++) {
            of_group[g] = shared->largest[g][lane];
        }
        largest[0] = fmaxf(fmaxf(of_group[0].x, of_group[1].x), fmaxf(of_group[2].x, of_group[3].x));
        largest[1] = fmaxf(fmaxf(of_group[0].y, of_group[1].y), fmaxf(of_group[2].y, of_group[3].y));
        float factor[2], own_sum[2];
        uint32_t own[4], p[4][4];
        maxima.raise(largest, scale, factor);
        weigh_group(s, maxima.maximum, scale, own_sum, own);
        shared->sums[warp][lane] = make_float2(own_sum[0], own_sum[1]);
        store16(&shared->weights[warp][lane], make_uint4(own[0], own[1], own[2], own[3]));
        __syncthreads();
#pragma unroll
        for (int g = 0; g < 4; g++) {
            const uint4 words = load16(&shared->weights[g][lane]);
            p[g][0] = words.x, p[g][1] = words.y, p[g][2] = words.z, p[g][3] = words.w;
            of_group[g] = shared->sums[g][lane];
        }
        sum[0] = fmaf(sum[0], factor[0], (of_group[0].x + of_group[1].x) + (of_group[2].x + of_group[3].x));
        sum[1] = fmaf(sum[1], factor[1], (of_group[0].y + of_group[1].y) + (of_group[2].y + of_group[3].y));
#pragma unroll
        for (int j = 0; j < D / 64; j++) {
            add_values<D>(o[j], p, factor, shared->values[block % 2], j * 64 + warp * 16);
        }
    }
    sum[0] = sum_of_row(sum[0]);
    sum[1] = sum_of_row(sum[1]);
    bf16 *to = out + (row * heads + first_head) * D;
    if (splits_of_row == 1) {
        store_heads<D>(to, o, sum, row_heads);
        return;
    }
    const Partials partials(splits, heads, D);
    leave_split<D>(partials, partials.at(entry, first_head), o, sum, maxima, row_heads);
    __threadfence();
    __syncthreads(); // all of this split is there
    if (threadIdx.x == 0) {
        int32_t *arrived = splits.arrived + row * heads + first_head;
        shared->arrived = atomicAdd(arrived, 1);
        if (shared->arrived == splits_of_row - 1) {
            *arrived = 0; // for the next launch
        }
    }
    __syncthreads();
    if (shared->arrived != splits_of_row - 1) {
        return;
    }
    __threadfence(); // and so are the others
    for (int i = threadIdx.x; i < row_heads * (D / 4); i += 128) {
        const int head = i / (D / 4), column = i % (D / 4) * 4;
        fold_partials<PowersOf2, 4>(partials, entry - split, splits_of_row, first_head + head, column, [&](const float o[4], float factor) {
            *reinterpret_cast<uint2 *>(to + head * D + column) =
                make_uint2(pack_bf16(o[0] * factor, o[1] * factor), pack_bf16(o[2] * factor, o[3] * factor));
        });
    }
}

// Blocks: (entries of work from `first` on, heads/row_warps rounded up).
template <class T>
__global__ void __launch_bounds__(row_warps * 32, 4)
    attention_paged_rows_kernel(T *out, const T *qkv, const T *keys, const T *values, const int32_t *page_tables, int64_t table_width,
                                const int32_t *tables, const int32_t *positions, Splits splits, int64_t first, int heads, int kv_heads,
                                int width) {
    SHARED(float, q, [row_warps][widest_head]);
    const int64_t entry = first + blockIdx.x, row = splits.work[2 * entry];
    const int32_t split = splits.work[2 * entry + 1];
    const int head = blockIdx.y * row_warps + warp_index(), kv_head = head / (heads / kv_heads);
    if (row < 0 || head >= heads) {
        return;
    }
    const int32_t table = tables[row], last = table < 0 ? -1 : positions[row];
    T *to = out + (row * heads + head) * width;
    if (last < 0) {
        clear_row(to, width);
        return;
    }
    stage_row(q[warp_index()], qkv + (row * (heads + 2 * kv_heads) + head) * width, width);
    const typename PagedRows<T>::Sequence sequence{{}, keys + kv_head * width, values + kv_head * width, kv_heads * width, last + 1,
                                                   page_tables + table * table_width};
    const RowSums sums = attend_split(q[warp_index()], sequence, split * attention_split_keys, split_end(split, last), width);
    const int32_t splits_of_row = attention_splits(last);
    if (splits_of_row == 1) {
        store_row(to, sums, width);
        return;
    }
    const Partials partials(splits, heads, width);
    const int64_t at = partials.at(entry, head);
    for (int i = 0; i < lane_columns; i++) {
        if (lane_index() + i * 32 < width) {
            partials.outputs[at * width + lane_index() + i * 32] = sums.o[i];
        }
    }
    int32_t arrived = 0;
    if (lane_index() == 0) {
        partials.sums[at] = make_float2(sums.maximum, sums.sum);
    }
    __threadfence();
    __syncwarp(); // all of this split is there
    if (lane_index() == 0) {
        arrived = atomicAdd(splits.arrived + row * heads + head, 1);
        if (arrived == splits_of_row - 1) {
            splits.arrived[row * heads + head] = 0; // for the next launch
        }
    }
    if (__shfl_sync(all_lanes, arrived, 0) != splits_of_row - 1) {
        return;
    }
    __threadfence(); // and so are the others
    for (int column = lane_index(); column < width; column += 32) {
        fold_partials<PowersOfE, 1>(partials, entry - split, splits_of_row, head, column,
                                    [&](const float o[1], float factor) { to[column] = from_float<T>(o[0] * factor); });
    }
}

template <class T>
void launch_rows(Stream stream, T *out, const T *qkv, const T *keys, const T *values, const int32_t *page_tables, int64_t table_width,
                 const int32_t *tables, const int32_t *positions, const Splits &splits, int heads, int kv_heads, int width) {
    for_work(splits, [&](int64_t first, int64_t count) {
        LAUNCH((attention_paged_rows_kernel<T>), dim3(static_cast<unsigned>(count), ceil_div(heads, row_warps)), dim3(row_warps * 32), 0,
               stream, out, qkv, keys, values, page_tables, table_width, tables, positions, splits, first, heads, kv_heads, width);
    });
}

template <int D>
void launch_paged(Stream stream, bf16 *out, const bf16 *qkv, const bf16 *keys, const bf16 *values, const int32_t *page_tables,
                  int64_t table_width, const int32_t *tables, const int32_t *positions, const Splits &splits, int heads, int kv_heads) {
    for_work(splits, [&](int64_t first, int64_t count) {
        LAUNCH((attention_paged_kernel<D>), dim3(static_cast<unsigned>(count * kv_heads), ceil_div(heads / kv_heads, 16)), dim3(128),
               sizeof(PagedShared<D>), stream, out, qkv, keys, values, page_tables, table_width, tables, positions, splits, first, heads,
               kv_heads);
    });
}

} // namespace

template <>
void attention_paged<float>(Stream stream, float *out, const float *qkv, const float *keys, const float *values, const int32_t *page_tables,
                            int64_t table_width, const int32_t *tables, const int32_t *positions, const Splits &splits, int heads,
                            int kv_heads, int head_dim) {
    launch_rows(stream, out, qkv, keys, values, page_tables, table_width, tables, positions, splits, heads, kv_heads, head_dim);
}

template <>
void attention_paged<bf16>(Stream stream, bf16 *out, const bf16 *qkv, const bf16 *keys, const bf16 *values, const int32_t *page_tables,
                           int64_t table_width, const int32_t *tables, const int32_t *positions, const Splits &splits, int heads,
                           int kv_heads, int head_dim) {
    switch (head_dim) {
    case 64:
        return launch_paged<64>(stream, out, qkv, keys, values, page_tables, table_width, tables, positions, splits, heads, kv_heads);
    case 128:
        return launch_paged<128>(stream, out, qkv, keys, values, page_tables, table_width, tables, positions, splits, heads, kv_heads);
    default:
        return launch_rows(stream, out, qkv, keys, values, page_tables, table_width, tables, positions, splits, heads, kv_heads, head_dim);
    }
}

} // namespace lathe
