//go:build cgo && linux

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Every function of engine.h: the table's member, and the symbol without eng_.
#define FUNCTIONS(X) \
    X(error) X(describe) X(open) X(close) X(put) X(get) X(forward) X(backward) X(zero_gradients) X(hold_gradients) \
    X(add_gradients) X(step) X(adapter) X(prefill) X(copy_page) X(pages) X(start) X(stop) X(decode) X(get_stats)

struct lathe_library {
#define MEMBER(name) __typeof__(eng_##name) *name;
    FUNCTIONS(MEMBER)
};

static void say(lathe_text *text, const char *words) { snprintf(text->words, sizeof text->words, "%s", words ? words : "no reason given"); }

int lathe_load(const char *path, lathe_library **library, int32_t *found, lathe_text *text) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        say(text, dlerror());
        return LATHE_NOT_OPENED;
    }
    __typeof__(eng_abi) *abi = (__typeof__(eng_abi) *)dlsym(handle, "eng_abi");
    if (!abi) {
        say(text, "eng_abi");
        dlclose(handle);
        return LATHE_NO_SYMBOL;
    }
    *found = abi();
    if (*found != ENG_ABI) {
        dlclose(handle);
        return LATHE_OTHER_ABI;
    }
    lathe_library *l = calloc(1, sizeof *l);
    if (!l) {
        say(text, "no memory");
        dlclose(handle);
        return LATHE_NOT_OPENED;
    }
#define RESOLVE(name) \
    l->name = (__typeof__(eng_##name) *)dlsym(handle, "eng_" #name); \
    if (!l->name) { \
        say(text, "eng_" #name); \
        free(l); \
        dlclose(handle); \
        return LATHE_NO_SYMBOL; \
    }
    FUNCTIONS(RESOLVE)
    // The handle is never closed: what CUDA has started in a process cannot be
    // taken out of it.
    *library = l;
    return LATHE_LOADED;
}

// Keeps the engine's words about a failure.
static int32_t told(lathe_library *l, const eng *e, int32_t status, lathe_text *text) {
    if (status != ENG_OK) {
        say(text, l->error(e));
    }
    return status;
}

int32_t lathe_describe(lathe_library *l, int32_t device, eng_device *description, lathe_text *text) {
    return told(l, NULL, l->describe(device, description), text);
}

int32_t lathe_open(lathe_library *l, int32_t device, const eng_config *config, const float *frequencies, eng **out, lathe_text *text) {
    eng_config whole = *config;
    whole.rope_frequencies = frequencies;
    *out = NULL;
    return told(l, NULL, l->open(device, &whole, out), text);
}

void lathe_close(lathe_library *l, eng *e) { l->close(e); }

int32_t lathe_put(lathe_library *l, eng *e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count, const float *values,
                  lathe_text *text) {
    return told(l, e, l->put(e, role, layer, kind, offset, count, values), text);
}

int32_t lathe_get(lathe_library *l, eng *e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count, float *values,
                  lathe_text *text) {
    return told(l, e, l->get(e, role, layer, kind, offset, count, values), text);
}

int32_t lathe_forward(lathe_library *l, eng *e, int32_t sequences, const int32_t *offsets, const int32_t *trunks, const int32_t *tokens,
                      const uint8_t *targets, const eng_sampling *sampling, int32_t keep, float *logprobs, float *entropy, float *values,
                      lathe_text *text) {
    eng_batch batch = {sequences, offsets, tokens, targets, trunks};
    return told(l, e, l->forward(e, &batch, sampling, keep, logprobs, entropy, values), text);
}

int32_t lathe_backward(lathe_library *l, eng *e, const float *logprob, const float *entropy, const float *value, lathe_text *text) {
    return told(l, e, l->backward(e, logprob, entropy, value), text);
}

int32_t lathe_zero_gradients(lathe_library *l, eng *e, lathe_text *text) { return told(l, e, l->zero_gradients(e), text); }

int32_t lathe_hold_gradients(lathe_library *l, eng *e, int32_t sum, lathe_text *text) { return told(l, e, l->hold_gradients(e, sum), text); }

int32_t lathe_add_gradients(lathe_library *l, eng *e, int32_t sum, lathe_text *text) { return told(l, e, l->add_gradients(e, sum), text); }

int32_t lathe_step(lathe_library *l, eng *e, const eng_adamw *settings, eng_step_stats *stats, lathe_text *text) {
    return told(l, e, l->step(e, settings, stats), text);
}

int32_t lathe_adapter(lathe_library *l, eng *e, int32_t on, lathe_text *text) { return told(l, e, l->adapter(e, on), text); }

int32_t lathe_prefill(lathe_library *l, eng *e, int32_t prompts, const int32_t *counts, const int32_t *positions, const int32_t *tokens,
                      const int32_t *page_counts, const int32_t *pages, lathe_text *text) {
    eng_prompt *whole = calloc(prompts > 0 ? (size_t)prompts : 1, sizeof *whole);
    if (!whole) {
        say(text, "no memory on the host");
        return ENG_MEMORY;
    }
    for (int32_t i = 0; i < prompts; i++) {
        whole[i] = (eng_prompt){counts[i], positions[i], tokens, pages};
        tokens += counts[i];
        pages += page_counts[i];
    }
    int32_t status = l->prefill(e, prompts, whole);
    free(whole);
    return told(l, e, status, text);
}

int32_t lathe_copy_page(lathe_library *l, eng *e, int32_t from, int32_t to, lathe_text *text) {
    return told(l, e, l->copy_page(e, from, to), text);
}

int32_t lathe_pages(lathe_library *l, eng *e, int32_t slot, int32_t first, int32_t count, const int32_t *pages, lathe_text *text) {
    return told(l, e, l->pages(e, slot, first, count, pages), text);
}

int32_t lathe_start(lathe_library *l, eng *e, int32_t count, const eng_request *requests, lathe_text *text) {
    return told(l, e, l->start(e, count, requests), text);
}

int32_t lathe_stop(lathe_library *l, eng *e, int32_t slot, lathe_text *text) { return told(l, e, l->stop(e, slot), text); }

int32_t lathe_decode(lathe_library *l, eng *e, int32_t steps, int32_t *tokens, float *logprobs, int32_t *counts, uint8_t *states,
                     lathe_text *text) {
    return told(l, e, l->decode(e, steps, tokens, logprobs, counts, states), text);
}

int32_t lathe_stats(lathe_library *l, eng *e, eng_stats *stats, lathe_text *text) { return told(l, e, l->get_stats(e, stats), text); }
