// engine.cu: the functions of engine.h. Each selects the device, calls what does
// the work (model.h) and turns whatever is thrown into a status and a text.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <new>

#include "gemm.h"
#include "model.h"

namespace lathe {

namespace {

constexpr int LEAST_CAPABILITY = 80; // bfloat16 and asynchronous copies came with it

thread_local char thread_error[ERROR_BYTES] = ""; // of calls without an engine

char *error_of(eng *e) { return e ? e->error : thread_error; }

// The status of a CUDA call that failed where no engine is open. Of an open one all but
// too little memory is a failure of the device (guarded).
eng_status status_of(cudaError_t code) {
    switch (code) {
    case cudaErrorInsufficientDriver:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorStubLibrary:                // the toolkit's library to link with, in place of the driver's
    case cudaErrorSystemDriverMismatch:       // the kernel's module is of another version
    case cudaErrorCompatNotSupportedOnDevice: // a newer driver's library, on a device that has to have the module's
        return ENG_NO_DRIVER;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorDevicesUnavailable: // another process has it for itself
    case cudaErrorSystemNotReady:     // the service that connects several devices does not run
    // A driver or a device that does not come up: another node may have one that does.
    case cudaErrorInitializationError:
    case cudaErrorSharedObjectInitFailed:
    case cudaErrorECCUncorrectable:
    case cudaErrorOperatingSystem:
    case cudaErrorNotPermitted:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsMaxClientsReached:
    case cudaErrorMpsMaxConnectionsReached:
    case cudaErrorUnknown:
        return ENG_NO_DEVICE;
    case cudaErrorMemoryAllocation:
        return ENG_MEMORY;
    // Faults of a call or of a kernel: no other device makes up for them.
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDevicePointer:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorNotReady:
    case cudaErrorLaunchFailure:
    case cudaErrorNotSupported:
    case cudaErrorStreamCaptureUnsupported:
        return ENG_DEVICE;
    // What no list has, such as an error of a later CUDA, keeps a device from coming up:
    // the text has its number.
    default:
        return ENG_NO_DEVICE;
    }
}

// CUDA 12.2 and later load a kernel's code when it is first launched, and would
// take memory then. This must come before the first call of CUDA's in a process.
void load_kernels_at_once() {
    static const int once = setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    (void)once;
}

// Runs f and catches everything. Of an engine any failure but a caller's
// mistake is the end.
template <class F>
int32_t guarded(eng *e, F f) noexcept {
    if (e && e->broken != ENG_OK) return e->broken; // its text is still there
    char *text = error_of(e);
    eng_status failed = ENG_DEVICE;
    try {
        if (e) {
            CHECK(cudaSetDevice(e->device));
            use_path(e->path);
        }
        f();
        return ENG_OK;
    } catch (const Failure &failure) {
        snprintf(text, ERROR_BYTES, "%s", failure.text);
        return failure.status;
    } catch (const CudaError &error) {
        snprintf(text, ERROR_BYTES, "%s", error.what());
        cudaGetLastError(); // it is told once
        failed = status_of(error.code);
        if (e && failed != ENG_MEMORY) failed = ENG_DEVICE;
    } catch (const std::bad_alloc &) {
        snprintf(text, ERROR_BYTES, "the host has too little memory");
        failed = ENG_MEMORY;
    } catch (const std::exception &error) {
        snprintf(text, ERROR_BYTES, "%s", error.what());
    } catch (...) {
        snprintf(text, ERROR_BYTES, "something unknown was thrown");
    }
    if (e) e->broken = failed;
    return failed;
}

// Calls f with the engine as what it is.
template <class F>
int32_t with(eng *e, F f) noexcept {
    if (!e) {
        snprintf(thread_error, ERROR_BYTES, "there is no engine");
        return ENG_ARGUMENT;
    }
    return guarded(e, [&] {
        if (e->config.dtype == ENG_F32)
            f(static_cast<Engine<float> &>(*e));
        else
            f(static_cast<Engine<bf16> &>(*e));
    });
}

int device_count() {
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    return count;
}

cudaDeviceProp properties_of(int device) {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, device));
    return properties;
}

void describe(int device, eng_device *d) {
    const cudaDeviceProp properties = properties_of(device);
    size_t free_bytes = 0, all_bytes = 0;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMemGetInfo(&free_bytes, &all_bytes));
    snprintf(d->name, sizeof d->name, "%.127s", properties.name);
    d->memory_bytes = int64_t(all_bytes);
    d->free_bytes = int64_t(free_bytes);
    d->multiprocessors = properties.multiProcessorCount;
    d->compute_capability = 10 * properties.major + properties.minor;
    CHECK(cudaDriverGetVersion(&d->driver));
    CHECK(cudaRuntimeGetVersion(&d->runtime));
}

void find(int device) {
    const int count = device_count();
    if (device < 0 || device >= count) throw Failure(ENG_NO_DEVICE, "device %d of %d", device, count);
}

void select(int device) {
    find(device);
    const cudaDeviceProp properties = properties_of(device);
    const int capability = 10 * properties.major + properties.minor;
    if (capability < LEAST_CAPABILITY)
        throw Failure(ENG_NO_DEVICE, "device %d is a %s of compute capability %d.%d; %d.%d is the least that works", device,
                      properties.name, properties.major, properties.minor, LEAST_CAPABILITY / 10, LEAST_CAPABILITY % 10);
    CHECK(cudaSetDevice(device));
}

