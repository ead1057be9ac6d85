// access.cpp: bank conflicts and uncoalesced accesses, counted in the emulator.
//
// In the build of `make access` g++ puts a call before every load and store of
// the kernels, as it does for its thread sanitizer; the functions called are
// those below and not the sanitizer's. Each notes instruction, address and size
// for the thread that runs. What the n-th executions of one instruction access
// in the lanes of a warp, since all of them last came to one place, is a request.
//
// # What is counted
//
// A request to shared memory takes wavefronts: of all lanes for 4 bytes and less,
// of each half of a warp for 8 bytes, of each quarter for 16 (and so for
// ldmatrix and what cp.async writes). Each takes as long as the bank of the most
// different words, of 32 banks of 4 bytes. Ideal is one for each such part.
// A request to global memory touches sectors of 32 bytes. Ideal is as many as
// its different bytes would fill. Local variables are not counted.
//
// # What is exact and what is not
//
// Exact, as far as documented, for instructions that all 32 lanes execute equally
// often between two barriers or warp functions of all lanes, in a function that
// may be called from several places too; and for the addresses, as the emulated
// memory is aligned as CUDA aligns it. Approximate:
//
//   - Lanes that go round a loop differently often are paired by counting, not by
//     where they would meet again.
//   - g++ decides which loads are repeated, kept in registers or moved out of
//     loops, nvcc as it likes; and nvcc may join neighbours whose alignment it
//     knows. Structs of 16 bytes are one access in both (hence -fno-tree-sra). What is
//     longer, or no power of two, is counted by words.
//   - Parts of a wide request that read the same words may be served at once by
//     hardware, which is not counted against the ideal either.
//   - An emulated atomic operation is a load and a store. The operands of wgmma are
//     left out: they are swizzled, without conflicts by construction. A box that the
//     copy unit brings is one request, its shared part taken to be ideal.
//   - Sectors are those of one request. Where the next request takes the other half
//     of a sector, the L1 cache has it, and the memory sees no more bytes; the table
//     shows the worst instructions, so that a reader may tell.
#include "access.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <vector>

#include "block.h"
#include "memory.h"

