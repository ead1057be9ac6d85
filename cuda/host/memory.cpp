// memory.cpp: device and pinned memory, copies.
//
// A buffer of the device ends at a guard page, but for what its alignment
// takes; what lies between is checked after every launch.
#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "block.h"

namespace lathe::host {

static constexpr size_t page = 4096, alignment = 256;
static constexpr char untouched = 0x5a;

struct Buffer {
    size_t bytes;
    bool pinned;
    char *pages; // where its pages begin, after the guard page
    size_t page_bytes;
};

static std::mutex mutex;
static std::map<char *, Buffer> buffers; // by address
static size_t device_bytes, device_buffers, host_buffers;

static size_t device_capacity() {
    const char *value = getenv("LATHE_HOST_MEMORY");
    return value != nullptr && *value != 0 ? strtoull(value, nullptr, 10) : size_t(16) << 30;
}

static bool closes() {
    static const bool on = getenv("LATHE_HOST_CLOSED") != nullptr;
    return on;
}
static int at_work; // launches and copies that run

static void protect_all(int protection) {
    for (const auto &[at, buffer] : buffers)
        if (!buffer.pinned) mprotect(buffer.pages, buffer.page_bytes, protection);
}

OpenMemory::OpenMemory() {
    if (!closes()) return;
    std::lock_guard lock(mutex);
    if (at_work++ == 0) protect_all(PROT_READ | PROT_WRITE);
}

OpenMemory::~OpenMemory() {
    if (!closes()) return;
    std::lock_guard lock(mutex);
    if (--at_work == 0) protect_all(PROT_NONE);
}

// A copy under way, with what was read already.
struct Arriving {
    void *to;
    std::vector<char> bytes;
};
static std::vector<Arriving> arriving;

void copies_arrive() {
    std::vector<Arriving> all;
    {
        std::lock_guard lock(mutex);
        all.swap(arriving);
    }
    if (all.empty()) return;
    OpenMemory open;
    for (const Arriving &copy : all) memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
}

static cudaError_t allocate(void **pointer, size_t bytes, bool pinned) {
    if (records()) return cudaErrorStreamCaptureUnsupported;
    std::lock_guard lock(mutex);
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (!pinned && (bytes > device_capacity() || device_bytes > device_capacity() - bytes)) return cudaErrorMemoryAllocation;
    const size_t padded = (bytes + alignment - 1) / alignment * alignment, pages = (padded + page - 1) / page * page;
    void *region = mmap(nullptr, pages + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) return cudaErrorMemoryAllocation;
    char *first = static_cast<char *>(region) + page, *at = first + pages - padded;
    mprotect(first, pages, PROT_READ | PROT_WRITE);
    memset(first, untouched, at - first);
    fill_unwritten(at, bytes);
    memset(at + bytes, untouched, padded - bytes);
    if (!pinned && closes() && at_work == 0) mprotect(first, pages, PROT_NONE);
    buffers[at] = {bytes, pinned, first, pages};
    (pinned ? host_buffers : device_buffers)++;
    if (!pinned) device_bytes += bytes;
    *pointer = at;
    return cudaSuccess;
}

// Whether n bytes are all as they were when the buffer was made.
static bool all_untouched(const char *from, size_t n) {
    return n == 0 || (*from == untouched && memcmp(from, from + 1, n - 1) == 0);
}

static bool intact(const char *at, const Buffer &buffer) {
    const char *end = at + buffer.bytes;
    return all_untouched(buffer.pages, at - buffer.pages) && all_untouched(end, buffer.pages + buffer.page_bytes - end);
}

std::string memory_damage() {
    std::lock_guard lock(mutex);
    for (const auto &[at, buffer] : buffers)
        if (!intact(at, buffer)) return "the kernel wrote outside a buffer of " + std::to_string(buffer.bytes) + " bytes";
    return "";
}

static cudaError_t give_back(void *pointer, bool pinned) {
    if (records()) return cudaErrorStreamCaptureUnsupported;
    if (pointer == nullptr) return cudaSuccess;
    copies_arrive();
    std::lock_guard lock(mutex);
    auto found = buffers.find(static_cast<char *>(pointer));
    if (found == buffers.end() || found->second.pinned != pinned) return cudaErrorInvalidValue;
    const Buffer buffer = found->second;
    buffers.erase(found);
    (pinned ? host_buffers : device_buffers)--;
    if (!pinned) device_bytes -= buffer.bytes;
    munmap(buffer.pages - page, buffer.page_bytes + 2 * page);
    return cudaSuccess;
}

// The buffer that has a byte, or one that ends there if bytes is 0.
static const Buffer *find(const void *pointer, size_t bytes) {
    auto *at = const_cast<char *>(static_cast<const char *>(pointer));
    auto after = buffers.upper_bound(at);
    if (after == buffers.begin()) return nullptr;
    auto &[begin, buffer] = *--after;
    return at + bytes <= begin + buffer.bytes ? &buffer : nullptr;
}

Where whereabouts(const void *pointer, size_t bytes) {
    std::lock_guard lock(mutex);
    const Buffer *buffer = find(pointer, bytes);
    if (buffer != nullptr) return buffer->pinned ? Where::pinned : Where::device;
    return find(pointer, 0) != nullptr ? Where::beyond : Where::host;
}

Live live_memory() {
    std::lock_guard lock(mutex);
    return {device_buffers, device_bytes, host_buffers, 0, 0, 0};
}

// Whether a copy's pointers are of the kinds of memory that it names.
static cudaError_t check_copy(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    const Where target = whereabouts(to, bytes), source = whereabouts(from, bytes);
    if (target == Where::beyond || source == Where::beyond) return cudaErrorInvalidValue;
    if (kind == cudaMemcpyDefault) return cudaSuccess;
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (to_device != (target == Where::device) || from_device != (source == Where::device)) return cudaErrorInvalidMemcpyDirection;
    return cudaSuccess;
}

} // namespace lathe::host

