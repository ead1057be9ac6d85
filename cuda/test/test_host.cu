// test_host.cu: the emulated runtime finds the mistakes that it is there for.
#ifdef LATHE_HOST

#include <cstdlib>
#include <functional>

#include "../mma.cuh"
#include "harness.h"

namespace lathe::test {

#ifndef LATHE_THREAD_SANITIZER // which would rightly stop at some of these
static __global__ void divergent_barrier_kernel(int *) {
    if (threadIdx.x < 16) __syncthreads();
    else __syncthreads();
}
static __global__ void early_return_kernel(int *) {
    if (threadIdx.x == 40) return;
    __syncthreads();
}
static __global__ void missing_lane_kernel(int *) {
    if (threadIdx.x != 3) __syncwarp();
}
static __global__ void foreign_lane_kernel(int *) { __shfl_sync(0xfffffffeu, 1, 0); }
static __global__ void other_function_kernel(int *out) {
    if (threadIdx.x % 2) *out = __shfl_xor_sync(0xffffffffu, 1, 1);
    else *out = __any_sync(0xffffffffu, 1);
}
static __global__ void excluded_source_kernel(int *out) {
    if (threadIdx.x > 0) *out = __shfl_sync(0xfffffffeu, 1, 0);
}
static __global__ void beside_buffer_kernel(int *out) { out[5] = 1; }
static __global__ void before_buffer_kernel(int *out) { out[-1] = 1; }
static __global__ void beside_shared_kernel(int *) {
    SHARED(int, small, [5]);
    volatile int *beyond = small;
    beyond[5 + threadIdx.x / 31] = 1;
}
static __global__ void beside_dynamic_kernel(int *) {
    DYNAMIC_SHARED(char, bytes);
    volatile char *beyond = bytes;
    beyond[100] = 1;
}
static __global__ void misaligned_copy_kernel(int *out) {
    SHARED(int, words, [8]);
    cp_async_16(words + 1, out, 16);
}
static __global__ void shared_too_large_kernel(int *) {
    SHARED(float, large, [49 * 1024 / 4]);
    large[0] = 0;
}

TEST(host_finds_mistakes) {
    struct Mistake {
        const char *name;
        std::function<void(int *)> run;
    };
#define MISTAKE(kernel, shared) {#kernel, [&t](int *out) { LAUNCH(kernel, 2, 64, shared, t.stream, out); }}
    const Mistake mistakes[] = {
        MISTAKE(divergent_barrier_kernel, 0), MISTAKE(early_return_kernel, 0),    MISTAKE(missing_lane_kernel, 0),
        MISTAKE(foreign_lane_kernel, 0),      MISTAKE(other_function_kernel, 0),  MISTAKE(excluded_source_kernel, 0),
        MISTAKE(beside_buffer_kernel, 0),     MISTAKE(before_buffer_kernel, 0),   MISTAKE(beside_shared_kernel, 0),
        MISTAKE(beside_dynamic_kernel, 100),  MISTAKE(misaligned_copy_kernel, 0), MISTAKE(shared_too_large_kernel, 0),
    };
#undef MISTAKE
    for (const Mistake &m : mistakes) {
        t.describe("%s", m.name);
        Buffer<int> out(5);
        cudaError_t code = cudaSuccess;
        host::quiet(true);
        try {
            m.run(out.get());
        } catch (const CudaError &e) {
            code = e.code;
        }
        t.expect(code == cudaErrorLaunchFailure, "is not found");
        t.expect(cudaStreamSynchronize(t.stream) == cudaErrorLaunchFailure, "leaves the device in order");
        host::quiet(false);
        host::reset();
    }
}

#endif

static __global__ void nothing_kernel(const int *) {}

TEST(host_checks_arguments) {
    auto fails = [&](cudaError_t want, const char *what, const std::function<void()> &run) {
        cudaError_t code = cudaSuccess;
        host::quiet(true);
        try {
            run();
        } catch (const CudaError &e) {
            code = e.code;
        }
        host::quiet(false);
        host::reset();
        t.describe("%s", what);
        if (code != want) t.fail("%s, not %s", cudaGetErrorName(code), cudaGetErrorName(want));
    };
    Buffer<int> on_device(8);
    std::vector<int> on_host(8);
    const int *here = on_host.data();
    fails(cudaErrorLaunchFailure, "a kernel is given the host's memory", [&] { LAUNCH(nothing_kernel, 1, 32, 0, t.stream, here); });
    fails(cudaErrorInvalidConfiguration, "a block is too large", [&] { LAUNCH(nothing_kernel, 1, 1056, 0, t.stream, on_device); });
    fails(cudaErrorInvalidConfiguration, "a grid is too high", [&] { LAUNCH(nothing_kernel, dim3(1, 65536), 32, 0, t.stream, on_device); });
    fails(cudaErrorInvalidConfiguration, "a grid is too long", [&] { LAUNCH(nothing_kernel, int64_t(1) << 33, 32, 0, t.stream, on_device); });
    fails(cudaErrorInvalidValue, "too much shared memory", [&] { LAUNCH(nothing_kernel, 1, 32, 228 * 1024, t.stream, on_device); });
    fails(cudaErrorInvalidMemcpyDirection, "a copy goes the wrong way",
          [&] { CHECK(cudaMemcpy(on_host.data(), on_device.get(), 4, cudaMemcpyHostToDevice)); });
    fails(cudaErrorInvalidValue, "a copy is too long", [&] { CHECK(cudaMemcpy(on_device.get() + 4, here, 20, cudaMemcpyHostToDevice)); });
    fails(cudaErrorInvalidValue, "memset is too long", [&] { CHECK(cudaMemset(on_device.get() + 4, 0, 20)); });
    fails(cudaErrorInvalidValue, "freed twice", [&] {
        int *own;
        CHECK(cudaMalloc(&own, 4));
        CHECK(cudaFree(own));
        CHECK(cudaFree(own));
    });
    fails(cudaErrorMemoryAllocation, "more memory than there is", [&] {
        int *own;
        CHECK(cudaMalloc(&own, size_t(1) << 40));
    });
    fails(cudaErrorStreamCaptureUnsupported, "allocating while capturing", [&] {
        CHECK(cudaStreamBeginCapture(t.stream, cudaStreamCaptureModeThreadLocal));
        int *own;
        cudaError_t code = cudaMalloc(&own, 4);
        cudaGraph_t graph;
        CHECK(cudaStreamEndCapture(t.stream, &graph));
        CHECK(cudaGraphDestroy(graph));
        CHECK(code);
    });
    fails(cudaErrorStreamCaptureUnsupported, "waiting while capturing", [&] {
        CHECK(cudaStreamBeginCapture(t.stream, cudaStreamCaptureModeGlobal));
        cudaError_t code = cudaStreamSynchronize(t.stream);
        cudaGraph_t graph;
        CHECK(cudaStreamEndCapture(t.stream, &graph));
        CHECK(cudaGraphDestroy(graph));
        CHECK(code);
    });
}

// Reads shared memory that nothing was written to, or before a copy was waited for.
static __global__ void unwritten_kernel(float *out, const float *in) {
    SHARED(float, scratch, [64]);
    SHARED(float, target, [128]);
    const int i = static_cast<int>(threadIdx.x);
    if (i < 16) {
        cp_async_16(target + 4 * i, in + 4 * i, 16);
        cp_async_commit();
    }
    __syncthreads();
    out[i] = scratch[i];
    out[64 + i] = target[i];
    __syncthreads();
    if (i < 16) cp_async_wait<0>();
    __syncthreads();
    out[128 + i] = target[i];
}

TEST(host_shows_what_was_not_written) {
    Random random(23);
    const std::vector<float> x = random.values<float>(64);
    Buffer<float> out(256), in(x);
    LAUNCH(unwritten_kernel, 1, 64, 0, t.stream, out, in);
    std::vector<double> want(128, NAN);
    for (float v : x) want.push_back(v);
    want.resize(256, NAN);
    t.close("out", out.read(), want, {0, 0});
    Buffer<int32_t> numbers(1);
    t.expect(numbers.read()[0] == 0x7fffffff, "an integer that was not written is a large one");
}

#ifndef LATHE_THREAD_SANITIZER // which would rightly stop here
// A sum of neighbours through shared memory, with and without the barrier that it needs.
static __global__ void neighbours_kernel(float *out, const float *in, bool barrier) {
    SHARED(float, values, [64]);
    const int i = static_cast<int>(threadIdx.x);
    values[i] = in[i];
    if (barrier) __syncthreads();
    out[i] = values[i] + values[(i + 1) % 64] + values[(i + 63) % 64];
}

TEST(host_orders_show_missing_barriers) {
    Random random(24);
    Buffer<float> in(random.values<float>(64)), right(64), wrong(64);
    LAUNCH(neighbours_kernel, 1, 64, 0, t.stream, right, in, true);
    const char *order = getenv("LATHE_HOST_ORDER");
    const std::string own = order == nullptr ? "" : order;
    for (const char *other : {"ascending", "descending", "5"}) {
        setenv("LATHE_HOST_ORDER", other, 1);
        LAUNCH(neighbours_kernel, 1, 64, 0, t.stream, wrong, in, false);
        const std::vector<float> got = wrong.read(), want = right.read();
        t.expect(memcmp(got.data(), want.data(), 64 * sizeof(float)) != 0, "a missing barrier changes nothing");
    }
    setenv("LATHE_HOST_ORDER", own.c_str(), 1);
}

#endif

static __global__ void increment_kernel(int *x) { x[threadIdx.x]++; }

TEST(host_graphs_run_when_they_are_launched) {
    Buffer<int> x(std::vector<int>(32, 0));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(t.stream, cudaStreamCaptureModeGlobal));
    LAUNCH(increment_kernel, 1, 32, 0, t.stream, x);
    LAUNCH(increment_kernel, 1, 32, 0, t.stream, x);
    CHECK(cudaStreamEndCapture(t.stream, &graph));
    t.equal("captured", x.read(), std::vector<int>(32, 0));
    CHECK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(executable, t.stream));
    t.equal("launched", x.read(), std::vector<int>(32, 6));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
}

