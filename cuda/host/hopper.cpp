// hopper.cpp: barriers in shared memory, copies of boxes and products of
// warpgroups, as the PTX ISA (9.0) describes them. hopper.cuh has the layouts.
//
// Both kinds of work are done as late as they may be: a box arrives when a
// thread waits for its barrier, and a product is computed when its group is
// waited for; until then what they will write holds nothing to be relied on. So
// a kernel that does not wait reads NaN, and one that gives a stage back too
// early multiplies what has taken its place.
#include <map>

#include "access.h"
#include "block.h"
#include "memory.h"

namespace lathe::host {

static constexpr uint32_t swizzled_row = 128, swizzled_period = 1024;

// The ISA's Swizzle<3,4,3>: bits 4 to 6 of an address, XOR bits 7 to 9. A place
// in eight rows of 128 bytes, from a multiple of 1024, gets its chunk of 16 bytes
// permuted by its row.
static uint32_t swizzled(uint32_t address) { return address ^ ((address >> 7 & 7) << 4); }

uint32_t shared_address(const void *shared) { return machine->shared.address(shared); }

// ---------------------------------------------------------------- tensor maps

// The requirements are those that cuda.h lists for cuTensorMapEncodeTiled, with
// rank 2, bfloat16, no interleaving and a swizzling of 128 bytes. Boxes narrower
// than 128 bytes are refused: nothing here uses them.
cudaError_t encode_tensor_map(TensorMap *map, const void *from, const uint64_t size[2], uint64_t row_bytes, const uint32_t box[2]) {
    const bool sizes = size[0] > 0 && size[1] > 0 && size[0] <= uint64_t{1} << 32 && size[1] <= uint64_t{1} << 32;
    const bool rows = row_bytes % 16 == 0 && row_bytes < uint64_t{1} << 40 && row_bytes >= size[0] * 2;
    const bool boxes = box[0] * 2 == swizzled_row && box[1] > 0 && box[1] <= 256;
    if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0 || !sizes || !rows || !boxes)
        return returned(cudaErrorInvalidValue);
    if (whereabouts(from, (size[1] - 1) * row_bytes + size[0] * 2) != Where::device) return returned(cudaErrorInvalidDevicePointer);
    *map = {static_cast<const char *>(from), {size[0], size[1]}, row_bytes, {box[0], box[1]}};
    return returned(cudaSuccess);
}

// ---------------------------------------------------------------- barriers and copies

// What a copy brings, with zeros for what lies outside the matrix.
static void deliver(const BoxCopy &copy) {
    const TensorMap &m = copy.map;
    for (uint32_t row = 0; row < m.box[1]; row++)
        for (uint32_t column = 0; column < m.box[0]; column++) {
            const int64_t x = copy.x + static_cast<int64_t>(column), y = copy.y + static_cast<int64_t>(row);
            const bool inside = x >= 0 && y >= 0 && x < static_cast<int64_t>(m.size[0]) && y < static_cast<int64_t>(m.size[1]);
            uint16_t element = 0;
            if (inside) memcpy(&element, m.from + y * m.row_bytes + x * 2, 2);
            memcpy(machine->shared.at(swizzled(copy.to + row * swizzled_row + column * 2)), &element, 2);
        }
}

void Machine::barrier_init(const void *at, uint32_t arrivals) {
    const Site site{"barrier_init", 0};
    if (reinterpret_cast<uintptr_t>(at) % 8 != 0 || !shared.has(at, 8)) fail(site, "a barrier that is not 8 aligned shared bytes");
    if (arrivals == 0 || arrivals >= 1u << 20) fail(site, "a barrier for no arrivals, or for more than one can count");
    if (!barriers_.emplace(at, Phases{}).second) fail(site, "a barrier that is made twice");
    barriers_[at].expected = barriers_[at].pending = arrivals;
}

Machine::Phases &Machine::phases(Site site, const void *at) {
    auto found = barriers_.find(at);
    if (found == barriers_.end()) fail(site, "a barrier that was not made");
    return found->second;
}

// Ends the phase if nothing is missing, with the copies that have started once
// somebody waits for them.
void Machine::end_phase(Phases &b, bool wanted) {
    if (b.pending > 0) return;
    if (wanted) {
        for (const BoxCopy &copy : b.copies) {
            deliver(copy);
            b.bytes -= copy.map.box[0] * 2 * copy.map.box[1];
        }
        b.copies.clear();
    }
    if (b.bytes != 0) return;
    b.phase++;
    b.pending = b.expected;
    wake(b.waiting.data(), b.waiting.size());
    b.waiting.clear();
}

void Machine::barrier_arrive(const void *at, uint32_t bytes) {
    const Site site{"barrier_arrive", 0};
    Phases &b = phases(site, at);
    if (b.pending == 0) end_phase(b, true); // it may have ended before this arrival
    if (b.pending == 0) fail(site, "an arrival beyond those that the barrier's phase expects");
    if (bytes >= 1u << 20) fail(site, "more bytes than a barrier counts");
    release(&b);
    b.bytes += bytes;
    b.pending--;
    end_phase(b, !b.waiting.empty());
}

