// runtime.cpp: devices, errors, streams, events, graphs and launches.
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "block.h"
#include "memory.h"

using namespace lathe::host;

// What a stream still has to do: a copy, or a wait for another stream.
struct Late {
    std::function<cudaError_t()> work; // none for a wait
    cudaStream_t other = nullptr;      // is waited for until it has done so much
    uint64_t until = 0;
};
struct LatheHostStream {
    bool waits = true; // for the default stream, as that does for it
    bool capturing = false;
    std::vector<std::function<cudaError_t()>> recorded;
    std::deque<Late> late;
    uint64_t given = 0, finished = 0; // entries of late, from the first on
};
struct LatheHostEvent {
    std::chrono::steady_clock::time_point time;
    bool recorded = false;
    cudaStream_t stream = nullptr; // of the last record, which was so many of its entries
    uint64_t until = 0;
};
struct LatheHostGraph {
    std::vector<std::function<cudaError_t()>> work;
};
struct LatheHostGraphExec {
    std::vector<std::function<cudaError_t()>> work;
};

namespace lathe::host {

static std::atomic<size_t> streams, events, graphs;
static std::atomic<bool> broken; // by a kernel's error
static std::atomic<bool> silent;
static thread_local cudaError_t last_error = cudaSuccess;

cudaError_t returned(cudaError_t code) {
    if (broken) code = cudaErrorLaunchFailure;
    if (code != cudaSuccess) last_error = code;
    return code;
}

static LatheHostStream default_stream;
static LatheHostStream *resolve(cudaStream_t stream) { return stream == nullptr ? &default_stream : stream; }

// Streams that the calling thread records; while there are any, what is unsafe then fails.
static thread_local int recordings;
bool records() { return recordings > 0; }

// Does what a stream has to do, until so many of its entries are done.
static cudaError_t catch_up(LatheHostStream *stream, uint64_t until) {
    while (stream->finished < until) {
        Late next = std::move(stream->late.front());
        stream->late.pop_front();
        stream->finished++;
        cudaError_t code = cudaSuccess;
        if (next.work) {
            OpenMemory open;
            code = next.work();
        } else {
            code = catch_up(next.other, next.until);
        }
        if (code != cudaSuccess) return code;
    }
    return cudaSuccess;
}

static cudaError_t postpone(LatheHostStream *to, Late entry) {
    to->late.push_back(std::move(entry));
    to->given++;
    return returned(cudaSuccess);
}

cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work, bool late) {
    if (broken) return returned(cudaErrorLaunchFailure);
    LatheHostStream *to = resolve(stream);
    if (to->capturing) {
        to->recorded.push_back(std::move(work));
        return returned(cudaSuccess);
    }
    if (to->waits) copies_arrive();
    if (late) return postpone(to, {std::move(work)});
    if (const cudaError_t code = catch_up(to, to->given); code != cudaSuccess) return returned(code);
    OpenMemory open;
    return returned(work());
}

static cudaError_t fail(const char *kernel, const std::string &what) {
    if (!silent) fprintf(stderr, "kernel %s: %s\n", kernel, what.c_str());
    broken = true;
    return returned(cudaErrorLaunchFailure);
}

// LATHE_HOST_FAIL is a part of the names of kernels that fail, as any may on a
// GPU; none if it is empty.
static bool has_to_fail(const char *kernel) {
    const char *part = getenv("LATHE_HOST_FAIL");
    return part != nullptr && *part != 0 && strstr(kernel, part) != nullptr;
}

bool reachable(const char *kernel, const void *pointer) {
    if (pointer == nullptr || whereabouts(pointer, 0) != Where::host) return true;
    fail(kernel, "an argument points to memory that is not the device's");
    return false;
}

// Machines that are not in use: making one maps its memory.
static std::mutex machines_mutex;
static std::vector<std::unique_ptr<Machine>> idle_machines;

static cudaError_t execute(const Launch &launch) {
    if (has_to_fail(launch.name)) {
        broken = true;
        return returned(cudaErrorLaunchFailure);
    }
    std::unique_ptr<Machine> own;
    {
        std::lock_guard lock(machines_mutex);
        if (!idle_machines.empty()) {
            own = std::move(idle_machines.back());
            idle_machines.pop_back();
        }
    }
    if (own == nullptr) own = std::make_unique<Machine>();
    own->run(launch);
    std::string error = own->error.empty() ? memory_damage() : own->error;
    {
        std::lock_guard lock(machines_mutex);
        idle_machines.push_back(std::move(own));
    }
    return error.empty() ? cudaSuccess : fail(launch.name, error);
}