// What cudaMemcpy has taken from the host's pageable memory arrives for streams that
// wait for the default one, and for others when that was waited for.
TEST(host_copies_are_under_way) {
    cudaStream_t alone;
    CHECK(cudaStreamCreateWithFlags(&alone, cudaStreamNonBlocking));
    std::vector<int> ones(32, 1);
    for (const bool wait : {false, true}) {
        Buffer<int> x(std::vector<int>(32, 5));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(x, ones.data(), 32 * sizeof(int), cudaMemcpyHostToDevice));
        if (wait) CHECK(cudaDeviceSynchronize());
        Buffer<int> seen(32);
        CHECK(cudaMemcpyAsync(seen, x.get(), 32 * sizeof(int), cudaMemcpyDeviceToDevice, alone));
        t.equal("in a stream that does not wait", seen.read(), std::vector<int>(32, wait ? 1 : 5));
        LAUNCH(increment_kernel, 1, 32, 0, t.stream, x);
        t.equal("in one that waits", x.read(), std::vector<int>(32, 2));
    }
    CHECK(cudaStreamDestroy(alone));
}

// Every warp function, by a value that says who it came from.
static __global__ void warp_kernel(int *out) {
    const int lane = lane_index();
    int *row = out + threadIdx.x;
    row[0 * 64] = __shfl_sync(all_lanes, lane, 5);
    row[1 * 64] = __shfl_xor_sync(all_lanes, lane, 3);
    row[2 * 64] = __shfl_up_sync(all_lanes, lane, 2);
    row[3 * 64] = __shfl_down_sync(all_lanes, lane, 2, 8);
    row[4 * 64] = static_cast<int>(__ballot_sync(all_lanes, lane % 3 == 0));
    row[5 * 64] = __any_sync(all_lanes, lane == 9);
    row[6 * 64] = __all_sync(all_lanes, lane < 31);
    row[7 * 64] = static_cast<int>(__reduce_add_sync(all_lanes, static_cast<unsigned>(lane)));
    row[8 * 64] = __reduce_min_sync(all_lanes, lane - 7);
    row[9 * 64] = __syncthreads_count(threadIdx.x < 40);
    // Two halves of a warp at different functions.
    row[10 * 64] = lane < 16 ? __shfl_sync(0x0000ffffu, lane, 3) : static_cast<int>(__ballot_sync(0xffff0000u, lane == 20));
}

