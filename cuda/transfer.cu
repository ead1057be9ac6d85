// transfer.cu: eng_put, eng_get and eng_zero_gradients: tensors between the
// host's float32 and what the device holds them in.
//
// Pieces of STAGING elements go through two halves of a page-locked buffer and
// of one on the device, so that copying on the host, over the bus and
// converting on the device overlap.
#include <string.h>

#include <algorithm>

#include "model.h"

namespace lathe {

namespace {

// Where a tensor of a kind is.
struct Place {
    int64_t elements = 0;
    float *wide = nullptr;  // it is held in float32,
    bf16 *half = nullptr;   // or in bfloat16
    float *master = nullptr; // what is written is written here too, unrounded
    float *also = nullptr;   // what is held is the sum with this, which a write sets to zero
    float *host = nullptr;   // or in page-locked memory of the host, in float32,
    bf16 *host_half = nullptr; // or in bfloat16
    float *host_master = nullptr; // as master
};

Place place(void *data, int64_t at, bool is_half, bool on_host = false) {
    Place p;
    if (on_host && is_half)
        p.host_half = static_cast<bf16 *>(data) + at;
    else if (on_host)
        p.host = static_cast<float *>(data) + at;
    else if (is_half)
        p.half = static_cast<bf16 *>(data) + at;
    else
        p.wide = static_cast<float *>(data) + at;
    return p;
}

// The place of a kind ENG_SUM + n: in a partial sum a tensor is where its
// gradient is among the gradients.
template <class T>
Place place_of_sum(const Engine<T> &e, const Group &group, const Part &part, int64_t at, int32_t kind) {
    const int32_t sum = kind - ENG_SUM;
    REQUIRE(sum >= 0, "kind %d of a tensor", kind);
    check_sum(e, sum, true);
    REQUIRE(group.trained, "a partial sum of gradients of a tensor (role %d) that is not trained", part.role);
    at += group.gradient - static_cast<const float *>(e.gradients.data());
    Place p;
    if (float *held = sum_on_device(e, sum))
        p.wide = held + at;
    else
        p.host = sum_on_host(e, sum) + at;
    return p;
}

template <class T>
Place place_of(const Engine<T> &e, const Group &group, const Part &part, int64_t at, int32_t kind) {
    const eng_config &c = e.config;
    const bool half_weights = c.dtype == ENG_BF16 && !group.wide, half_state = c.state_dtype == ENG_BF16;
    Place p;
    switch (kind) {
    case ENG_WEIGHT:
        p = place(group.weights, at, half_weights);
        if (group.master) (c.host_state ? p.host_master : p.master) = group.master + at;
        break;
    case ENG_MASTER:
        REQUIRE(group.master, "the master of a tensor (role %d) that has none", part.role);
        p = place(group.master, at, false, c.host_state);
        break;
    case ENG_GRADIENT:
        REQUIRE(group.trained, "the gradient of a tensor (role %d) that is not trained", part.role);
        p = place(group.gradient, at, false);
        if (part.role == ENG_EMBEDDING && c.tied) p.also = e.model.lookups;
        break;
    case ENG_EXP_AVG:
    case ENG_EXP_AVG_SQ:
        REQUIRE(group.exp_avg, "the moments of a tensor (role %d) that has none", part.role);
        p = place(kind == ENG_EXP_AVG ? group.exp_avg : group.exp_avg_sq, at, half_state, c.host_state);
        break;
    default:
        p = place_of_sum(e, group, part, at, kind);
    }
    p.elements = part.elements;
    return p;
}

// Finds elements [offset, offset+count) of a tensor.
template <class T>
Place find(const Engine<T> &e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count) {
    for (const Group &group : e.groups) {
        int64_t at = 0;
        for (const Part &part : group.parts) {
            if (part.role != role || part.layer != layer) {
                at += part.elements;
                continue;
            }
            REQUIRE(offset >= 0 && count >= 0 && count <= part.elements - offset,
                    "elements %lld to %lld of a tensor (role %d) of %lld", static_cast<long long>(offset),
                    static_cast<long long>(offset + count), role, static_cast<long long>(part.elements));
            Place p = place_of(e, group, part, at, kind);
            if (p.wide) p.wide += offset;
            if (p.half) p.half += offset;
            if (p.master) p.master += offset;
            if (p.also) p.also += offset;
            if (p.host) p.host += offset;
            if (p.host_half) p.host_half += offset;
            if (p.host_master) p.host_master += offset;
            return p;
        }
    }
    throw Failure(ENG_ARGUMENT, "the policy has no tensor of role %d in layer %d", role, layer);
}

// Takes a piece from the device's staging buffer to its place, at an offset.
template <class T>
void store(Engine<T> &e, const Place &p, int64_t at, const float *staged, int64_t count) {
    if (p.half)
        convert<bf16, float>(e.stream, p.half + at, staged, count);
    else
        on_device_copy(e, p.wide + at, staged, count);
    if (p.master) on_device_copy(e, p.master + at, staged, count);
    if (p.also) set_zero(e, p.also + at, count);
}

template <class T>
void fetch(Engine<T> &e, const Place &p, int64_t at, float *staged, int64_t count) {
    if (p.half)
        convert<float, bf16>(e.stream, staged, p.half + at, count);
    else
        on_device_copy(e, staged, p.wide + at, count);
    if (p.also) add_float(e.stream, staged, p.also + at, count);
}

} // namespace

template <class T>
void put(Engine<T> &e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count, const float *values) {
    REQUIRE(kind < ENG_SUM, "a write of a partial sum of gradients");
    // A master's weight is rounded from it, so writing either writes both.
    Place p = find(e, role, layer, kind, offset, count);
    if (kind == ENG_MASTER) p = find(e, role, layer, ENG_WEIGHT, offset, count);
    if (kind == ENG_MASTER || kind == ENG_WEIGHT) e.kept.valid = e.kept.logits = false;
    REQUIRE(count == 0 || values != nullptr, "a write of a tensor without values");
    if (p.host) std::copy_n(values, count, p.host);
    if (p.host_half) std::transform(values, values + count, p.host_half, from_float<bf16>);
    if (p.host_master) std::copy_n(values, count, p.host_master);
    if (p.host || p.host_half) return;
    for (int64_t at = 0, piece = 0; at < count; at += STAGING, piece++) {
        const int64_t n = std::min(STAGING, count - at), half = piece % 2;
        float *host = e.staging.data() + half * STAGING, *device = e.buffers.staging + half * STAGING;
        if (piece >= 2) CHECK(cudaEventSynchronize(e.copied[half]));
        memcpy(host, values + at, n * sizeof(float));
        to_device(e, device, host, n);
        CHECK(cudaEventRecord(e.copied[half], e.stream));
        store(e, p, at, device, n);
    }
    CHECK(cudaStreamSynchronize(e.stream));
}

template <class T>
void get(Engine<T> &e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count, float *values) {
    const Place p = find(e, role, layer, kind, offset, count);
    REQUIRE(count == 0 || values != nullptr, "a read of a tensor without room for its values");
    if (p.host) std::copy_n(p.host, count, values);
    if (p.host_half) std::transform(p.host_half, p.host_half + count, values, [](bf16 x) { return to_float(x); });
    if (p.host || p.host_half) return;
    auto receive = [&](int64_t at, int64_t half) {
        CHECK(cudaEventSynchronize(e.copied[half]));
        memcpy(values + at, e.staging.data() + half * STAGING, std::min(STAGING, count - at) * sizeof(float));
    };
    int64_t piece = 0;
    for (int64_t at = 0; at < count; at += STAGING, piece++) {
        const int64_t n = std::min(STAGING, count - at), half = piece % 2;
        float *device = e.buffers.staging + half * STAGING;
        fetch(e, p, at, device, n);
        to_host(e, e.staging.data() + half * STAGING, device, n);
        CHECK(cudaEventRecord(e.copied[half], e.stream));
        if (piece > 0) receive(at - STAGING, 1 - half);
    }
    if (piece > 0) receive((piece - 1) * STAGING, (piece - 1) % 2);
}

template <class T>
void zero_gradients(Engine<T> &e) {
    set_zero(e, static_cast<char *>(e.gradients.data()), e.gradients.bytes());
    CHECK(cudaStreamSynchronize(e.stream));
}

#define INSTANTIATE(T) \
    template void put(Engine<T> &, int32_t, int32_t, int32_t, int64_t, int64_t, const float *); \
    template void get(Engine<T> &, int32_t, int32_t, int32_t, int64_t, int64_t, float *); \
    template void zero_gradients(Engine<T> &);
INSTANTIATE(float)
INSTANTIATE(bf16)

} // namespace lathe