namespace lathe::host {

namespace {

struct Requests {
    uint64_t count = 0, partial = 0, did = 0, ideal = 0; // partial: not of all lanes; wavefronts or sectors
    void add(const Requests &o) { count += o.count, partial += o.partial, did += o.did, ideal += o.ideal; }
};

// What an instruction did, reached by one path of calls.
struct Instruction {
    uintptr_t address, caller; // to which it returns, and to which the function that has it does
    Requests shared, global;
};

// The launches of a kernel in one case.
struct Kernel {
    std::string of; // the case
    uintptr_t address;
    uint64_t blocks = 0;
    std::unordered_map<uint64_t, size_t> places; // in instructions, by address and path
    std::vector<Instruction> instructions;
};

// The n-th execution of an instruction by the lanes of a warp.
struct Request {
    uint32_t lanes = 0;
    uint8_t bytes = 0;
    uintptr_t at[32];
};
struct Executions {
    uint32_t times[32] = {}; // of each lane
    std::vector<Request> requests;
};

struct Frame {
    uint64_t path;
    uintptr_t caller;
};

struct Warp {
    std::vector<Executions> of; // by the instruction's place
    std::vector<size_t> executed;
};

// Functions that the kernels share with this file may be instrumented: what
// they access while it works is passed over.
bool busy = true;
std::string case_name;
std::vector<Kernel> kernels;
Kernel *kernel;
std::vector<Warp> warps;
std::vector<std::vector<Frame>> calls; // of each thread
struct Page {
    uintptr_t number;
    bool device;
};
std::vector<Page> pages; // a cache; a buffer shares no page with anything else

struct Busy {
    Busy() { busy = true; }
    ~Busy() { busy = false; }
};

bool on_device(uintptr_t at) {
    const uintptr_t number = at >> 12;
    Page &page = pages[number % pages.size()];
    if (page.number != number) page = {number, whereabouts(reinterpret_cast<const void *>(at), 1) == Where::device};
    return page.device;
}

uint64_t mix(uint64_t a, uint64_t b) {
    const uint64_t x = (a ^ b) * 0x9e3779b97f4a7c15;
    return x ^ x >> 29;
}

void count_shared(const Request &r, Requests &to) {
    const int part = r.bytes <= 4 ? 32 : r.bytes == 8 ? 16 : 8; // lanes that are served at once
    for (int first = 0; first < 32; first += part) {
        uintptr_t words[64]; // two of each lane, if not aligned
        size_t n = 0;
        for (int lane = first; lane < first + part; lane++)
            if (r.lanes >> lane & 1)
                for (uintptr_t word = r.at[lane] / 4; word <= (r.at[lane] + r.bytes - 1) / 4; word++) words[n++] = word;
        std::sort(words, words + n);
        n = static_cast<size_t>(std::unique(words, words + n) - words);
        int in_bank[32] = {}, most = 0;
        for (size_t i = 0; i < n; i++) most = std::max(most, ++in_bank[words[i] % 32]);
        to.did += static_cast<uint64_t>(most);
        to.ideal += n > 0;
    }
}

void count_global(const Request &r, Requests &to) {
    uintptr_t at[32], end = 0, sectors_end = 0, bytes = 0;
    size_t n = 0;
    for (int lane = 0; lane < 32; lane++)
        if (r.lanes >> lane & 1) at[n++] = r.at[lane];
    std::sort(at, at + n);
    for (size_t i = 0; i < n; i++) {
        bytes += at[i] + r.bytes - std::min(at[i] + r.bytes, std::max(at[i], end));
        end = std::max(end, at[i] + r.bytes);
        const uintptr_t first = std::max(at[i] / 32, sectors_end);
        sectors_end = std::max(sectors_end, (at[i] + r.bytes - 1) / 32 + 1);
        to.did += sectors_end - std::min(first, sectors_end);
    }
    to.ideal += (bytes + 31) / 32;
}

bool is_shared(uintptr_t at) { return machine->shared.has(reinterpret_cast<const void *>(at), 1); }

void count(Warp &warp) {
    for (size_t place : warp.executed) {
        Executions &e = warp.of[place];
        for (const Request &r : e.requests) {
            const bool shared = is_shared(r.at[__builtin_ctz(r.lanes)]);
            Requests &to = shared ? kernel->instructions[place].shared : kernel->instructions[place].global;
            to.count++;
            to.partial += r.lanes != 0xffffffffu;
            shared ? count_shared(r, to) : count_global(r, to);
        }
        e.requests.clear();
        std::fill(e.times, e.times + 32, 0);
    }
    warp.executed.clear();
}

// piece tells apart what one instruction does: words of a struct, the halves of cp.async.
size_t place_of(uintptr_t instruction, uint64_t piece) {
    const std::vector<Frame> &frames = calls[static_cast<size_t>(machine->current->number)];
    const Frame top = frames.empty() ? Frame{0, 0} : frames.back();
    auto [found, is_new] = kernel->places.try_emplace(mix(mix(top.path, instruction), piece), kernel->instructions.size());
    if (is_new) kernel->instructions.push_back({instruction, top.caller, {}, {}});
    return found->second;
}

void note(uintptr_t instruction, uintptr_t at, size_t bytes, uint64_t piece) {
    Warp &warp = warps[static_cast<size_t>(machine->current->warp)];
    const size_t place = place_of(instruction, piece);
    if (place >= warp.of.size()) warp.of.resize(place + 1);
    Executions &e = warp.of[place];
    const int lane = machine->current->indices.lane;
    const uint32_t n = e.times[lane]++;
    if (e.requests.empty()) warp.executed.push_back(place);
    if (n >= e.requests.size()) e.requests.emplace_back();
    Request &r = e.requests[n];
    r.lanes |= 1u << lane;
    r.bytes = std::max(r.bytes, static_cast<uint8_t>(bytes));
    r.at[lane] = at;
}

void accessed(const void *instruction, const void *at, size_t bytes) {
    if (busy || machine == nullptr || machine->current == nullptr) return;
    const Busy here;
    const auto address = reinterpret_cast<uintptr_t>(at), by = reinterpret_cast<uintptr_t>(instruction);
    const bool shared = is_shared(address);
    if (bytes == 0 || (!shared && !on_device(address))) return;
    if (bytes <= 16 && (bytes & (bytes - 1)) == 0) return note(by, address, bytes, shared);
    for (size_t i = 0; i < bytes; i += 4) note(by, address + i, std::min<size_t>(4, bytes - i), 4 + 2 * i + shared);
}

} // namespace

void access_case(const std::string &name) { case_name = name; }

AccessCounts access_take() {
    AccessCounts sum{};
    for (const Kernel &k : kernels)
        for (const Instruction &i : k.instructions) {
            sum.wavefronts += i.shared.did, sum.ideal_wavefronts += i.shared.ideal;
            sum.sectors += i.global.did, sum.ideal_sectors += i.global.ideal;
        }
    kernels.clear();
    return sum;
}

void access_launch(const Launch &launch) {
    const Busy here;
    const auto address = reinterpret_cast<uintptr_t>(launch.kernel);
    pages.assign(1 << 16, {});
    auto same = [&](const Kernel &k) { return k.address == address && k.of == case_name; };
    auto found = std::find_if(kernels.begin(), kernels.end(), same);
    if (found == kernels.end()) {
        kernels.emplace_back();
        found = kernels.end() - 1;
        found->of = case_name, found->address = address;
    }
    kernel = &*found;
    warps.clear(); // what was executed is numbered by kernel
}

void access_block(size_t threads) {
    const Busy here;
    kernel->blocks++;
    warps.resize((threads + 31) / 32);
    calls.resize(threads);
    for (auto &frames : calls) frames.clear();
}

void access_converged(int warp) {
    const Busy here;
    count(warps[static_cast<size_t>(warp)]);
}

void access_converged() {
    const Busy here;
    for (Warp &warp : warps) count(warp);
}

void access_note(const void *instruction, const void *at, size_t bytes) { accessed(instruction, at, bytes); }

void access_box(const void *instruction, const char *from, size_t bytes, size_t rows, size_t row_bytes, size_t shared_bytes) {
    const Busy here;
    Instruction &i = kernel->instructions[place_of(reinterpret_cast<uintptr_t>(instruction), 0)];
    i.global.count++, i.shared.count++;
    for (size_t row = 0; row < rows && bytes > 0; row++) {
        const auto at = reinterpret_cast<uintptr_t>(from) + row * row_bytes;
        i.global.did += (at + bytes - 1) / 32 - at / 32 + 1;
    }
    i.global.ideal += (bytes * rows + 31) / 32;
    i.shared.did += shared_bytes / 128;
    i.shared.ideal += shared_bytes / 128;
}

// ---------------------------------------------------------------- the table

namespace {

// Where in the source an address is: the function that the linker knows, and
// places from the innermost inlined function outwards.
struct Source {
    std::string function, places;
};

std::map<uintptr_t, Source> sources_of(const std::vector<uintptr_t> &addresses) {
    char file[] = "/tmp/lathe-access-XXXXXX", program[4096] = {};
    const int fd = mkstemp(file);
    if (fd < 0 || readlink("/proc/self/exe", program, sizeof program - 1) < 0) return {};
    FILE *list = fdopen(fd, "w");
    for (uintptr_t a : addresses) fprintf(list, "0x%zx\n", static_cast<size_t>(a));
    fclose(list);
    std::map<uintptr_t, Source> sources;
    FILE *from = popen(("addr2line -aCfi -e '" + std::string(program) + "' <" + file).c_str(), "r");
    Source *source = nullptr;
    char line[8192];
    for (bool place = false; from != nullptr && fgets(line, sizeof line, from) != nullptr;) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '0' && line[1] == 'x') {
            source = &sources[strtoull(line, nullptr, 16)];
            place = false;
        } else if (source != nullptr && !place) {
            source->function = line;
            place = true;
        } else if (source != nullptr) {
            const char *slash = strrchr(line, '/');
            std::string at = slash != nullptr ? slash + 1 : line;
            source->places += (source->places.empty() ? "" : " < ") + at.substr(0, at.find(' '));
            place = false;
        }
    }
    if (from != nullptr) pclose(from);
    unlink(file);
    return sources;
}

