// sums.cu: eng_hold_gradients and eng_add_gradients: partial sums of gradients,
// which the caller adds up in an order of its own (a batch's parts in the order
// of a binary tree, say) without moving any of them to itself.
//
// A sum is the gradients' memory element by element, padding included, so that
// each is one copy or one addition. Those that the device has no room for are in
// page-locked memory of the host and come back through the staging buffers.
#include <algorithm>

#include "model.h"

namespace lathe {

template <class T>
void check_sum(const Engine<T> &e, int32_t sum, bool read) {
    REQUIRE(sum >= 0 && sum < int32_t(e.held.size()), "partial sum %d of gradients; the engine has %d", sum, int32_t(e.held.size()));
    REQUIRE(!read || e.held[sum], "partial sum %d of gradients, which holds nothing yet", sum);
}

template <class T>
void settle_gradients(Engine<T> &e) {
    if (!e.config.tied || !e.model.lookups) return;
    const int64_t elements = int64_t(e.config.vocabulary) * e.config.hidden;
    add_float(e.stream, e.model.head.gradient, e.model.lookups, elements);
    set_zero(e, e.model.lookups, elements);
}

template <class T>
void hold_gradients(Engine<T> &e, int32_t sum) {
    check_sum(e, sum, false);
    Timed<T> timed(e);
    settle_gradients(e);
    float *gradients = static_cast<float *>(e.gradients.data());
    if (float *held = sum_on_device(e, sum))
        on_device_copy(e, held, gradients, sum_elements(e.config));
    else
        to_host(e, sum_on_host(e, sum), gradients, sum_elements(e.config));
    set_zero(e, gradients, sum_elements(e.config));
    timed.finish();
    e.held[sum] = true;
}

template <class T>
void add_gradients(Engine<T> &e, int32_t sum) {
    check_sum(e, sum, true);
    Timed<T> timed(e);
    settle_gradients(e);
    float *gradients = static_cast<float *>(e.gradients.data());
    const int64_t elements = sum_elements(e.config);
    if (const float *held = sum_on_device(e, sum)) {
        add_float(e.stream, gradients, held, elements);
    } else {
        const float *held_by_host = sum_on_host(e, sum);
        // A piece arrives while the one before is added.
        for (int64_t at = 0, piece = 0; at < elements; at += STAGING, piece++) {
            const int64_t n = std::min(STAGING, elements - at), half = piece % 2;
            float *room = e.buffers.staging + half * STAGING;
            if (piece >= 2) CHECK(cudaStreamWaitEvent(e.arriving, e.done[half], 0));
            CHECK(cudaMemcpyAsync(room, held_by_host + at, n * sizeof(float), cudaMemcpyHostToDevice, e.arriving));
            CHECK(cudaEventRecord(e.arrived[half], e.arriving));
            CHECK(cudaStreamWaitEvent(e.stream, e.arrived[half], 0));
            add_float(e.stream, gradients + at, room, n);
            CHECK(cudaEventRecord(e.done[half], e.stream));
        }
        e.to_device_bytes += elements * int64_t(sizeof(float));
    }
    timed.finish();
}

#define INSTANTIATE(T) \
    template void check_sum(const Engine<T> &, int32_t, bool); \
    template void settle_gradients(Engine<T> &); \
    template void hold_gradients(Engine<T> &, int32_t); \
    template void add_gradients(Engine<T> &, int32_t);
INSTANTIATE(float)
INSTANTIATE(bf16)

} // namespace lathe
