/* engine.h: the whole interface between Lathe and its CUDA engine.
 *
 * It is plain C and versioned. The library that implements it is loaded at run
 * time by pkg/policy/cuda, so that one binary starts with and without CUDA.
 *
 * The engine knows no reinforcement learning. eng_forward gives the
 * log-probability and the entropy of each target token; the caller computes one
 * coefficient per token; eng_backward takes the coefficients. The caller keeps
 * everything that is not arithmetic: packing, page tables, scheduling, files.
 *
 * Every function that can fail returns an eng_status, and eng_error has the
 * text. Nothing is thrown across this interface, and nothing in it ends the
 * process. No pointer of the caller is kept after a call. An engine is used by
 * one thread at a time, but by any: each call selects the engine's device.
 *
 * Everything an engine will ever need is allocated by eng_open. What CUDA takes
 * for itself later comes out of ENG_RESERVE_BYTES, which eng_open leaves free;
 * only where another process takes them too does a later call end in ENG_MEMORY.
 *
 * One log-probability. What a sequence's tokens get depends on the sequence and
 * the weights alone, bit for bit: eng_forward and eng_decode share kernels whose
 * order of summation is fixed by the model's shape, whatever else is in a call.
 * Gradients are sums over sequences in the order of the calls and, within one,
 * of its batch; they do not depend on how sequences are divided among calls, but
 * for what shares a trunk, which is in one.
 *
 * Matrices are row-major, (out, in) as Hugging Face stores them.
 */
#ifndef LATHE_ENGINE_H
#define LATHE_ENGINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every change of a struct or a function below. */
#define ENG_ABI 8

typedef struct eng eng;

typedef enum {
    ENG_OK = 0,
    ENG_ARGUMENT = 1,  /* a caller's mistake: out of range, out of order */
    ENG_NO_DRIVER = 2, /* no NVIDIA driver, or one too old for this library */
    ENG_NO_DEVICE = 3, /* no such device, or one too old for this library */
    ENG_MEMORY = 4,    /* too little memory; the text of eng_open has both numbers. An open engine can only be closed */
    ENG_DEVICE = 5     /* a CUDA call failed; the engine can only be closed */
} eng_status;

typedef enum { ENG_F32 = 0, ENG_BF16 = 1 } eng_dtype;

/* Tokens of keys and values in one page of the cache. */
#define ENG_PAGE_TOKENS 64
/* Rows that a sequence's tokens are padded to inside a pass. */
#define ENG_ROW_ALIGN 16
/* Stop tokens of one request. */
#define ENG_MAX_STOPS 16
/* Bytes of the device that eng_open leaves free: for CUDA's own structures and the allocator's rounding. */
#define ENG_RESERVE_BYTES (INT64_C(512) << 20)

/* What activations a pass keeps for its backward pass. */
typedef enum {
    ENG_KEEP = 0,           /* everything */
    ENG_RECOMPUTE_MLP = 1,  /* norms and SwiGLU are computed again */
    ENG_RECOMPUTE_BLOCK = 2, /* only the inputs of blocks are kept */
    ENG_OFFLOAD = 3          /* and those in page-locked memory of the host */
} eng_recompute;

/* eng_config.train of an engine that takes no optimizer step. */
enum { ENG_GRADIENTS = 2 };

/* Bits of eng_config.lora_targets. */
enum {
    ENG_LORA_Q = 1, ENG_LORA_K = 2, ENG_LORA_V = 4, ENG_LORA_O = 8,
    ENG_LORA_GATE = 16, ENG_LORA_UP = 32, ENG_LORA_DOWN = 64
};

typedef struct {
    /* The model, as in its config.json. */
    int32_t vocabulary, hidden, intermediate, layers, heads, kv_heads, head_dim, max_positions;
    int32_t qkv_bias, qk_norm, tied; /* 0 or 1 */
    float rms_eps;
    const float *rope_frequencies; /* (layers, head_dim/2 + 1): of a layer's pairs, and then what cosines and sines are multiplied by; zeros and 1 for a layer without */

    /* How it is held. */
    eng_dtype dtype;       /* of weights, activations, keys and values; statistics are float32 */
    eng_dtype state_dtype; /* F32: masters and moments in float32; BF16: moments in bfloat16, bfloat16 weights without masters, both rounded randomly */
    int32_t train;         /* 0: no gradients, no optimizer state; 1: both; ENG_GRADIENTS: gradients, and no step is ever taken */
    int32_t value_head;    /* 0 or 1 */
    int32_t lora_rank;     /* 0: none, and everything is trained; else the adapter and the value head are */
    uint32_t lora_targets;
    float lora_scale;

    /* Budgets: what eng_open allocates. */
    int32_t pass_tokens;    /* rows of one eng_forward: each sequence's length rounded up to ENG_ROW_ALIGN, summed */
    int32_t pass_sequences; /* sequences of one eng_forward */
    eng_recompute recompute;
    int32_t mlp_tokens;     /* rows whose gates are there at a time where they are not kept, a multiple of ENG_ROW_ALIGN; 0: all */
    int32_t head_tokens;    /* rows of logits at a time, a multiple of ENG_ROW_ALIGN */
    int32_t slots;          /* sequences that decode at once; 0: the engine never generates */
    int32_t cache_pages;    /* of ENG_PAGE_TOKENS tokens, all layers */
    int32_t prefill_tokens; /* rows of one eng_prefill */
    int32_t gradient_sums;  /* partial sums of gradients on the device; */
    int32_t spilled_sums;   /* and those numbered after them, in page-locked memory of the host */
    int32_t host_state;     /* 1: the optimizer's state is in page-locked memory of the host, and eng_step moves it through the device */
} eng_config;