// A copy between page-locked memory and the device is made as late as CUDA allows: its own
// stream's work finds it made, and others that wait for it; who does not, finds what was there.
TEST(host_copies_are_late) {
    cudaStream_t copies, other;
    cudaEvent_t made;
    for (cudaStream_t *s : {&copies, &other}) CHECK(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&made));
    int *pinned = nullptr, *device = nullptr;
    CHECK(cudaMallocHost(reinterpret_cast<void **>(&pinned), 2 * sizeof(int)));
    CHECK(cudaMalloc(reinterpret_cast<void **>(&device), 2 * sizeof(int)));
    CHECK(cudaMemset(device, 0, 2 * sizeof(int)));
    auto read = [&](int at, cudaStream_t by) { // what a stream finds on the device, copied there and then to the host
        CHECK(cudaMemcpyAsync(device + 1, device + at, sizeof(int), cudaMemcpyDeviceToDevice, by));
        CHECK(cudaMemcpyAsync(pinned + 1, device + 1, sizeof(int), cudaMemcpyDeviceToHost, by));
        const int before = pinned[1];
        CHECK(cudaStreamSynchronize(by));
        t.expect(by != other || before == -1, "a copy to the host has arrived before it was waited for");
        return pinned[1];
    };
    pinned[0] = 7, pinned[1] = -1;
    CHECK(cudaMemcpyAsync(device, pinned, sizeof(int), cudaMemcpyHostToDevice, copies));
    CHECK(cudaEventRecord(made, copies));
    t.expect(read(0, other) == 0, "a stream that does not wait for a copy has seen it");
    pinned[1] = -1;
    CHECK(cudaStreamWaitEvent(other, made, 0));
    t.expect(read(0, other) == 7, "a stream that waits for a copy has not seen it");
    pinned[0] = 8;
    CHECK(cudaMemcpyAsync(device, pinned, sizeof(int), cudaMemcpyHostToDevice, copies));
    t.expect(read(0, copies) == 8, "a stream has not seen its own copy");
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaEventDestroy(made));
    for (cudaStream_t s : {copies, other}) CHECK(cudaStreamDestroy(s));
}

TEST(host_warp_functions) {
    Buffer<int> out(11 * 64);
    LAUNCH(warp_kernel, 1, 64, 0, t.stream, out);
    std::vector<int> want;
    for (int kind = 0; kind < 11; kind++)
        for (int i = 0; i < 64; i++) {
            const int lane = i % 32;
            const int all[] = {5, lane ^ 3, lane < 2 ? lane : lane - 2, lane % 8 < 6 ? lane + 2 : lane, 0x49249249, 1, 0, 496, -7, 40,
                               lane < 16 ? 3 : 1 << 20};
            want.push_back(all[kind]);
        }
    t.equal("results", out.read(), want);
}

} // namespace lathe::test

#endif