static std::mutex limits_mutex;
static std::map<const void *, size_t> dynamic_limits; // of kernels that asked for more than 48 KiB

cudaError_t submit(Launch launch, cudaStream_t stream) {
    const dim3 &g = launch.grid, &b = launch.block;
    size_t limit = 48 * 1024;
    {
        std::lock_guard lock(limits_mutex);
        auto found = dynamic_limits.find(launch.kernel);
        if (found != dynamic_limits.end()) limit = found->second;
    }
    const bool valid = g.x > 0 && g.y > 0 && g.z > 0 && g.x <= 0x7fffffff && g.y <= 65535 && g.z <= 65535 && b.x > 0 && b.y > 0 && b.z > 0 &&
                       b.x <= 1024 && b.y <= 1024 && b.z <= 64 && b.x * b.y * b.z <= 1024 && launch.shared_bytes <= limit;
    if (!valid) return returned(cudaErrorInvalidConfiguration);
    // CUDA may want a little for a launch, and has none where others have taken it.
    size_t free_bytes = 0, all_bytes = 0;
    cudaMemGetInfo(&free_bytes, &all_bytes);
    if (free_bytes == 0) return returned(cudaErrorMemoryAllocation);
    return enqueue(stream, [launch = std::move(launch)] { return execute(launch); });
}

size_t bytes_of_streams() { return streams * (size_t(2) << 20); }

Live live() {
    Live all = live_memory();
    all.streams = streams, all.events = events, all.graphs = graphs;
    return all;
}

void reset() {
    broken = false;
    last_error = cudaSuccess;
}

void quiet(bool on) { silent = on; }

} // namespace lathe::host

// ---------------------------------------------------------------- errors and devices

const char *cudaGetErrorName(cudaError_t code) {
    switch (code) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevicePointer: return "cudaErrorInvalidDevicePointer";
    case cudaErrorInvalidMemcpyDirection: return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorStubLibrary: return "cudaErrorStubLibrary";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorDevicesUnavailable: return "cudaErrorDevicesUnavailable";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorNoKernelImageForDevice: return "cudaErrorNoKernelImageForDevice";
    case cudaErrorUnsupportedPtxVersion: return "cudaErrorUnsupportedPtxVersion";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    case cudaErrorSystemNotReady: return "cudaErrorSystemNotReady";
    case cudaErrorSystemDriverMismatch: return "cudaErrorSystemDriverMismatch";
    case cudaErrorCompatNotSupportedOnDevice: return "cudaErrorCompatNotSupportedOnDevice";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorInitializationError: return "cudaErrorInitializationError";
    case cudaErrorECCUncorrectable: return "cudaErrorECCUncorrectable";
    case cudaErrorSharedObjectInitFailed: return "cudaErrorSharedObjectInitFailed";
    case cudaErrorOperatingSystem: return "cudaErrorOperatingSystem";
    case cudaErrorNotPermitted: return "cudaErrorNotPermitted";
    case cudaErrorMpsConnectionFailed: return "cudaErrorMpsConnectionFailed";
    case cudaErrorMpsRpcFailure: return "cudaErrorMpsRpcFailure";
    case cudaErrorMpsServerNotReady: return "cudaErrorMpsServerNotReady";
    case cudaErrorMpsMaxClientsReached: return "cudaErrorMpsMaxClientsReached";
    case cudaErrorMpsMaxConnectionsReached: return "cudaErrorMpsMaxConnectionsReached";
    case cudaErrorUnknown: return "cudaErrorUnknown";
    }
    return "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t code) { return cudaGetErrorName(code); }
cudaError_t cudaPeekAtLastError() { return broken ? cudaErrorLaunchFailure : last_error; }
cudaError_t cudaGetLastError() {
    cudaError_t code = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return code;
}