// The path that LATHE_GEMM asks for, of an engine on the current device.
ProductPath wanted_path() {
    const char *value = getenv("LATHE_GEMM");
    if (!value || !*value || !strcmp(value, path_name(ProductPath::mma))) return ProductPath::mma;
    REQUIRE(!strcmp(value, path_name(ProductPath::wgmma)), "LATHE_GEMM is %s; it may be %s or %s", value, path_name(ProductPath::mma),
            path_name(ProductPath::wgmma));
    if (const char *obstacle = wgmma_obstacle()) throw Failure(ENG_NO_DEVICE, "LATHE_GEMM is %s, but %s", value, obstacle);
    return ProductPath::wgmma;
}

template <class T>
eng *open_engine(int device, const eng_config &config) {
    auto e = std::make_unique<Engine<T>>();
    e->device = device;
    e->path = wanted_path();
    e->config = config;
    open(*e);
    return e.release();
}

} // namespace

} // namespace lathe

using namespace lathe;

extern "C" {

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int32_t eng_abi(void) { return ENG_ABI; }

EXPORTED const char *eng_error(const eng *e) { return error_of(const_cast<eng *>(e)); }

EXPORTED int32_t eng_describe(int32_t device, eng_device *description) {
    return guarded(nullptr, [&] {
        REQUIRE(description, "a device without room for its description");
        load_kernels_at_once();
        find(device);
        describe(device, description);
    });
}

EXPORTED int32_t eng_open(int32_t device, const eng_config *config, eng **out) {
    return guarded(nullptr, [&] {
        REQUIRE(config && out, "an engine without a configuration, or without room for it");
        *out = nullptr;
        validate(*config);
        load_kernels_at_once();
        select(device);
        *out = config->dtype == ENG_F32 ? open_engine<float>(device, *config) : open_engine<bf16>(device, *config);
    });
}

EXPORTED void eng_close(eng *e) {
    if (!e) return;
    guarded(nullptr, [&] {
        cudaSetDevice(e->device);
        delete e;
    });
}

EXPORTED int32_t eng_put(eng *e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count, const float *values) {
    return with(e, [&](auto &engine) { put(engine, role, layer, kind, offset, count, values); });
}

EXPORTED int32_t eng_get(eng *e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count, float *values) {
    return with(e, [&](auto &engine) { get(engine, role, layer, kind, offset, count, values); });
}

EXPORTED int32_t eng_forward(eng *e, const eng_batch *batch, const eng_sampling *sampling, int32_t keep, float *logprobs, float *entropy,
                             float *values) {
    return with(e, [&](auto &engine) {
        REQUIRE(batch && sampling, "a forward pass without a batch or a sampling");
        forward(engine, *batch, *sampling, keep != 0, logprobs, entropy, values);
    });
}

EXPORTED int32_t eng_backward(eng *e, const float *logprob, const float *entropy, const float *value) {
    return with(e, [&](auto &engine) { backward(engine, logprob, entropy, value); });
}

EXPORTED int32_t eng_zero_gradients(eng *e) {
    return with(e, [&](auto &engine) { zero_gradients(engine); });
}

EXPORTED int32_t eng_hold_gradients(eng *e, int32_t sum) {
    return with(e, [&](auto &engine) { hold_gradients(engine, sum); });
}

EXPORTED int32_t eng_add_gradients(eng *e, int32_t sum) {
    return with(e, [&](auto &engine) { add_gradients(engine, sum); });
}

EXPORTED int32_t eng_step(eng *e, const eng_adamw *settings, eng_step_stats *stats) {
    return with(e, [&](auto &engine) {
        REQUIRE(settings && stats, "an optimizer step without settings, or without room for its results");
        step(engine, *settings, stats);
    });
}

EXPORTED int32_t eng_adapter(eng *e, int32_t on) {
    return with(e, [&](auto &engine) {
        engine.kept.valid = engine.kept.logits = false;
        engine.adapter_on = on != 0;
    });
}

EXPORTED int32_t eng_prefill(eng *e, int32_t count, const eng_prompt *prompts) {
    return with(e, [&](auto &engine) { prefill(engine, count, prompts); });
}

EXPORTED int32_t eng_copy_page(eng *e, int32_t from, int32_t to) {
    return with(e, [&](auto &engine) { copy_page(engine, from, to); });
}

EXPORTED int32_t eng_pages(eng *e, int32_t slot, int32_t first, int32_t count, const int32_t *pages) {
    return with(e, [&](auto &engine) { set_pages(engine, slot, first, count, pages); });
}

EXPORTED int32_t eng_start(eng *e, int32_t count, const eng_request *requests) {
    return with(e, [&](auto &engine) { start(engine, count, requests); });
}

EXPORTED int32_t eng_stop(eng *e, int32_t slot) {
    return with(e, [&](auto &engine) { stop(engine, slot); });
}

EXPORTED int32_t eng_decode(eng *e, int32_t steps, int32_t *tokens, float *logprobs, int32_t *counts, uint8_t *states) {
    return with(e, [&](auto &engine) { decode(engine, steps, tokens, logprobs, counts, states); });
}

EXPORTED int32_t eng_get_stats(eng *e, eng_stats *stats) {
    return with(e, [&](auto &engine) {
        REQUIRE(stats, "statistics without room for them");
        *stats = {engine.weights.bytes(), engine.gradients.bytes(), engine.sums.bytes(),  engine.state.bytes(),
                  engine.activations.bytes(), engine.head.bytes(),  engine.cache.bytes(), engine.other.bytes(),
                  memory_of(engine.config).spilled, engine.flops, engine.to_device_bytes, engine.to_host_bytes, engine.device_seconds,
                  cublaslt_version()};
        engine.flops = engine.to_device_bytes = engine.to_host_bytes = 0;
        engine.device_seconds = 0;
    });
}

} // extern "C"
