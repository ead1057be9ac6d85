// step.cu: eng_step: clipping by the global norm, and AdamW (Loshchilov and
// Hutter, Decoupled Weight Decay Regularization, ICLR 2019, Algorithm 2).
//
// The host waits once, at the end: the clipping's factor is computed and used
// on the device, and a gradient that is not finite changes nothing.
#include <math.h>

#include <algorithm>

#include "model.h"

namespace lathe {

namespace {

// The squares of all gradients, segment by segment of tensor by tensor in the
// order of the layout, added up in that order.
template <class T>
void add_all_squares(Engine<T> &e) {
    int64_t segments = 0;
    for (const Group &group : e.groups) {
        if (!group.trained) continue;
        int64_t at = 0;
        for (const Part &part : group.parts) {
            squares(e.stream, e.buffers.squares + segments, group.gradient + at, part.elements);
            segments += (part.elements + norm_segment() - 1) / norm_segment();
            at += part.elements;
        }
    }
    set_zero(e, e.buffers.total, 1);
    add_squares(e.stream, e.buffers.total, e.buffers.squares, segments);
}

template <class W, class S, class T>
void update(Engine<T> &e, const Group &group, const AdamW &settings) {
    adamw<W, S>(e.stream, static_cast<W *>(group.weights), group.master, static_cast<S *>(group.exp_avg),
                static_cast<S *>(group.exp_avg_sq), group.gradient, e.buffers.total, settings, group.first, group.elements);
}

template <class S, class T>
void update_all(Engine<T> &e, AdamW settings) {
    const float decay = settings.weight_decay;
    for (const Group &group : e.groups) {
        if (!group.trained) continue;
        settings.weight_decay = group.matrix ? decay : 0;
        if (group.wide)
            update<float, S>(e, group, settings);
        else
            update<T, S>(e, group, settings);
    }
}

void check(const eng_adamw &s) {
    const double all[] = {s.learning_rate, s.epsilon, s.weight_decay, s.max_grad_norm};
    for (double x : all) REQUIRE(x >= 0 && isfinite(x), "an optimizer step with a setting of %g", x);
    REQUIRE(s.beta1 >= 0 && s.beta1 < 1 && s.beta2 >= 0 && s.beta2 < 1, "an optimizer step with betas %g and %g", s.beta1, s.beta2);
    REQUIRE(s.step >= 1, "an optimizer step of number %lld; they are counted from 1", static_cast<long long>(s.step));
}

} // namespace

template <class T>
void step(Engine<T> &e, const eng_adamw &s, eng_step_stats *stats) {
    REQUIRE(e.config.train, "an optimizer step, but the engine was opened without train");
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
    add_all_squares(e);
    if (e.config.state_dtype == ENG_F32)
        update_all<float>(e, settings);
    else
        update_all<bf16>(e, settings);
    to_host(e, e.total.data(), e.buffers.total, 1);
    timed.finish();

    stats->grad_norm = sqrt(e.total[0]);
    stats->skipped = !isfinite(e.total[0]);
    stats->scale = stats->skipped ? 0 : s.max_grad_norm > 0 ? std::min(1.0, s.max_grad_norm / (stats->grad_norm + 1e-6)) : 1;
    if (!stats->skipped) e.kept.valid = e.kept.logits = false;
}

#define INSTANTIATE(T) template void step(Engine<T> &, const eng_adamw &, eng_step_stats *);
INSTANTIATE(float)
INSTANTIATE(bf16)

} // namespace lathe
