// device.cpp: what device code calls of its block: shared memory, barriers,
// warp functions, tensor cores and asynchronous copies.
#include "access.h"
#include "block.h"

namespace lathe::host {

void *shared_memory(const void *declaration, size_t bytes) {
    void *memory = machine->shared.declared(declaration, bytes);
    if (memory == nullptr) fault({"shared memory", 0}, "the block's arrays do not fit");
    return memory;
}

void *dynamic_shared_memory() { return machine->shared.dynamic(); }

Votes block_barrier(Site site, bool predicate) { return machine->barrier(site, predicate); }

void warp_exchange(Site site, uint32_t mask, void *arguments, Combine combine) { machine->exchange(site, mask, arguments, combine); }

void fault(Site site, const char *what) { machine->fail(site, what); }

void syncwarp(Site site, uint32_t mask) { machine->exchange(site, mask, nullptr, nullptr); }

struct Ballot {
    bool predicate;
    uint32_t all;
};

uint32_t ballot(Site site, uint32_t mask, bool predicate) {
    Ballot own{predicate, 0};
    machine->exchange(site, mask, &own, [](void *const arguments[32], Site) {
        uint32_t all = 0;
        for (int i = 0; i < 32; i++)
            if (arguments[i] != nullptr && static_cast<Ballot *>(arguments[i])->predicate) all |= 1u << i;
        for (int i = 0; i < 32; i++)
            if (arguments[i] != nullptr) static_cast<Ballot *>(arguments[i])->all = all;
    });
    return own.all;
}

template <class T>
struct Reduce {
    T value;
    Reduction reduction;
    T result;
};

template <class T>
static T reduce_all(Site site, uint32_t mask, T value, Reduction reduction) {
    Reduce<T> own{value, reduction, 0};
    machine->exchange(site, mask, &own, [](void *const arguments[32], Site) {
        bool first = true;
        T all = 0;
        for (int i = 0; i < 32; i++) {
            if (arguments[i] == nullptr) continue;
            const auto &[value, reduction, unused] = *static_cast<Reduce<T> *>(arguments[i]);
            if (first) all = value;
            else if (reduction == Reduction::add) all += value;
            else if (reduction == Reduction::min) all = std::min(all, value);
            else if (reduction == Reduction::max) all = std::max(all, value);
            else if (reduction == Reduction::bit_and) all &= value;
            else if (reduction == Reduction::bit_or) all |= value;
            else all ^= value;
            first = false;
        }
        for (int i = 0; i < 32; i++)
            if (arguments[i] != nullptr) static_cast<Reduce<T> *>(arguments[i])->result = all;
    });
    return own.result;
}

uint32_t reduce_unsigned(Site site, uint32_t mask, uint32_t value, Reduction reduction) { return reduce_all(site, mask, value, reduction); }
int32_t reduce_signed(Site site, uint32_t mask, int32_t value, Reduction reduction) { return reduce_all(site, mask, value, reduction); }

// ---------------------------------------------------------------- tensor cores

struct Fragments {
    float *d;
    const uint32_t *a, *b;
};

static float low(uint32_t pair) { return __uint_as_float(pair << 16); }
static float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

// Each element is one chain of fused products over ascending k.
static void multiply_fragments(void *const arguments[32], Site) {
    float a[16][16], b[16][8], d[16][8]; // a (row,k), b (k,column)
    for (int lane = 0; lane < 32; lane++) {
        const auto &f = *static_cast<Fragments *>(arguments[lane]);
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++) {
            a[g + 8 * (i % 2)][2 * t + 8 * (i / 2)] = low(f.a[i]);
            a[g + 8 * (i % 2)][2 * t + 8 * (i / 2) + 1] = high(f.a[i]);
            d[g + 8 * (i / 2)][2 * t + i % 2] = f.d[i];
        }
        for (int i = 0; i < 2; i++) {
            b[2 * t + 8 * i][g] = low(f.b[i]);
            b[2 * t + 8 * i + 1][g] = high(f.b[i]);
        }
    }
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++) d[row][column] = fmaf(a[row][k], b[k][column], d[row][column]);
    for (int lane = 0; lane < 32; lane++) {
        const auto &f = *static_cast<Fragments *>(arguments[lane]);
        for (int i = 0; i < 4; i++) f.d[i] = d[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
    }
}

void mma_bf16_16x8x16(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    Fragments own{d, a, b};
    machine->exchange({"mma_bf16_16x8x16", 0}, 0xffffffffu, &own, multiply_fragments);
}

struct Matrices {
    uint32_t *fragment;
    const uint16_t *row;
};

static void load_matrices(void *const arguments[32], Site) {
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            const uint16_t *row = static_cast<Matrices *>(arguments[8 * i + lane / 4])->row;
            static_cast<Matrices *>(arguments[lane])->fragment[i] = row[2 * (lane % 4)] | static_cast<uint32_t>(row[2 * (lane % 4) + 1]) << 16;
        }
}

static void load_matrices_transposed(void *const arguments[32], Site) {
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            const uint16_t *first = static_cast<Matrices *>(arguments[8 * i + 2 * (lane % 4)])->row;
            const uint16_t *second = static_cast<Matrices *>(arguments[8 * i + 2 * (lane % 4) + 1])->row;
            static_cast<Matrices *>(arguments[lane])->fragment[i] = first[lane / 4] | static_cast<uint32_t>(second[lane / 4]) << 16;
        }
}

static bool aligned(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

void ldmatrix_x4(uint32_t fragment[4], const void *row, bool transposed) {
    const Site site{"ldmatrix_x4", 0};
    if (!aligned(row)) fault(site, "a row that is not aligned to 16 bytes");
    if (!machine->shared.has(row, 16)) fault(site, "a row outside shared memory");
    access_note(__builtin_return_address(0), row, 16);
    Matrices own{fragment, static_cast<const uint16_t *>(row)};
    machine->exchange(site, 0xffffffffu, &own, transposed ? load_matrices_transposed : load_matrices);
}

// ---------------------------------------------------------------- asynchronous copies

void cp_async_16(void *to_shared, const void *from, int bytes_valid) {
    const Site site{"cp_async_16", 0};
    if (bytes_valid < 0 || bytes_valid > 16) fault(site, "bytes_valid is not 0 to 16");
    if (!aligned(to_shared) || !aligned(from)) fault(site, "an address that is not aligned to 16 bytes");
    if (!machine->shared.has(to_shared, 16)) fault(site, "a destination outside shared memory");
    // Until the copy is waited for, its place holds nothing to be relied on.
    fill_unwritten(to_shared, 16);
    access_note(__builtin_return_address(0), to_shared, 16);
    access_note(__builtin_return_address(0), from, static_cast<size_t>(bytes_valid));
    machine->current->open.push_back({to_shared, from, bytes_valid});
}

void cp_async_commit() {
    Thread *t = machine->current;
    t->groups.emplace_back(std::move(t->open));
    t->open.clear();
}

void cp_async_wait(int pending) {
    auto &groups = machine->current->groups;
    while (static_cast<int>(groups.size()) > pending) {
        for (const Copy &copy : groups.front()) {
            memset(copy.to, 0, 16);
            memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
        }
        groups.erase(groups.begin());
    }
}

} // namespace lathe::host
