// block.h: the threads of a block as fibers, their barriers and exchanges, and
// their shared memory.
#pragma once

#include <stdint.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cuda_host.h"
#include "fiber.h"

namespace lathe::host {

// What memory holds that was never written: NaN as float, double and bfloat16,
// a very large number as an integer.
constexpr uint32_t unwritten = 0x7fffffff;
void fill_unwritten(void *from, size_t bytes);

std::string text(Site site);

// The order in which threads and blocks run, of LATHE_HOST_ORDER.
class Order {
  public:
    static Order from_environment();
    // Puts n things, which are in ascending order, in this order.
    template <class T>
    void arrange(T *things, size_t n) {
        if (kind_ == descending) std::reverse(things, things + n);
        if (kind_ != shuffled) return;
        for (size_t i = n; i > 1; i--) std::swap(things[i - 1], things[random(i)]);
    }

  private:
    size_t random(size_t n);
    enum { ascending, descending, shuffled } kind_ = ascending;
    uint64_t state_ = 0;
};

// 16 bytes on their way to shared memory, of which some are read.
struct Copy {
    void *to;
    const void *from;
    int bytes;
};

// Whose first line of the processor's cache has what a thread that runs is asked for.
struct alignas(64) Thread {
    enum State { unstarted, running, waiting_warp, waiting_block, waiting_phase, done };
    Indices indices;
    int number, warp;
    State state;
    Fiber *fiber; // while it waits
    Site site;    // where it waits
    // Copies of cp.async: groups made, oldest first, and those since.
    std::vector<std::vector<Copy>> groups;
    std::vector<Copy> open;
};

// A warp-wide function that some of a mask's lanes have come to.
struct Exchange {
    uint32_t mask = 0, arrived = 0;
    void *arguments[32] = {};
    Site site{};
    Combine combine = nullptr;
};

// A box on its way to shared memory.
struct BoxCopy {
    TensorMap map;
    uint32_t to; // shared address
    int32_t x, y;
};

// A product of a warpgroup as one of its warps issued it: d (64,columns) +=
// a (64,16) · b (16,columns). d[lane] are a lane's accumulators.
struct WarpProduct {
    uint64_t a, b;
    int columns;
    bool a_across, b_across;
    float *d[32];
    bool same(const WarpProduct &o) const {
        return a == o.a && b == o.b && columns == o.columns && a_across == o.a_across && b_across == o.b_across;
    }
};

// What of a warp's products is under way.
struct WarpMatrices {
    std::vector<std::vector<WarpProduct>> groups; // oldest first
    std::vector<WarpProduct> open;
    std::map<float *, std::vector<float>> held; // accumulators in use, by where they will be again
    bool fenced = false;
    size_t issued = 0;
};

// The shared memory of a block. Arrays lie apart, with bytes between them that
// must not change.
class SharedMemory {
  public:
    SharedMemory();
    ~SharedMemory();
    // Makes it as it is for a new block.
    void prepare(size_t dynamic_bytes);
    // The static array of a declaration; null if there is no room.
    void *declared(const void *declaration, size_t bytes);
    void *dynamic() const { return dynamic_; }
    bool has(const void *from, size_t bytes) const;
    // Addresses of dynamic shared memory as instructions have them, below 2¹⁸.
    uint32_t address(const void *shared) const { return static_cast<uint32_t>(static_cast<const char *>(shared) - dynamic_region_); }
    void *at(uint32_t address) const { return dynamic_region_ + address; }
    // What was written beside an array, or nothing.
    std::string damage() const;

  private:
    struct Array {
        const void *declaration;
        size_t offset, bytes;
    };
    std::vector<Array> arrays_;
    char *static_, *dynamic_region_, *dynamic_ = nullptr;
    size_t used_ = 0, dynamic_bytes_ = 0;
};

// Runs blocks, one after the other.
class Machine {
  public:
    Machine() = default;
    Machine(const Machine &) = delete;
    ~Machine();

    // Runs all blocks of a launch. If one fails, the rest is left out, and error
    // says why.
    void run(const Launch &launch);
    std::string error;

    // Called by the running thread of a block.
    Votes barrier(Site site, bool predicate);
    void exchange(Site site, uint32_t mask, void *arguments, Combine combine);
    [[noreturn]] void fail(Site site, const std::string &what);
    void barrier_init(const void *at, uint32_t arrivals);
    void barrier_arrive(const void *at, uint32_t bytes);
    void barrier_wait(const void *at, uint32_t parity);
    void copy_box(void *to, const TensorMap &map, const void *at, int32_t x, int32_t y);
    WarpMatrices &matrices(); // of the running warp
    void check_warpgroup(Site site, const WarpProduct &product);
    Thread *current = nullptr;
    SharedMemory shared;

  private:
    // A barrier in shared memory: what its phase still waits for.
    struct Phases {
        uint32_t expected = 0, pending = 0, phase = 0;
        int64_t bytes = 0;
        std::vector<BoxCopy> copies;
        std::vector<Thread *> waiting;
    };
    Phases &phases(Site site, const void *at);
    void end_phase(Phases &b, bool wanted);
    std::string unfinished() const;
    static void fiber_entry();
    void run_block(uint3 block);
    void run_threads();
    Thread *next();
    void make_current(Thread *thread);
    void wait(Site site, Thread::State state);
    void complete(Exchange &e, Site site, int lanes);
    void go_on(Thread *thread, Fiber *from);
    void wake(Thread **threads, size_t n);
    Fiber *take_fiber();
    [[noreturn]] void leave();
    std::string stuck() const;

    const Launch *launch_ = nullptr;
    Order order_;
    std::vector<Thread> threads_;
    int count_ = 0; // of them
    std::vector<Thread *> unstarted_, ready_; // taken from the back
    std::vector<Fiber *> fibers_, idle_;
    Fiber own_; // of the thread that launches
    Fiber *running_ = nullptr;
    std::vector<std::vector<Exchange>> warps_; // (warps, masks in use)
    std::vector<Thread *> at_barrier_;
    std::map<const void *, Phases> barriers_;
    std::vector<WarpMatrices> matrices_;                // (warps)
    std::vector<std::vector<WarpProduct>> warpgroups_;  // all that their warps have issued
    Site barrier_site_{};
    int votes_ = 0, last_votes_ = 0, finished_ = 0;
    char begun_ = 0, ended_ = 0; // what a thread sanitizer orders blocks by
};

// The machine whose block runs on this thread. (A thread_local would be asked
// for by way of a function wherever it is used.)
extern __thread Machine *machine __attribute__((tls_model("initial-exec")));

// What follows a call of acquire sees what preceded the calls of release with
// the same address: told to a thread sanitizer.
void acquire(void *address);
void release(void *address);

} // namespace lathe::host
