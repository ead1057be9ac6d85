// fiber.cpp: switching stacks, by a dozen instructions on x86-64 and by
// ucontext elsewhere.
#include "fiber.h"

#include <stdint.h>
#include <sys/mman.h>

#include <new>

#if defined(LATHE_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace lathe::host {

static constexpr size_t stack_bytes = 256 * 1024, guard_bytes = 4096;

#if defined(__x86_64__)

// Saves what a function must keep (System V ABI) on the old stack and takes it
// from the new one.
extern "C" void lathe_switch_stack(void **save, void *load);
asm(R"(
.text
.local lathe_switch_stack
.type lathe_switch_stack, @function
lathe_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size lathe_switch_stack, .-lathe_switch_stack
)");

// Stacks begin at different lines of a page: the processor's cache has room for few
// lines that lie at the same place in their pages, and a warp goes from stack to stack.
static size_t stagger(const void *stack) { return reinterpret_cast<uintptr_t>(stack) / (guard_bytes + stack_bytes) % 32 * 128; }

static void prepare(Fiber *fiber, void (*entry)()) {
    auto *top = reinterpret_cast<uintptr_t *>(static_cast<char *>(fiber->stack) + guard_bytes + stack_bytes - stagger(fiber->stack));
    *--top = 0; // where entry would return to; the stack is now aligned as after a call
    *--top = reinterpret_cast<uintptr_t>(entry);
    for (int saved = 0; saved < 6; saved++) *--top = 0;
    fiber->pointer = top;
}

static void resume(Fiber *from, Fiber *to) { lathe_switch_stack(&from->pointer, to->pointer); }
static void release(Fiber *) {}

#else

static ucontext_t *context(Fiber *fiber) {
    if (fiber->pointer == nullptr) fiber->pointer = new ucontext_t;
    return static_cast<ucontext_t *>(fiber->pointer);
}

static void prepare(Fiber *fiber, void (*entry)()) {
    ucontext_t *c = context(fiber);
    getcontext(c);
    c->uc_stack.ss_sp = static_cast<char *>(fiber->stack) + guard_bytes;
    c->uc_stack.ss_size = stack_bytes;
    c->uc_link = nullptr;
    makecontext(c, entry, 0);
}

static void resume(Fiber *from, Fiber *to) { swapcontext(context(from), context(to)); }
static void release(Fiber *fiber) { delete static_cast<ucontext_t *>(fiber->pointer); }

#endif

Fiber *fiber_make(void (*entry)()) {
    void *stack = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) throw std::bad_alloc();
    mprotect(stack, guard_bytes, PROT_NONE);
    auto *fiber = new Fiber;
    fiber->stack = stack;
#if defined(LATHE_THREAD_SANITIZER)
    fiber->sanitizer = __tsan_create_fiber(0);
#endif
    prepare(fiber, entry);
    return fiber;
}

void fiber_restart(Fiber *fiber, void (*entry)()) { prepare(fiber, entry); }

void fiber_free(Fiber *fiber) {
    release(fiber);
#if defined(LATHE_THREAD_SANITIZER)
    __tsan_destroy_fiber(fiber->sanitizer);
#endif
    munmap(fiber->stack, guard_bytes + stack_bytes);
    delete fiber;
}

void fiber_switch(Fiber *from, Fiber *to) {
#if defined(LATHE_THREAD_SANITIZER)
    if (from->sanitizer == nullptr) from->sanitizer = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->sanitizer, __tsan_switch_to_fiber_no_sync);
#endif
    resume(from, to);
}

} // namespace lathe::host
