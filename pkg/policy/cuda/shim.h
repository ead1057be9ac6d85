// The functions of engine.h behind a table that is filled at run time, so that
// a binary starts whether the engine's library is there or not.
//
// Each function that can fail copies the engine's words about it into text,
// within the same call: they belong to a thread, and a caller in Go may be on
// another one by its next call. What is a struct with pointers in engine.h
// comes in parts here, for a struct in Go's memory must not point to more of it.
#ifndef LATHE_SHIM_H
#define LATHE_SHIM_H

#include "engine.h"

typedef struct lathe_library lathe_library;

// A place for the words about a failure.
typedef struct {
    char words[1024];
} lathe_text;

// What came of loading a library.
enum { LATHE_LOADED = 0, LATHE_NOT_OPENED = 1, LATHE_NO_SYMBOL = 2, LATHE_OTHER_ABI = 3 };

// Loads a library and checks its ABI before it looks for anything else in it.
// found is the ABI of a library that has another one.
int lathe_load(const char *path, lathe_library **library, int32_t *found, lathe_text *text);

int32_t lathe_describe(lathe_library *l, int32_t device, eng_device *description, lathe_text *text);
// frequencies take the place of config->rope_frequencies.
int32_t lathe_open(lathe_library *l, int32_t device, const eng_config *config, const float *frequencies, eng **out, lathe_text *text);
void lathe_close(lathe_library *l, eng *e);

int32_t lathe_put(lathe_library *l, eng *e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count, const float *values,
                  lathe_text *text);
int32_t lathe_get(lathe_library *l, eng *e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count, float *values,
                  lathe_text *text);

int32_t lathe_forward(lathe_library *l, eng *e, int32_t sequences, const int32_t *offsets, const int32_t *trunks, const int32_t *tokens,
                      const uint8_t *targets, const eng_sampling *sampling, int32_t keep, float *logprobs, float *entropy, float *values,
                      lathe_text *text);
int32_t lathe_backward(lathe_library *l, eng *e, const float *logprob, const float *entropy, const float *value, lathe_text *text);
int32_t lathe_zero_gradients(lathe_library *l, eng *e, lathe_text *text);
int32_t lathe_hold_gradients(lathe_library *l, eng *e, int32_t sum, lathe_text *text);
int32_t lathe_add_gradients(lathe_library *l, eng *e, int32_t sum, lathe_text *text);
int32_t lathe_step(lathe_library *l, eng *e, const eng_adamw *settings, eng_step_stats *stats, lathe_text *text);
int32_t lathe_adapter(lathe_library *l, eng *e, int32_t on, lathe_text *text);

// counts and positions (prompts) as in eng_prompt; tokens and pages are those
// of all prompts, one after the other, with page_counts (prompts) pages each.
int32_t lathe_prefill(lathe_library *l, eng *e, int32_t prompts, const int32_t *counts, const int32_t *positions, const int32_t *tokens,
                      const int32_t *page_counts, const int32_t *pages, lathe_text *text);
int32_t lathe_copy_page(lathe_library *l, eng *e, int32_t from, int32_t to, lathe_text *text);
int32_t lathe_pages(lathe_library *l, eng *e, int32_t slot, int32_t first, int32_t count, const int32_t *pages, lathe_text *text);
int32_t lathe_start(lathe_library *l, eng *e, int32_t count, const eng_request *requests, lathe_text *text);
int32_t lathe_stop(lathe_library *l, eng *e, int32_t slot, lathe_text *text);
int32_t lathe_decode(lathe_library *l, eng *e, int32_t steps, int32_t *tokens, float *logprobs, int32_t *counts, uint8_t *states,
                     lathe_text *text);
int32_t lathe_stats(lathe_library *l, eng *e, eng_stats *stats, lathe_text *text);

#endif