// A kernel's name without namespace, arguments and return type.
std::string short_name(std::string name) {
    for (const std::string part : {"lathe::", "(anonymous namespace)::"})
        for (size_t at; (at = name.find(part)) != std::string::npos;) name.erase(at, part.size());
    const size_t arguments = name.rfind(name.find(">(") != std::string::npos ? ">(" : "(");
    if (arguments != std::string::npos) name.erase(arguments + (name[arguments] == '>'));
    return name.rfind("void ", 0) == 0 ? name.substr(5) : name;
}

// The table shows instructions whose excess is at least this part of their kernel's ideal.
constexpr double worth_telling = 0.02;

void print_worst(FILE *to, const char *what, const std::map<std::string, Requests> &places, const Requests &all) {
    std::vector<std::pair<std::string, Requests>> worst(places.begin(), places.end());
    auto excess = [](const Requests &r) { return r.did - r.ideal; };
    std::sort(worst.begin(), worst.end(), [&](auto &a, auto &b) { return excess(a.second) > excess(b.second); });
    for (size_t i = 0; i < worst.size() && i < 4; i++) {
        const Requests &r = worst[i].second;
        if (static_cast<double>(excess(r)) <= worth_telling * static_cast<double>(all.ideal)) break;
        const double ratio = static_cast<double>(r.did) / static_cast<double>(r.ideal);
        fprintf(to, "      %s %.2f = %zu / %zu in %zu requests (%zu partial)  %s\n", what, ratio, static_cast<size_t>(r.did),
                static_cast<size_t>(r.ideal), static_cast<size_t>(r.count), static_cast<size_t>(r.partial), worst[i].first.c_str());
    }
}

} // namespace

