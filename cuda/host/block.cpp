// block.cpp: scheduling a block's threads, barriers and warp exchanges.
#include "block.h"

#include "access.h"

#include <stdlib.h>

#if defined(LATHE_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace lathe::host {

__thread Indices *indices = nullptr;
__thread Machine *machine = nullptr;

// A thread sanitizer knows a thread by its fiber; without one, a fiber takes
// thread after thread, so that kernels without barriers never switch.
#if defined(LATHE_THREAD_SANITIZER)
static constexpr bool fiber_per_thread = true;
void acquire(void *address) { __tsan_acquire(address); }
void release(void *address) { __tsan_release(address); }
#else
static constexpr bool fiber_per_thread = false;
void acquire(void *) {}
void release(void *) {}
#endif

std::string text(Site site) {
    const char *slash = strrchr(site.file, '/');
    return std::string(slash != nullptr ? slash + 1 : site.file) + ":" + std::to_string(site.line);
}

Order Order::from_environment() {
    Order order;
    const char *value = getenv("LATHE_HOST_ORDER");
    if (value == nullptr || *value == 0 || strcmp(value, "ascending") == 0) return order;
    if (strcmp(value, "descending") == 0) {
        order.kind_ = descending;
    } else {
        order.kind_ = shuffled;
        order.state_ = strtoull(value, nullptr, 10);
    }
    return order;
}

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
size_t Order::random(size_t n) {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % n;
}

Machine::~Machine() {
    for (Fiber *fiber : fibers_) fiber_free(fiber);
}

void Machine::run(const Launch &launch) {
    order_ = Order::from_environment();
    launch_ = &launch;
    error.clear();
    machine = this;
    access_launch(launch);
    std::vector<uint64_t> blocks(static_cast<uint64_t>(launch.grid.x) * launch.grid.y * launch.grid.z);
    for (size_t i = 0; i < blocks.size(); i++) blocks[i] = i;
    order_.arrange(blocks.data(), blocks.size());
    for (uint64_t b : blocks) {
        run_block({static_cast<uint32_t>(b % launch.grid.x), static_cast<uint32_t>(b / launch.grid.x % launch.grid.y),
                   static_cast<uint32_t>(b / launch.grid.x / launch.grid.y)});
        if (!error.empty()) break;
    }
    machine = nullptr;
    launch_ = nullptr;
}

void Machine::run_block(uint3 block) {
    const dim3 size = launch_->block;
    const uint32_t count = size.x * size.y * size.z;
    shared.prepare(launch_->shared_bytes);
    threads_.resize(count);
    count_ = static_cast<int>(count);
    unstarted_.resize(count);
    for (uint32_t n = 0; n < count; n++) {
        Thread &t = threads_[n];
        t.indices = {{n % size.x, n / size.x % size.y, n / size.x / size.y}, block, size, launch_->grid, static_cast<int>(n % 32)};
        t.number = static_cast<int>(n), t.warp = t.number / 32;
        t.state = Thread::unstarted;
        t.fiber = nullptr;
        t.groups.clear();
        t.open.clear();
        unstarted_[n] = &t;
    }
    order_.arrange(unstarted_.data(), count);
    std::reverse(unstarted_.begin(), unstarted_.end());
    warps_.resize((count + 31) / 32);
    for (auto &warp : warps_) warp.clear();
    ready_.clear();
    at_barrier_.clear();
    barriers_.clear();
    matrices_.assign(warps_.size(), {});
    warpgroups_.assign((warps_.size() + 3) / 4, {});
    idle_ = fibers_;
    finished_ = 0;
    access_block(count);

    release(&begun_);
    running_ = take_fiber();
    fiber_switch(&own_, running_);
    acquire(&ended_);
    access_converged();
    indices = nullptr;
    current = nullptr;
    if (error.empty() && finished_ < count_) error = stuck();
    if (error.empty()) error = shared.damage();
    if (error.empty()) error = unfinished();
    if (!error.empty())
        error += " (block " + std::to_string(block.x) + "," + std::to_string(block.y) + "," + std::to_string(block.z) + ")";
}

Fiber *Machine::take_fiber() {
    if (idle_.empty()) {
        fibers_.push_back(fiber_make(fiber_entry));
        return fibers_.back();
    }
    Fiber *fiber = idle_.back();
    idle_.pop_back();
    fiber_restart(fiber, fiber_entry);
    return fiber;
}

void Machine::fiber_entry() { machine->run_threads(); }

// What a fiber does: runs threads from start to end, until one that waited can
// go on in its own fiber.
void Machine::run_threads() {
    for (bool first = true;; first = false) {
        Thread *t = next();
        if (t == nullptr) leave();
        if (t->fiber != nullptr) {
            Fiber abandoned;
            if (!fiber_per_thread) idle_.push_back(running_);
            go_on(t, &abandoned);
        }
        if (fiber_per_thread && !first) {
            Fiber abandoned;
            unstarted_.push_back(t);
            running_ = take_fiber();
            fiber_switch(&abandoned, running_);
        }
        make_current(t);
        acquire(&begun_);
        launch_->thread();
        release(&ended_);
        t->state = Thread::done;
        finished_++;
    }
}

void Machine::make_current(Thread *thread) {
    current = thread;
    indices = &thread->indices;
    thread->state = Thread::running;
}

