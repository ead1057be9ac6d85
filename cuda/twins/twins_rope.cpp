// twins_rope.cpp: rotary position embedding and the cache's rows.
#include <cmath>

#include "twins.h"

namespace lathe::twin {

// The angle is rounded to float32, as it is part of the definition.
static void turn(double &a, double &b, int32_t position, float frequency, int direction, double factor) {
    const float product = static_cast<float>(position) * frequency;
    const double angle = direction * static_cast<double>(product);
    const double x = a * std::cos(angle) - b * std::sin(angle), y = b * std::cos(angle) + a * std::sin(angle);
    a = x * factor;
    b = y * factor;
}

static const Array &norm_of(int head, Heads heads, const Array &q_norm, const Array &k_norm) {
    return head < heads.query ? q_norm : k_norm;
}

Rope rope_forward(Array &qkv, const Array &q_norm, const Array &k_norm, const std::vector<float> &frequencies, const Indices &positions,
                  Heads heads, double eps) {
    const int turned = heads.query + heads.key, width = heads.width;
    Rope kept{Array(positions.size() * turned, 0.0), Array(positions.size() * turned * width, 0.0)};
    for (size_t row = 0; row < positions.size(); row++) {
        if (positions[row] < 0) continue;
        for (int head = 0; head < turned; head++) {
            double *x = &qkv[row * heads.row() + head * width];
            const Array &weight = norm_of(head, heads, q_norm, k_norm);
            if (!weight.empty()) {
                double squares = 0;
                for (int i = 0; i < width; i++) squares += x[i] * x[i];
                const double rstd = 1 / std::sqrt(squares / width + eps);
                kept.rstd[row * turned + head] = rstd;
                for (int i = 0; i < width; i++) {
                    kept.before[(row * turned + head) * width + i] = x[i];
                    x[i] *= rstd * weight[i];
                }
            }
            for (int i = 0; i < width / 2; i++) turn(x[i], x[i + width / 2], positions[row], frequencies[i], 1, frequencies[width / 2]);
        }
    }
    return kept;
}

Array rope_backward(Array &dqkv, const Array &rstd, const Array &before, const Array &q_norm, const Array &k_norm,
                    const std::vector<float> &frequencies, const Indices &positions, const Indices &blocks, Heads heads) {
    const int turned = heads.query + heads.key, width = heads.width;
    Array partial((blocks.size() - 1) * 2 * width, 0.0);
    for (size_t b = 0; b + 1 < blocks.size(); b++)
        for (int64_t row = blocks[b]; row < blocks[b + 1]; row++) {
            if (positions[row] < 0) continue;
            for (int head = 0; head < turned; head++) {
                double *d = &dqkv[row * heads.row() + head * width];
                for (int i = 0; i < width / 2; i++) turn(d[i], d[i + width / 2], positions[row], frequencies[i], -1, frequencies[width / 2]);
                const Array &weight = norm_of(head, heads, q_norm, k_norm);
                if (weight.empty()) continue;
                const double *x = &before[(row * turned + head) * width], r = rstd[row * turned + head];
                double mean = 0;
                for (int i = 0; i < width; i++) mean += d[i] * weight[i] * x[i] * r / width;
                for (int i = 0; i < width; i++) {
                    partial[(b * 2 + (head < heads.query ? 0 : 1)) * width + i] += d[i] * x[i] * r;
                    d[i] = (d[i] * weight[i] - x[i] * r * mean) * r;
                }
            }
        }
    return partial;
}

void cache_write(Array &keys, Array &values, const Array &qkv, const Indices &pages, const Indices &places, Heads heads) {
    const int64_t size = static_cast<int64_t>(heads.key) * heads.width, page_tokens = 64;
    for (size_t row = 0; row < pages.size(); row++) {
        if (pages[row] < 0 || places[row] < 0) continue;
        for (int64_t i = 0; i < size; i++) {
            const int64_t to = (pages[row] * page_tokens + places[row]) * size + i;
            const int64_t key = row * heads.row() + static_cast<int64_t>(heads.query) * heads.width + i;
            keys[to] = qkv[key];
            values[to] = qkv[key + size];
        }
    }
}

} // namespace lathe::twin