void Machine::barrier_wait(const void *at, uint32_t parity) {
    const Site site{"barrier_wait", 0};
    Phases &b = phases(site, at);
    while ((b.phase & 1) == parity) {
        end_phase(b, true);
        if ((b.phase & 1) != parity) break;
        b.waiting.push_back(current);
        wait(site, Thread::waiting_phase);
    }
    acquire(&b);
}

void Machine::copy_box(void *to, const TensorMap &map, const void *at, int32_t x, int32_t y) {
    const Site site{"copy_box", 0};
    Phases &b = phases(site, at);
    const uint32_t bytes = map.box[0] * 2 * map.box[1];
    if (!shared.has(to, bytes)) fail(site, "a box that does not fit where it is copied to");
    const uint32_t address = shared.address(to);
    if (address % swizzled_period != 0) fail(site, "a swizzled box whose place does not begin at a multiple of 1024 bytes");
    if (b.pending == b.expected) fail(site, "a box whose bytes the barrier does not expect");
    fill_unwritten(to, bytes);
    b.copies.push_back({map, address, x, y});
    end_phase(b, !b.waiting.empty());
}

// ---------------------------------------------------------------- products of warpgroups

// An operand as its descriptor says. Those that this machine takes are swizzled
// by 128 bytes, with a base offset of 0, from a place that is right for it.
static const char *objection(uint64_t descriptor, bool across) {
    const uint32_t start = (descriptor & 0x3fff) << 4;
    if (descriptor >> 62 != 1) return "an operand that is not swizzled by 128 bytes";
    if ((descriptor >> 49 & 7) != 0) return "an operand with a base offset";
    if (start % swizzled_period >= (across ? 1 : swizzled_row)) return "an operand that does not begin at a multiple of 1024 bytes";
    return nullptr;
}