typedef struct {
    char name[128];
    int64_t memory_bytes, free_bytes;
    int32_t multiprocessors;
    int32_t compute_capability; /* 90 for 9.0 */
    int32_t driver, runtime;    /* as CUDA numbers them: 12040 for 12.4 */
} eng_device;

/* One tensor of a layer: the parts of what the engine may hold fused. */
typedef enum {
    ENG_EMBEDDING = 0,   /* (vocabulary, hidden); the head too if tied */
    ENG_HEAD = 1,        /* (vocabulary, hidden); not if tied */
    ENG_FINAL_NORM = 2,  /* (hidden) */
    ENG_VALUE_HEAD = 3,  /* (hidden) */
    ENG_INPUT_NORM = 4,  /* of a layer, as are all that follow */
    ENG_Q = 5, ENG_K = 6, ENG_V = 7, ENG_O = 8,
    ENG_Q_BIAS = 9, ENG_K_BIAS = 10, ENG_V_BIAS = 11,
    ENG_Q_NORM = 12, ENG_K_NORM = 13, /* (head_dim) */
    ENG_POST_NORM = 14,
    ENG_GATE = 15, ENG_UP = 16, ENG_DOWN = 17,
    ENG_LORA_A = 32, /* plus the projection's role, ENG_Q … ENG_DOWN: (rank, in) */
    ENG_LORA_B = 64  /* plus the projection's role: (out, rank) */
} eng_role;

/* What of a tensor is meant. */
typedef enum {
    ENG_WEIGHT = 0,   /* what everything computes with */
    ENG_GRADIENT = 1, /* float32; with a tied head, the sum of both uses */
    ENG_MASTER = 2,   /* float32, where dtype is BF16 and state_dtype F32 */
    ENG_EXP_AVG = 3,
    ENG_EXP_AVG_SQ = 4,
    ENG_SUM = 16 /* plus the number of a partial sum of gradients; float32, read only */
} eng_kind;

typedef struct {
    int32_t sequences;
    const int32_t *offsets; /* (sequences+1), in tokens, from 0 */
    const int32_t *tokens;  /* (N), N = offsets[sequences] */
    const uint8_t *targets; /* (N) nonzero where log-probability and entropy are wanted; never at a sequence's first token */
    /* (sequences) Sequence s goes on where sequence trunks[s] ends, or begins by
     * itself if that is -1. A trunk begins by itself, and those that go on from
     * it come right after it. NULL: all begin by themselves. */
    const int32_t *trunks;
} eng_batch;

/* How logits become a distribution; pkg/policy.Sampling has the rules. */
typedef struct {
    float temperature; /* 0: greedy; log-probabilities are then at temperature 1 */
    int32_t top_k;     /* 0: all */
    float top_p;       /* 0 or 1: all */
} eng_sampling;

typedef struct {
    double learning_rate, beta1, beta2, epsilon, weight_decay, max_grad_norm; /* 0: no clipping */
    int64_t step;              /* counted from 1 */
    uint32_t rounding_key[2], rounding_sample; /* pkg/rng stream that rounds bfloat16 state */
    /* Of the value head alone. learning_rate: 0 for that of all; max_grad_norm: bound on
     * the norm of its gradient, which is then in no other norm; 0 for one norm of all. */
    double head_learning_rate, head_max_grad_norm;
} eng_adamw;

typedef struct {
    double grad_norm; /* before clipping */
    double scale;     /* what the gradient was multiplied by */
    int32_t skipped;  /* 1: the gradient was not finite and nothing was changed */
    double head_norm, head_scale; /* of a value head that is clipped by itself; else 0 */
} eng_step_stats;

/* A sequence, or a piece of one, whose keys and values go to the cache. */
typedef struct {
    int32_t count;         /* tokens of the piece */
    int32_t position;      /* of its first; what is before it is in the pages already */
    const int32_t *tokens; /* (count) */
    const int32_t *pages;  /* all pages of the sequence from position 0 on, enough for position+count */
} eng_prompt;