// Those that can go on come before those that have not begun: a warp goes from
// one exchange to the next while it is in the processor's caches.
Thread *Machine::next() {
    std::vector<Thread *> &from = ready_.empty() ? unstarted_ : ready_;
    if (from.empty()) return nullptr;
    Thread *thread = from.back();
    from.pop_back();
    return thread;
}

void Machine::go_on(Thread *thread, Fiber *from) {
    running_ = thread->fiber;
    thread->fiber = nullptr;
    make_current(thread);
    fiber_switch(from, running_);
}

void Machine::wait(Site site, Thread::State state) {
    current->site = site;
    current->state = state;
    current->fiber = running_;
    Fiber *from = running_;
    Thread *t = next();
    if (t == nullptr) {
        fiber_switch(from, &own_);
    } else if (t->fiber != nullptr) {
        go_on(t, from);
    } else {
        unstarted_.push_back(t); // for the new fiber
        running_ = take_fiber();
        fiber_switch(from, running_);
    }
}

// Back to run_block, for good: all threads have finished, or none can go on.
void Machine::leave() {
    Fiber abandoned;
    fiber_switch(&abandoned, &own_);
    __builtin_unreachable();
}

void Machine::wake(Thread **threads, size_t n) {
    order_.arrange(threads, n);
    for (size_t i = n; i-- > 0;) ready_.push_back(threads[i]);
}

void Machine::fail(Site site, const std::string &what) {
    const uint3 &t = current->indices.thread;
    error = text(site) + ": " + what + " (thread " + std::to_string(t.x) + "," + std::to_string(t.y) + "," + std::to_string(t.z) + ")";
    leave();
}

static bool same(Site a, Site b) { return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0); }

Votes Machine::barrier(Site site, bool predicate) {
    if (finished_ > 0) fail(site, "a barrier that not all threads of the block come to: some have left the kernel");
    if (at_barrier_.empty()) {
        barrier_site_ = site;
        votes_ = 0;
    } else if (!same(site, barrier_site_)) {
        fail(site, "the block's threads wait at different barriers, others at " + text(barrier_site_));
    }
    votes_ += predicate;
    release(&barrier_site_);
    if (static_cast<int>(at_barrier_.size()) + 1 < count_) {
        at_barrier_.push_back(current);
        wait(site, Thread::waiting_block);
    } else {
        access_converged();
        last_votes_ = votes_;
        wake(at_barrier_.data(), at_barrier_.size());
        at_barrier_.clear();
    }
    acquire(&barrier_site_);
    return {last_votes_, count_};
}

void Machine::exchange(Site site, uint32_t mask, void *arguments, Combine combine) {
    const int lane = current->indices.lane, lanes = std::min(32, count_ - current->warp * 32);
    if (!(mask >> lane & 1)) fail(site, "a warp function whose mask leaves out the calling lane");
    if (lanes < 32 && mask >> lanes != 0) fail(site, "a warp function whose mask has lanes that the block does not have");
    std::vector<Exchange> &all = warps_[current->warp];
    auto found = std::find_if(all.begin(), all.end(), [mask](const Exchange &e) { return e.mask == mask; });
    if (found == all.end()) {
        all.erase(std::remove_if(all.begin(), all.end(), [](const Exchange &e) { return e.arrived == 0; }), all.end());
        all.push_back({});
        all.back().mask = mask;
        found = all.end() - 1;
    }
    Exchange &e = *found;
    if (e.arrived == 0) {
        e.site = site;
        e.combine = combine;
    } else if (!same(site, e.site) || combine != e.combine) {
        fail(site, "lanes of one mask are at different warp functions, others at " + text(e.site));
    }
    e.arrived |= 1u << lane;
    e.arguments[lane] = arguments;
    void *sync = &warps_[current->warp];
    release(sync);
    if (e.arrived != mask) {
        wait(site, Thread::waiting_warp);
        acquire(sync);
        return;
    }
    acquire(sync);
    complete(e, site, lanes);
}

// Does the work of an exchange to which all lanes have come, and wakes them. Apart, so that
// the stacks of lanes that wait have little room between what they touch.
void __attribute__((noinline)) Machine::complete(Exchange &e, Site site, int lanes) {
    if (e.mask == 0xffffffffu >> (32 - lanes)) access_converged(current->warp);
    void *together[32];
    Thread *others[32], *first = &threads_[current->warp * 32];
    size_t n = 0;
    for (int i = 0; i < 32; i++) {
        together[i] = e.arguments[i];
        e.arguments[i] = nullptr;
        if ((e.mask >> i & 1) && first + i != current) others[n++] = first + i;
    }
    e.arrived = 0;
    if (e.combine != nullptr) e.combine(together, site);
    release(&warps_[current->warp]);
    wake(others, n);
}

// Says who waits for whom when none can go on.
std::string Machine::stuck() const {
    std::string all = "the block's threads wait for ever:";
    for (const Thread &t : threads_) {
        if (t.state != Thread::waiting_warp && t.state != Thread::waiting_block && t.state != Thread::waiting_phase) continue;
        const bool again = t.number > 0 && threads_[t.number - 1].state == t.state && same(threads_[t.number - 1].site, t.site);
        if (again) continue;
        const char *what = t.state == Thread::waiting_warp ? "lanes" : t.state == Thread::waiting_block ? "the block" : "a barrier's phase";
        all += " thread " + std::to_string(t.number) + " and on for " + what + " at " + text(t.site) + ";";
    }
    return all + " " + std::to_string(finished_) + " of " + std::to_string(count_) + " have left the kernel";
}

} // namespace lathe::host
