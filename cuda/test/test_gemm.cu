// test_gemm.cu: products against their twins, and the promises about their bits.
#include "../gemm.h"
#include "../kernels.h"
#include "../twins/twins_products.h"
#include "harness.h"

namespace lathe::test {

namespace {

// A matrix with `extra` elements between rows, `shift` elements after an aligned address.
template <class T>
struct Matrix {
    int64_t ld, shift;
    std::vector<T> data;
    Buffer<T> buffer;
    Matrix(Random &random, int64_t rows, int64_t columns, int64_t extra, int64_t shift, double scale = 1)
        : ld(columns + extra), shift(shift), data(random.values<T>(rows * ld + shift, scale)), buffer(data) {}
    T *at(int64_t row = 0) { return buffer.get() + shift + row * ld; }
    twin::Numbers numbers() const { return widen(std::vector<T>(data.begin() + shift, data.end())); }
    // What the device has now, without the shift.
    std::vector<T> read() const {
        std::vector<T> all = buffer.read();
        return {all.begin() + shift, all.end()};
    }
};

struct ProductCase {
    int64_t rows, columns, sum; // of the result, of the chain
    int64_t extra, shift;       // 8 and 0 keep 16-byte alignment
    float alpha;
    bool bias, accumulate;
};

const ProductCase product_cases[] = {
    {1, 1, 1, 0, 0, 1, false, false},       // the least
    {0, 8, 8, 0, 0, 1, false, false},       // no rows
    {3, 5, 0, 8, 0, 1, true, true},         // nothing to add up
    {16, 64, 64, 0, 0, 1, false, false},    // one tile, one stage
    {17, 72, 136, 8, 0, 1, true, false},    // tails everywhere, aligned
    {130, 264, 72, 8, 0, 0.5f, true, true}, // more than one of the largest tiles
    {33, 40, 200, 8, 8, -2, false, true},   // more stages than a tile keeps
    {20, 40, 1640, 0, 0, 1, true, false},   // more stages than any tile keeps
    {19, 23, 37, 0, 0, 1, true, false},     // leading dimensions that are not multiples of 8
    {70, 24, 50, 5, 3, 0.25f, true, true},  // pointers that are not either
};

// The rounding to T, and one of float32 at each step of the chain, whose partial
// sums are below 16 here: of a random walk of at most 200 steps of deviation 1.
template <class T>
Tolerance product_tolerance(int64_t sum, double alpha) {
    return {unit_roundoff<T>(), 16 * static_cast<double>(sum + 2) * (std::fabs(alpha) + 1) * unit_roundoff<float>()};
}

template <class T>
void check_products(Test &t, const ProductCase &c, int tile) {
    const char *path = sizeof(T) == 2 ? path_name(path_in_use()) : "";
    Random random(17);
    const int64_t M = c.rows, N = c.columns, K = c.sum;
    t.describe("%s %s tile %d, %lld x %lld x %lld, ld +%lld, shift %lld, alpha %g", type_name<T>(), path, tile, static_cast<long long>(M),
               static_cast<long long>(N), static_cast<long long>(K), static_cast<long long>(c.extra), static_cast<long long>(c.shift),
               c.alpha);
    force_tile(tile);
    {
        Matrix<T> x(random, M, K, c.extra, c.shift), w(random, N, K, c.extra, c.shift), y(random, M, N, c.extra, c.shift);
        Matrix<T> bias(random, 1, N, 0, c.shift);
        twin::Numbers want = y.numbers();
        twin::product_nt(want, y.ld, x.numbers(), x.ld, w.numbers(), w.ld, c.bias ? bias.numbers() : twin::Numbers{}, M, N, K, c.alpha,
                         c.accumulate);
        product_nt<T>(t.stream, y.at(), y.ld, x.at(), x.ld, w.at(), w.ld, c.bias ? bias.at() : nullptr, M, N, K, c.alpha, c.accumulate);
        t.close("nt", y.read(), want, product_tolerance<T>(K, c.alpha));
    }
    {
        // The result has N columns, so w is (K, N).
        Matrix<T> dy(random, M, K, c.extra, c.shift), w(random, K, N, c.extra, c.shift), dx(random, M, N, c.extra, c.shift);
        twin::Numbers want = dx.numbers();
        twin::product_nn(want, dx.ld, dy.numbers(), dy.ld, w.numbers(), w.ld, M, K, N, c.alpha, c.accumulate);
        product_nn<T>(t.stream, dx.at(), dx.ld, dy.at(), dy.ld, w.at(), w.ld, M, K, N, c.alpha, c.accumulate);
        t.close("nn", dx.read(), want, product_tolerance<T>(K, c.alpha));
    }
    {
        Matrix<T> dy(random, K, M, c.extra, c.shift), x(random, K, N, c.extra, c.shift);
        Matrix<float> dw(random, M, N, c.extra, c.shift);
        twin::Numbers want = dw.numbers();
        twin::product_tn(want, dw.ld, dy.numbers(), dy.ld, x.numbers(), x.ld, K, M, N, c.alpha);
        product_tn<T>(t.stream, dw.at(), dw.ld, dy.at(), dy.ld, x.at(), x.ld, K, M, N, c.alpha);
        t.close("tn", dw.read(), want, product_tolerance<float>(K, c.alpha));
    }
    force_tile(-1);
}

// Runs f(tiles) on each path that the device has; the emulated one has all.
template <class Function>
void on_each_path(Test &t, Function f) {
    f(product_tiles);
    const char *obstacle = wgmma_obstacle();
#ifdef LATHE_HOST
    t.expect(obstacle == nullptr, "the emulated device has wgmma");
#endif
    if (obstacle != nullptr) {
        printf("    without wgmma: %s\n", obstacle);
        return;
    }
    use_path(ProductPath::wgmma);
    f(warpgroup_tiles);
    use_path(ProductPath::mma);
}

// Some rows of a product by themselves.
template <class T>
std::vector<T> some_rows(Test &t, Matrix<T> &x, Matrix<T> &w, Matrix<T> &bias, int64_t first, int64_t rows, int64_t N, int64_t K) {
    Buffer<T> y(static_cast<size_t>(rows * N));
    product_nt<T>(t.stream, y, N, x.at(first), x.ld, w.at(), w.ld, bias.at(), rows, N, K, 1, false);
    return y.read();
}

template <class T>
void check_row_invariance(Test &t, int tiles) {
    Random random(23);
    const int64_t M = 256, N = 40, K = 104;
    Matrix<T> x(random, M, K, 0, 0), w(random, N, K, 0, 0), bias(random, 1, N, 0, 0);
    const std::vector<T> all = some_rows(t, x, w, bias, 0, M, N, K);
    for (int tile = -1; tile < tiles; tile++) {
        force_tile(tile);
        for (int64_t rows : {1, 2, 8, 17, 64, 256}) {
            if (rows == 256 && tile >= 0 && tile < 2) {
                continue; // many small tiles, the same as few
            }
            const int64_t first = (M - rows) / 2;
            t.describe("%s, %lld rows, tile %d", type_name<T>(), static_cast<long long>(rows), tile);
            std::vector<T> want(all.begin() + first * N, all.begin() + (first + rows) * N);
            t.equal("rows by themselves", some_rows(t, x, w, bias, first, rows, N, K), want);
        }
    }
    force_tile(-1);
}

template <class T>
void check_split(Test &t) {
    Random random(29);
    const int64_t M = 150, N = 24, K = 40;
    Matrix<T> dy(random, M, N, 0, 0), x(random, M, K, 0, 0);
    const std::vector<float> before = random.values<float>(N * K);
    for (float alpha : {1.0f, 0.3f}) {
        Buffer<float> whole(before);
        product_tn<T>(t.stream, whole, K, dy.at(), dy.ld, x.at(), x.ld, M, N, K, alpha);
        for (int64_t cut : {16, 48, 64, 144}) {
            t.describe("%s alpha %g, cut at row %lld", type_name<T>(), alpha, static_cast<long long>(cut));
            Buffer<float> parts(before);
            product_tn<T>(t.stream, parts, K, dy.at(), dy.ld, x.at(), x.ld, cut, N, K, alpha);
            product_tn<T>(t.stream, parts, K, dy.at(cut), dy.ld, x.at(cut), x.ld, M - cut, N, K, alpha);
            t.equal("gradient in two calls", parts.read(), whole.read());
        }
    }
}

// One row with a NaN and one with an infinity: theirs are the only rows that show it.
template <class T>
void check_not_finite(Test &t) {
    Random random(31);
    const int64_t M = 20, N = 24, K = 40;
    t.describe("%s with NaN and inf", type_name<T>());
    Matrix<T> x(random, M, K, 0, 0), w(random, N, K, 0, 0), none(random, 0, 0, 0, 0);
    x.data[3 * K + 7] = from_float<T>(NAN);
    x.data[11 * K + 39] = from_float<T>(INFINITY);
    Buffer<T> damaged(x.data), y(static_cast<size_t>(M * N));
    twin::Numbers want(static_cast<size_t>(M * N));
    twin::product_nt(want, N, widen(x.data), K, w.numbers(), K, {}, M, N, K, 1, false);
    product_nt<T>(t.stream, y, N, damaged, K, w.at(), K, nullptr, M, N, K, 1, false);
    t.close("nt", y.read(), want, product_tolerance<T>(K, 1));
}

} // namespace

TEST(products_bf16) {
    on_each_path(t, [&](int tiles) {
        for (const ProductCase &c : product_cases)
            for (int tile = -1; tile < tiles; tile++) check_products<bf16>(t, c, tile);
    });
}
TEST(products_float) {
    for (const ProductCase &c : product_cases) check_products<float>(t, c, -1);
}
TEST(product_rows_do_not_depend_on_their_number) {
    on_each_path(t, [&](int tiles) { check_row_invariance<bf16>(t, tiles); });
    check_row_invariance<float>(t, 0);
}
TEST(product_tn_may_be_cut_at_multiples_of_16) {
    on_each_path(t, [&](int) { check_split<bf16>(t); });
    check_split<float>(t);
}
TEST(products_of_numbers_that_are_not_finite) {
    on_each_path(t, [&](int) { check_not_finite<bf16>(t); });
    check_not_finite<float>(t);
}

// Blocks of warpgroups that compute more than one tile, with more stages than
// they keep. Emulated, both paths are the same chain of fused products; what a GPU
// adds up otherwise, invariance.cu prints.
TEST(warpgroups_go_from_tile_to_tile) {
    on_each_path(t, [&](int) {
        if (path_in_use() == ProductPath::mma) return;
        for (int tile = 0; tile < warpgroup_tiles; tile++) check_products<bf16>(t, {130, 520, 328, 8, 0, 1, true, false}, tile);
    });
}
#ifdef LATHE_HOST
TEST(product_paths_are_one_chain) {
    Random random(37);
    const int64_t M = 70, N = 48, K = 200;
    Matrix<bf16> x(random, M, K, 0, 0), w(random, N, K, 0, 0), bias(random, 1, N, 0, 0);
    std::vector<bf16> first;
    on_each_path(t, [&](int) {
        const std::vector<bf16> y = some_rows(t, x, w, bias, 0, M, N, K);
        if (first.empty()) first = y;
        t.equal("y", y, first);
    });
}
#endif

// The choice of a tile fills the device where it can, and is never wider than needed.
TEST(product_tiles_are_chosen_by_shape) {
    t.expect(choose_tile(1, 896, 132, widest_tile_shared) == ProductTile::rows16_columns16, "few rows and columns: the narrowest");
    t.expect(choose_tile(16, 151936, 132, widest_tile_shared) == ProductTile::rows16_columns64, "few rows, many columns");
    t.expect(choose_tile(64, 64, 132, widest_tile_shared) == ProductTile::rows64_columns16, "a small result");
    t.expect(choose_tile(256, 896, 132, widest_tile_shared) == ProductTile::rows64_columns32, "a result of as many tiles as blocks");
    t.expect(choose_tile(16384, 18944, 132, widest_tile_shared) == ProductTile::rows128_columns256, "a large result");
    t.expect(choose_tile(16384, 16, 132, widest_tile_shared) == ProductTile::rows64_columns16, "an adapter's few columns");
    t.expect(choose_tile(16384, 18944, 132, least_block_shared) == ProductTile::rows128_columns128, "a large result, less shared memory");
    t.expect(choose_warpgroup_tile(1, 896, 132) == WarpgroupTileSize::rows64_columns16, "few rows: the narrowest");
    t.expect(choose_warpgroup_tile(1, 151936, 132) == WarpgroupTileSize::rows64_columns64, "few rows, many columns");
    t.expect(choose_warpgroup_tile(16384, 18944, 132) == WarpgroupTileSize::rows128_columns256, "a large result");
    t.expect(choose_warpgroup_tile(4096, 896, 132) == WarpgroupTileSize::rows128_columns128, "one for each multiprocessor");
}

} // namespace lathe::test
