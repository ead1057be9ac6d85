// step.cu: eng_step: clipping by the global norm, and AdamW (Loshchilov and
// Hutter, Decoupled Weight Decay Regularization, ICLR 2019, Algorithm 2).
//
// The host waits once, at the end: the clipping's factor is computed and used
// on the device, and a gradient that is not finite changes nothing. Where the value
// head has a norm of its own it waits before the update too, since one of two norms
// that is not finite must stop both.
#include <math.h>

#include <algorithm>

#include "model.h"

namespace lathe {

namespace {

template <class T>
bool is_head(const Engine<T> &e, const Group &group) {
    return e.config.value_head && &group == &e.groups.back();
}

// The squares of gradients, those of all groups or of all but the value head, or its
// own, segment by segment of tensor by tensor in the order of the layout, added up
// in that order.
template <class T, class F>
void add_squares_of(Engine<T> &e, double *total, F wanted) {
    int64_t segments = 0;
    for (const Group &group : e.groups) {
        if (!group.trained || !wanted(group)) continue;
        int64_t at = 0;
        for (const Part &part : group.parts) {
            squares(e.stream, e.buffers.squares + segments, group.gradient + at, part.elements);
            segments += (part.elements + norm_segment() - 1) / norm_segment();
            at += part.elements;
        }
    }
    set_zero(e, total, 1);
    add_squares(e.stream, total, e.buffers.squares, segments);
}

// Elements of a piece of the state, whose moments and master take three quarters of a half of
// the staging buffer.
constexpr int64_t STATE_PIECE = STAGING / 4;

template <class T, class Word>
void copy(Engine<T> &e, Word *to, const Word *from, int64_t count, Stream stream, cudaMemcpyKind kind) {
    CHECK(cudaMemcpyAsync(to, from, count * sizeof(Word), kind, stream));
    (kind == cudaMemcpyHostToDevice ? e.to_device_bytes : e.to_host_bytes) += count * int64_t(sizeof(Word));
}

// State in the host's memory goes through the device piece by piece: while one piece is
// updated the next one arrives and the one before leaves, each way in a stream of its own. An
// element is computed as where it stays. piece counts those of all groups.
template <class W, class S, class T>
void update_streamed(Engine<T> &e, const Group &group, const double *total, const AdamW &settings, int64_t &piece) {
    for (int64_t at = 0; at < group.elements; at += STATE_PIECE, piece++) {
        const int64_t n = std::min(STATE_PIECE, group.elements - at), half = piece % 2;
        float *room = e.buffers.staging + half * STAGING, *master = group.master ? room + 2 * STATE_PIECE : nullptr;
        S *first = reinterpret_cast<S *>(room), *second = reinterpret_cast<S *>(room + STATE_PIECE);
        S *held_first = static_cast<S *>(group.exp_avg) + at, *held_second = static_cast<S *>(group.exp_avg_sq) + at;
        auto move = [&](Stream stream, cudaMemcpyKind kind) {
            const bool in = kind == cudaMemcpyHostToDevice;
            copy(e, in ? first : held_first, in ? held_first : first, n, stream, kind);
            copy(e, in ? second : held_second, in ? held_second : second, n, stream, kind);
            if (master) copy(e, in ? master : group.master + at, in ? group.master + at : master, n, stream, kind);
        };
        if (piece >= 2) CHECK(cudaStreamWaitEvent(e.arriving, e.left[half], 0));
        move(e.arriving, cudaMemcpyHostToDevice);
        CHECK(cudaEventRecord(e.arrived[half], e.arriving));
        CHECK(cudaStreamWaitEvent(e.stream, e.arrived[half], 0));
        adamw<W, S>(e.stream, static_cast<W *>(group.weights) + at, master, first, second, group.gradient + at, total, settings,
                    group.first + at, n);
        CHECK(cudaEventRecord(e.done[half], e.stream));
        CHECK(cudaStreamWaitEvent(e.leaving, e.done[half], 0));
        move(e.leaving, cudaMemcpyDeviceToHost);
        CHECK(cudaEventRecord(e.left[half], e.leaving));
    }
}

template <class W, class S, class T>
void update(Engine<T> &e, const Group &group, const double *total, const AdamW &settings, int64_t &piece) {
    if (e.config.host_state) return update_streamed<W, S>(e, group, total, settings, piece);
    adamw<W, S>(e.stream, static_cast<W *>(group.weights), group.master, static_cast<S *>(group.exp_avg),
                static_cast<S *>(group.exp_avg_sq), group.gradient, total, settings, group.first, group.elements);
}

template <class S, class T>
void update_all(Engine<T> &e, const AdamW &settings, const eng_adamw &given) {
    int64_t piece = 0;
    for (const Group &group : e.groups) {
        if (!group.trained) continue;
        AdamW own = settings;
        const double *total = e.buffers.total;
        if (!group.matrix) own.weight_decay = 0;
        if (is_head(e, group)) {
            if (given.head_learning_rate > 0) own.learning_rate = float(given.head_learning_rate);
            if (given.head_max_grad_norm > 0) {
                own.max_grad_norm = given.head_max_grad_norm;
                total++;
            }
        }
        if (group.wide)
            update<float, S>(e, group, total, own, piece);
        else
            update<T, S>(e, group, total, own, piece);
    }
    if (piece > 0) CHECK(cudaStreamWaitEvent(e.stream, e.left[(piece - 1) % 2], 0)); // what left before it has left too
}

double clip(double norm, double most) {
    return most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1;
}

void check(const eng_adamw &s) {
    const double all[] = {s.learning_rate, s.epsilon, s.weight_decay, s.max_grad_norm, s.head_learning_rate, s.head_max_grad_norm};
    for (double x : all) REQUIRE(x >= 0 && isfinite(x), "an optimizer step with a setting of %g", x);
    REQUIRE(s.beta1 >= 0 && s.beta1 < 1 && s.beta2 >= 0 && s.beta2 < 1, "an optimizer step with betas %g and %g", s.beta1, s.beta2);
    REQUIRE(s.step >= 1, "an optimizer step of number %lld; they are counted from 1", static_cast<long long>(s.step));
}

} // namespace

template <class T>
void step(Engine<T> &e, const eng_adamw &s, eng_step_stats *stats) {
    REQUIRE(e.config.train == 1, "an optimizer step, but the engine was opened without train or for gradients alone");
    check(s);
    AdamW settings{};
    settings.learning_rate = float(s.learning_rate);
    settings.beta1 = float(s.beta1);
    settings.beta2 = float(s.beta2);
    settings.epsilon = float(s.epsilon);
    settings.weight_decay = float(s.weight_decay);
    settings.correction1 = float(1 - pow(s.beta1, double(s.step)));
    settings.correction2 = float(1 - pow(s.beta2, double(s.step)));
    settings.max_grad_norm = float(s.max_grad_norm);
    std::copy_n(s.rounding_key, 2, settings.key);
    settings.sample = s.rounding_sample;

    Timed<T> timed(e);
    settle_gradients(e);
    const bool apart = e.config.value_head && s.head_max_grad_norm > 0;
    const int totals = apart ? 2 : 1;
    add_squares_of(e, e.buffers.total, [&](const Group &group) { return !apart || !is_head(e, group); });
    if (apart) {
        add_squares_of(e, e.buffers.total + 1, [&](const Group &group) { return is_head(e, group); });
        to_host(e, e.total.data(), e.buffers.total, totals);
        CHECK(cudaStreamSynchronize(e.stream));
    }
    if (!apart || (isfinite(e.total[0]) && isfinite(e.total[1]))) {
        if (e.config.state_dtype == ENG_F32)
            update_all<float>(e, settings, s);
        else
            update_all<bf16>(e, settings, s);
    }
    to_host(e, e.total.data(), e.buffers.total, totals);
    timed.finish();

    *stats = {};
    stats->grad_norm = sqrt(e.total[0]);
    if (apart) stats->head_norm = sqrt(e.total[1]);
    stats->skipped = !isfinite(e.total[0]) || (apart && !isfinite(e.total[1]));
    if (stats->skipped) return;
    stats->scale = clip(stats->grad_norm, s.max_grad_norm);
    if (apart) stats->head_scale = clip(stats->head_norm, s.head_max_grad_norm);
    e.kept.valid = e.kept.logits = false;
}

#define INSTANTIATE(T) template void step(Engine<T> &, const eng_adamw &, eng_step_stats *);
INSTANTIATE(float)
INSTANTIATE(bf16)

} // namespace lathe