void access_report(FILE *to) {
    std::vector<uintptr_t> addresses; // the instruction before the one returned to
    for (const Kernel &k : kernels) {
        addresses.push_back(k.address);
        for (const Instruction &i : k.instructions) addresses.insert(addresses.end(), {i.address - 1, i.caller - 1});
    }
    std::sort(addresses.begin(), addresses.end());
    addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
    std::map<uintptr_t, Source> sources = sources_of(addresses);
    fprintf(to, "%10s %23s %7s %23s %7s\n", "requests", "wavefronts / ideal", "shared", "sectors / ideal", "global");
    for (const Kernel &k : kernels) {
        const std::string own = sources[k.address].function;
        Requests shared, global;
        std::map<std::string, Requests> shared_at, global_at;
        for (const Instruction &i : k.instructions) {
            const Source &source = sources[i.address - 1];
            std::string at = source.places;
            if (source.function != own) at += " < " + sources[i.caller - 1].places;
            shared_at[at].add(i.shared), global_at[at].add(i.global);
            shared.add(i.shared), global.add(i.global);
        }
        auto ratio = [](const Requests &r) { return r.ideal > 0 ? static_cast<double>(r.did) / static_cast<double>(r.ideal) : 1; };
        fprintf(to, "%s: %s, %zu blocks\n", k.of.c_str(), short_name(own).c_str(), static_cast<size_t>(k.blocks));
        fprintf(to, "%10zu %11zu / %9zu %7.2f %11zu / %9zu %7.2f\n", static_cast<size_t>(shared.count + global.count),
                static_cast<size_t>(shared.did), static_cast<size_t>(shared.ideal), ratio(shared), static_cast<size_t>(global.did),
                static_cast<size_t>(global.ideal), ratio(global));
        print_worst(to, "shared", shared_at, shared);
        print_worst(to, "global", global_at, global);
    }
}

} // namespace lathe::host

// ---------------------------------------------------------------- what g++ calls

using namespace lathe::host;

#define HERE __builtin_return_address(0)
#define ACCESS(bytes)                                                             \
    void __tsan_read##bytes(void *at) { accessed(HERE, at, bytes); }              \
    void __tsan_write##bytes(void *at) { accessed(HERE, at, bytes); }             \
    void __tsan_unaligned_read##bytes(void *at) { accessed(HERE, at, bytes); }    \
    void __tsan_unaligned_write##bytes(void *at) { accessed(HERE, at, bytes); }

extern "C" {

ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
void __tsan_read_range(void *at, size_t bytes) { accessed(HERE, at, bytes); }
void __tsan_write_range(void *at, size_t bytes) { accessed(HERE, at, bytes); }
void __tsan_vptr_update(void *, void *) {}
void __tsan_vptr_read(void *) {}
void __tsan_init() {}

// A function that is called from several places has its instructions once for each of them.
void __tsan_func_entry(void *caller) {
    if (busy || machine == nullptr || machine->current == nullptr) return;
    const Busy here;
    std::vector<Frame> &frames = calls[static_cast<size_t>(machine->current->number)];
    const auto address = reinterpret_cast<uintptr_t>(caller);
    frames.push_back({mix(frames.empty() ? 0 : frames.back().path, address), address});
}
void __tsan_func_exit() {
    if (busy || machine == nullptr || machine->current == nullptr) return;
    const Busy here;
    std::vector<Frame> &frames = calls[static_cast<size_t>(machine->current->number)];
    if (!frames.empty()) frames.pop_back();
}

// Of the code that launches; kernels have atomic operations of their own (device_host.h).
uint8_t __tsan_atomic8_load(const volatile uint8_t *at, int) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }
uint32_t __tsan_atomic32_load(const volatile uint32_t *at, int) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }
void __tsan_atomic32_store(volatile uint32_t *at, uint32_t value, int) { __atomic_store_n(at, value, __ATOMIC_SEQ_CST); }

} // extern "C"