// The operand's element (index, k): index counts rows of a or columns of b.
static float element(uint64_t descriptor, bool across, uint32_t index, uint32_t k) {
    auto bytes = [&](int bit) { return static_cast<uint32_t>(descriptor >> bit & 0x3fff) << 4; };
    const uint32_t start = bytes(0), leading = bytes(16), stride = bytes(32);
    uint32_t offset;
    if (across) // ((T,8,m),(8,k)) : ((1,T,leading),(8T,stride)), T = 8 elements
        offset = index % 64 * 2 + index / 64 * leading + k % 8 * swizzled_row + k / 8 * stride;
    else // ((8,m),(T,2k)) : ((8T,stride),(1,T))
        offset = index % 8 * swizzled_row + index / 8 * stride + k * 2;
    uint16_t bits;
    const void *at = machine->shared.at(swizzled(start + offset));
    if (!machine->shared.has(at, 2)) fault({"wgmma", 0}, "an operand that reaches out of shared memory");
    memcpy(&bits, at, 2);
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

struct Issue {
    WarpProduct product;
    float *d;
};

// The last lane of a warp adds the product to the warp's open group.
static void issue(void *const arguments[32], Site site) {
    const WarpProduct &first = static_cast<Issue *>(arguments[0])->product;
    if (const char *what = objection(first.a, first.a_across)) fault(site, what);
    if (const char *what = objection(first.b, first.b_across)) fault(site, what);
    WarpMatrices &w = machine->matrices();
    WarpProduct product = first;
    for (int lane = 0; lane < 32; lane++) {
        const Issue &own = *static_cast<Issue *>(arguments[lane]);
        if (!own.product.same(first)) fault(site, "lanes with different descriptors");
        product.d[lane] = own.d;
        auto [held, is_new] = w.held.try_emplace(own.d);
        if (!is_new) continue;
        held->second.assign(own.d, own.d + product.columns / 2);
        fill_unwritten(own.d, product.columns / 2 * sizeof(float));
    }
    machine->check_warpgroup(site, product);
    w.open.push_back(product);
}

// The rows of d that a warp has: one chain of fused products over ascending k.
static void compute(WarpMatrices &w, const WarpProduct &p, int quarter) {
    const uint32_t N = static_cast<uint32_t>(p.columns);
    float a[16][16];
    std::vector<float> b(16 * N), d(16 * N); // (k, column), (row, column)
    for (uint32_t k = 0; k < 16; k++) {
        for (uint32_t row = 0; row < 16; row++) a[row][k] = element(p.a, p.a_across, 16 * static_cast<uint32_t>(quarter) + row, k);
        for (uint32_t column = 0; column < N; column++) b[k * N + column] = element(p.b, p.b_across, column, k);
    }
    auto each = [&](auto f) {
        for (int lane = 0; lane < 32; lane++) {
            std::vector<float> &held = w.held[p.d[lane]];
            const uint32_t g = static_cast<uint32_t>(lane) / 4, t = static_cast<uint32_t>(lane) % 4;
            for (uint32_t i = 0; i < N / 2; i++) f(held[i], d[(g + i / 2 % 2 * 8) * N + i / 4 * 8 + 2 * t + i % 2]);
        }
    };
    each([](float held, float &at) { at = held; });
    for (uint32_t row = 0; row < 16; row++)
        for (uint32_t k = 0; k < 16; k++)
            for (uint32_t column = 0; column < N; column++) d[row * N + column] = fmaf(a[row][k], b[k * N + column], d[row * N + column]);
    each([](float &held, float at) { held = at; });
}

struct Pending {
    size_t groups;
};

static void finish(void *const arguments[32], Site) {
    WarpMatrices &w = machine->matrices();
    while (w.groups.size() > static_cast<Pending *>(arguments[0])->groups) {
        for (const WarpProduct &p : w.groups.front()) compute(w, p, machine->current->warp % 4);
        w.groups.erase(w.groups.begin());
    }
    auto in_flight = [&](float *d) {
        auto has = [&](const WarpProduct &p) { return std::find(p.d, p.d + 32, d) != p.d + 32; };
        return std::any_of(w.open.begin(), w.open.end(), has) ||
               std::any_of(w.groups.begin(), w.groups.end(), [&](auto &group) { return std::any_of(group.begin(), group.end(), has); });
    };
    for (auto held = w.held.begin(); held != w.held.end();) {
        if (in_flight(held->first)) {
            ++held;
            continue;
        }
        std::copy(held->second.begin(), held->second.end(), held->first);
        held = w.held.erase(held);
    }
    w.fenced = !w.held.empty();
}

WarpMatrices &Machine::matrices() { return matrices_[current->warp]; }

// Each of a warpgroup's four warps has to issue the same products.
void Machine::check_warpgroup(Site site, const WarpProduct &product) {
    const int group = current->warp / 4;
    if ((group * 4 + 4) * 32 > count_) fail(site, "a product by fewer than the four warps of a warpgroup");
    WarpMatrices &w = matrices();
    if (!w.fenced) fail(site, "a product without wgmma_fence before it");
    std::vector<WarpProduct> &all = warpgroups_[group];
    if (w.issued == all.size()) all.push_back(product);
    else if (!all[w.issued].same(product)) fail(site, "the warps of a warpgroup issue different products");
    w.issued++;
}

// What a block may not leave behind: of copies, and of products.
std::string Machine::unfinished() const {
    for (const auto &[at, b] : barriers_)
        if (!b.copies.empty()) return "the kernel leaves boxes that nobody has waited for";
    for (const WarpMatrices &w : matrices_)
        if (!w.held.empty()) return "the kernel leaves products that nobody has waited for";
    for (size_t warp = 0; warp < matrices_.size(); warp++)
        if (!warpgroups_[warp / 4].empty() && matrices_[warp].issued != warpgroups_[warp / 4].size())
            return "a warp leaves out products of its warpgroup";
    return "";
}

void barrier_init(const void *barrier, uint32_t arrivals) { machine->barrier_init(barrier, arrivals); }
void barrier_arrive(const void *barrier, uint32_t bytes) { machine->barrier_arrive(barrier, bytes); }
void barrier_wait(const void *barrier, uint32_t parity) { machine->barrier_wait(barrier, parity); }
void copy_box(void *to, const TensorMap *map, const void *barrier, int32_t x, int32_t y) {
    machine->copy_box(to, *map, barrier, x, y);
    const auto columns = std::clamp<int64_t>(static_cast<int64_t>(map->size[0]) - x, 0, map->box[0]);
    const auto rows = std::clamp<int64_t>(static_cast<int64_t>(map->size[1]) - y, 0, map->box[1]);
    access_box(__builtin_return_address(0), map->from + y * static_cast<int64_t>(map->row_bytes) + x * 2, static_cast<size_t>(columns) * 2,
               static_cast<size_t>(rows), map->row_bytes, map->box[0] * 2 * map->box[1]);
}

void wgmma(float *d, int columns, uint64_t a, uint64_t b, bool a_across, bool b_across) {
    Issue own{{a, b, columns, a_across, b_across, {}}, d};
    machine->exchange({"wgmma", 0}, 0xffffffffu, &own, issue);
}

void wgmma_fence() {
    machine->exchange({"wgmma_fence", 0}, 0xffffffffu, nullptr, [](void *const[32], Site) { machine->matrices().fenced = true; });
}

void wgmma_commit() {
    machine->exchange({"wgmma_commit", 0}, 0xffffffffu, nullptr, [](void *const[32], Site) {
        WarpMatrices &w = machine->matrices();
        w.groups.push_back(std::move(w.open));
        w.open.clear();
    });
}

void wgmma_wait(int pending) {
    Pending own{static_cast<size_t>(pending)};
    machine->exchange({"wgmma_wait", 0}, 0xffffffffu, &own, finish);
}

} // namespace lathe::host