/* What a slot is to continue. */
typedef struct {
    int32_t slot;
    int32_t token;    /* the last token of the sequence, which is not in the cache yet */
    int32_t position; /* of that token: the cache has 0 .. position-1 */
    int32_t remaining; /* most new tokens */
    int32_t stops;
    int32_t stop[ENG_MAX_STOPS];
    uint32_t key[2], sample; /* pkg/rng stream: the token at absolute position p is drawn with Float64(p) */
    eng_sampling sampling;
} eng_request;

typedef enum { ENG_RUNNING = 0, ENG_STOPPED = 1, ENG_LENGTH = 2, ENG_IDLE = 3 } eng_slot_state;

typedef struct {
    int64_t weight_bytes, gradient_bytes, sum_bytes, state_bytes, activation_bytes, head_bytes, cache_bytes, other_bytes;
    int64_t spilled_bytes;   /* page-locked memory of the host for partial sums, inputs of blocks and the optimizer's state */
    int64_t flops;           /* of products and attention since the last call of eng_get_stats */
    int64_t to_device_bytes; /* copied since then from the host's memory to the device's, */
    int64_t to_host_bytes;   /* and back */
    double device_seconds;   /* of the calls since then */
    int32_t cublaslt;        /* its version, 0 when our own products run alone */
} eng_stats;

/* ENG_ABI of the library. Call it first. */
int32_t eng_abi(void);
/* Text of the last failure of this engine, or, for NULL, of this thread's last call without one. Never NULL. */
const char *eng_error(const eng *e);
/* Describes a device; ENG_NO_DEVICE where there is none of that number. CUDA makes
 * a context on it, which takes some of its memory, and on no other. */
int32_t eng_describe(int32_t device, eng_device *description);

/* Opens an engine with weights of zero. The environment variable LATHE_GEMM says
 * which instructions compute the engine's products of bfloat16, all of them:
 * mma (or nothing) those of every device, wgmma those of compute capability 9.0
 * alone. Two engines have one log-probability only where they agree in it. */
int32_t eng_open(int32_t device, const eng_config *config, eng **out);
void eng_close(eng *e);

/* Copies elements [offset, offset+count) of a tensor, as float32, to and from
 * the device. layer is 0 for tensors of no layer. Writing an ENG_MASTER also
 * sets the weight that is rounded from it, and writing an ENG_WEIGHT its master. */
int32_t eng_put(eng *e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count, const float *values);
int32_t eng_get(eng *e, int32_t role, int32_t layer, int32_t kind, int64_t offset, int64_t count, float *values);

/* Log-probability and entropy of every target (N), 0 elsewhere; values (N), the
 * value head's output where each target is predicted from, may be NULL. keep:
 * the activations stay for one eng_backward. */
int32_t eng_forward(eng *e, const eng_batch *batch, const eng_sampling *sampling, int32_t keep, float *logprobs, float *entropy, float *values);
/* Adds to the gradients, given dL/dlogp, dL/dH and dL/dV of each target (N); NULL means zero. */
int32_t eng_backward(eng *e, const float *logprob, const float *entropy, const float *value);
int32_t eng_zero_gradients(eng *e);
/* Partial sums of gradients are numbered from 0, first those on the device. The
 * caller adds them up in whatever order it wants: hold moves the gradients to
 * one, whose old content is lost, and leaves gradients of zero; add adds one,
 * left as it is, to the gradients, in float32, element by element. */
int32_t eng_hold_gradients(eng *e, int32_t sum);
int32_t eng_add_gradients(eng *e, int32_t sum);
int32_t eng_step(eng *e, const eng_adamw *settings, eng_step_stats *stats);
/* Switches the adapter on or off; drops kept activations and the cache's meaning. */
int32_t eng_adapter(eng *e, int32_t on);

/* Computes keys and values of prompts into pages. */
int32_t eng_prefill(eng *e, int32_t count, const eng_prompt *prompts);
int32_t eng_copy_page(eng *e, int32_t from, int32_t to);
/* Sets entries first .. first+count-1 of a slot's page table. */
int32_t eng_pages(eng *e, int32_t slot, int32_t first, int32_t count, const int32_t *pages);
/* Gives slots what they are to continue. */
int32_t eng_start(eng *e, int32_t count, const eng_request *requests);
/* Frees a slot. */
int32_t eng_stop(eng *e, int32_t slot);
/* Runs up to `steps` steps of every running slot, fewer when all end. The page
 * tables must reach that far. tokens and logprobs are (slots, steps); counts
 * (slots) says how many are new; states (slots) are eng_slot_state. */
int32_t eng_decode(eng *e, int32_t steps, int32_t *tokens, float *logprobs, int32_t *counts, uint8_t *states);

int32_t eng_get_stats(eng *e, eng_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