using namespace lathe::host;

cudaError_t cudaMalloc(void **pointer, size_t bytes) { return returned(allocate(pointer, bytes, false)); }
cudaError_t cudaFree(void *pointer) { return returned(give_back(pointer, false)); }
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned) { return returned(allocate(pointer, bytes, true)); }
cudaError_t cudaFreeHost(void *pointer) { return returned(give_back(pointer, true)); }

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    *total_bytes = device_capacity();
    *free_bytes = *total_bytes - std::min(*total_bytes, live_memory().device_bytes + bytes_of_streams());
    return returned(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    if (bytes == 0) return returned(cudaSuccess);
    const cudaError_t code = check_copy(to, from, bytes, kind);
    if (code != cudaSuccess) return returned(code);
    return enqueue(
        stream,
        [=] {
            memmove(to, from, bytes);
            return cudaSuccess;
        },
        kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToHost);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    if (records()) return returned(cudaErrorStreamCaptureUnsupported);
    const bool staged = kind == cudaMemcpyHostToDevice && whereabouts(from, bytes) == Where::host;
    if (!staged || bytes == 0 || check_copy(to, from, bytes, kind) != cudaSuccess) {
        const cudaError_t copied = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
        return copied == cudaSuccess ? cudaStreamSynchronize(nullptr) : copied;
    }
    const cudaError_t code = enqueue(nullptr, [] { return cudaSuccess; });
    if (code != cudaSuccess) return code;
    const char *first = static_cast<const char *>(from);
    std::lock_guard lock(mutex);
    arriving.push_back({to, {first, first + bytes}});
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    if (bytes == 0) return returned(cudaSuccess);
    if (whereabouts(to, bytes) != Where::device) return returned(cudaErrorInvalidValue);
    return enqueue(stream, [=] {
        memset(to, value, bytes);
        return cudaSuccess;
    });
}

cudaError_t cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes); }