cudaError_t cudaGetDeviceCount(int *count) {
    const char *value = getenv("LATHE_HOST_DEVICES");
    *count = 0;
    if (value != nullptr && strcmp(value, "none") == 0) return returned(cudaErrorInsufficientDriver);
    if (value != nullptr && strcmp(value, "0") == 0) return returned(cudaErrorNoDevice);
    if (value != nullptr && *value != 0) return returned(static_cast<cudaError_t>(atoi(value)));
    *count = 1;
    return returned(cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
    int count;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess) return code;
    return returned(device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return returned(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    cudaError_t code = cudaSetDevice(device);
    if (code != cudaSuccess) return code;
    size_t unused;
    *properties = {};
    snprintf(properties->name, sizeof properties->name, "CPU (kernels emulated)");
    cudaMemGetInfo(&unused, &properties->totalGlobalMem);
    properties->sharedMemPerBlock = 48 * 1024;
    properties->sharedMemPerBlockOptin = 227 * 1024;
    properties->sharedMemPerMultiprocessor = 228 * 1024;
    properties->multiProcessorCount = 4;
    properties->major = 9;
    properties->maxThreadsPerBlock = 1024;
    properties->warpSize = 32;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp properties;
    cudaError_t code = cudaGetDeviceProperties(&properties, device);
    if (code != cudaSuccess) return code;
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(properties.sharedMemPerBlockOptin); return cudaSuccess;
    }
    return returned(cudaErrorInvalidValue);
}

// The versions that CUDA 11.8 and its first driver report.
cudaError_t cudaDriverGetVersion(int *version) {
    const char *value = getenv("LATHE_HOST_DEVICES");
    *version = value != nullptr && strcmp(value, "none") == 0 ? 0 : 11080;
    return returned(cudaSuccess);
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = 11080;
    return returned(cudaSuccess);
}
cudaError_t cudaDeviceSynchronize() {
    if (records()) return returned(cudaErrorStreamCaptureUnsupported);
    copies_arrive();
    return returned(catch_up(&default_stream, default_stream.given));
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > 227 * 1024) return returned(cudaErrorInvalidValue);
    std::lock_guard lock(limits_mutex);
    dynamic_limits[kernel] = static_cast<size_t>(value);
    return returned(cudaSuccess);
}

// ---------------------------------------------------------------- streams, events, graphs

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    *stream = new LatheHostStream;
    (*stream)->waits = flags != cudaStreamNonBlocking;
    streams++;
    return returned(cudaSuccess);
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (stream == nullptr) return returned(cudaErrorInvalidResourceHandle);
    const cudaError_t code = catch_up(stream, stream->given);
    delete stream;
    streams--;
    return returned(code);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (resolve(stream)->waits) copies_arrive();
    if (resolve(stream)->capturing) return returned(cudaErrorStreamCaptureUnsupported);
    return returned(catch_up(resolve(stream), resolve(stream)->given));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    if (broken) return returned(cudaErrorLaunchFailure);
    if (event->stream == nullptr) return returned(cudaSuccess);
    return postpone(resolve(stream), {nullptr, event->stream, event->until});
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    if (stream == nullptr || stream->capturing) return returned(cudaErrorStreamCaptureUnsupported);
    stream->capturing = true;
    recordings++;
    return returned(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    if (stream == nullptr || !stream->capturing) return returned(cudaErrorStreamCaptureUnsupported);
    stream->capturing = false;
    recordings--;
    *graph = new LatheHostGraph{std::move(stream->recorded)};
    stream->recorded.clear();
    graphs++;
    return returned(cudaSuccess);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    *status = resolve(stream)->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return returned(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    *event = new LatheHostEvent;
    events++;
    return returned(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (event == nullptr) return returned(cudaErrorInvalidResourceHandle);
    delete event;
    events--;
    return returned(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const cudaError_t code = enqueue(
        stream,
        [event] {
            event->time = std::chrono::steady_clock::now();
            event->recorded = true;
            return cudaSuccess;
        },
        true);
    event->stream = resolve(stream);
    event->until = event->stream->given;
    return code;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return returned(event->stream ? catch_up(event->stream, event->until) : cudaSuccess); }
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    if (!from->recorded || !to->recorded) return returned(cudaErrorInvalidResourceHandle);
    *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
    return returned(cudaSuccess);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long) {
    *executable = new LatheHostGraphExec{graph->work};
    graphs++;
    return returned(cudaSuccess);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    for (const auto &work : executable->work) {
        cudaError_t code = enqueue(stream, work);
        if (code != cudaSuccess) return code;
    }
    return returned(cudaSuccess);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    graphs--;
    return returned(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    delete executable;
    graphs--;
    return returned(cudaSuccess);
}
