"""Write golden models of the families beside Llama, Qwen2 and Qwen3.

Needs: pip install torch==2.15.0 transformers==5.23.0 safetensors==0.8.0.
Run in this folder: for each case below, or those that the arguments name, it
writes families/CASE as make_golden.py does golden/CASE. With --tokens N FOLDER it
writes a sequence of N tokens into FOLDER instead, without gradients beyond 6,000
tokens: LATHE_TEST_GOLDEN=FOLDER makes Lathe's tests compare it too. It also prints
how far float32 log-probabilities of transformers are from those of float64, which
is the rounding that Lathe's are to be measured by.
"""

import json
import os
import shutil
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import GenerationConfig

SHAPE = dict(
    vocab_size=29, hidden_size=24, intermediate_size=30, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=1024, pad_token_id=None, bos_token_id=0, eos_token_id=1,
    attn_implementation="eager",
)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, rope_theta=10000.0)
FACTORS = [1.0 + 0.03 * i for i in range(3)]
CASES = {
    "llama-biases": ("Llama", dict(attention_bias=True, mlp_bias=True, rope_parameters=dict(rope_type="dynamic", factor=2.0, rope_theta=10000.0))),
    "llama-yarn": ("Llama", dict(head_dim=16, rope_parameters=YARN | dict(beta_fast=24, beta_slow=2, truncate=False, mscale=0.7, mscale_all_dim=0.3))),
    "qwen2-yarn-window": ("Qwen2", dict(head_dim=16, rope_parameters=YARN, use_sliding_window=True, sliding_window=20, max_window_layers=1)),
    "mistral-window": ("Mistral", dict(head_dim=8, sliding_window=20)),
    "mistral-full": ("Mistral", dict(head_dim=8, sliding_window=None, tie_word_embeddings=True)),
    "smollm3": ("SmolLM3", dict(no_rope_layers=[1, 0])),
    "olmo2": ("Olmo2", dict(num_attention_heads=4)),
    "olmo3": ("Olmo3", dict(
        num_hidden_layers=4, intermediate_size=18, hidden_size=20, sliding_window=20, head_dim=10, rope_parameters=dict(
            full_attention=YARN | dict(rope_theta=500000.0), sliding_attention=dict(rope_type="default", rope_theta=500000.0)))),
    "phi3": ("Phi3", dict(sliding_window=20)),
    "phi4-mini": ("Phi3", dict(
        hidden_size=32, max_position_embeddings=4096, original_max_position_embeddings=1024, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75, short_factor=FACTORS,
                             long_factor=[2.0 * x for x in FACTORS]))),
    "granite": ("Granite", dict(
        embedding_multiplier=6.0, attention_multiplier=0.21, residual_multiplier=0.22, logits_scaling=3.0, tie_word_embeddings=True)),
    "gemma2": ("Gemma2", dict(
        head_dim=8, sliding_window=20, query_pre_attn_scalar=7, attn_logit_softcapping=3.0, final_logit_softcapping=5.0)),
    "gemma3": ("Gemma3", dict(
        head_dim=8, sliding_window=20, query_pre_attn_scalar=7, num_hidden_layers=3, intermediate_size=20,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000000.0),
            sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
    "gemma3-bf16": ("Gemma3", dict(head_dim=8, sliding_window=20, num_hidden_layers=1, layer_types=["sliding_attention"])),
    "gemma": ("Gemma", dict(head_dim=8)),
    "qwen3-moe": ("Qwen3Moe", dict(
        hidden_size=20, head_dim=8, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=10, norm_topk_prob=True)),
    "qwen3-moe-dense": ("Qwen3Moe", dict(
        hidden_size=20, head_dim=8, num_hidden_layers=3, num_experts=4, num_experts_per_tok=3, moe_intermediate_size=6,
        mlp_only_layers=[1], use_sliding_window=True, sliding_window=20, tie_word_embeddings=True)),
    "olmoe": ("Olmoe", dict(intermediate_size=12, num_experts=5, num_experts_per_tok=2, num_key_value_heads=4)),
    "qwq": ("Qwen2", dict(  # QwQ-32B's rotary embedding, whose longest sequence is 131,072
        num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1, head_dim=128, max_position_embeddings=40960, rope_parameters=dict(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=32768, rope_theta=1000000.0))),
}


def randomize(model, offset):
    """Norms that multiply by near one and not by it, biases that are not zero."""
    for name, p in model.named_parameters():
        if name.endswith("norm.weight"):
            p.data = (0 if offset else 1) + 0.2 * torch.randn_like(p)
        else:
            p.data = (0.3 if name.endswith("bias") else 1.5 / p.shape[-1] ** 0.5) * torch.randn_like(p)


def as_in_files(name, tensor):
    """A parameter by the names that it is saved by: experts, which are stacked, one by one."""
    parts = {"experts.gate_up_proj": ["gate_proj", "up_proj"], "experts.down_proj": ["down_proj"]}
    stack = name.split("mlp.")[-1]
    if stack not in parts:
        return [(name, tensor)]
    return [
        (f"{name.removesuffix(stack)}experts.{e}.{part}.weight", half)
        for e, own in enumerate(tensor) for part, half in zip(parts[stack], own.chunk(len(parts[stack])))
    ]


def golden(folder, name, kind, changes, length, sequences):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    text = "Text" if kind == "Gemma3" else ""
    config = getattr(transformers, kind + text + "Config")(**(SHAPE | changes))
    cls = getattr(transformers, kind + "ForCausalLM")
    model = cls(config)
    randomize(model, kind.startswith("Gemma"))
    if name.endswith("bf16"):
        model = model.to(torch.bfloat16)
    model.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=[1, 2])
    model.save_pretrained(folder)
    long = length > 6000
    attention = "sdpa" if long else "eager"  # which has a score for each pair of tokens
    model = cls.from_pretrained(folder, dtype=torch.float64, attn_implementation=attention).eval().requires_grad_(not long)
    if name.endswith("bf16"):  # the scale of embeddings is rounded to the type that the table is stored in
        scale = model.model.embed_tokens
        scale.embed_scale = scale.embed_scale.to(torch.bfloat16)
    tokens = torch.randint(0, config.vocab_size, (sequences, length))
    logits = model(tokens).logits
    inner = torch.log_softmax(logits[:, :-1], -1).gather(-1, tokens[:, 1:, None])[..., 0]
    if not long:
        inner.mean().backward()
    positions = torch.linspace(0, length - 1, 20).long()
    tensors = {
        "tokens": tokens, "positions": positions, "logits": logits.detach()[:, positions],
        "logprobs": torch.nn.functional.pad(inner.detach(), (1, 0)),
    }
    for parameter, p in () if long else model.named_parameters():
        tensors |= {"grad." + own: grad for own, grad in as_in_files(parameter, p.grad)}
    save_file({k: v.float().contiguous() for k, v in tensors.items()}, folder + "/golden.safetensors")
    with torch.no_grad():
        single = model.float()(tokens).logits
    single = torch.log_softmax(single[:, :-1], -1).gather(-1, tokens[:, 1:, None])[..., 0]
    errors = (single - inner).abs()
    print(f"{name}: float32 log-probabilities differ by {errors.max().item():.2g} at most, {errors.mean().item():.2g} on average")


arguments, into, shape = sys.argv[1:], "families", (70, 2)
if arguments[:1] == ["--tokens"]:
    into, shape, arguments = arguments[2], (int(arguments[1]), 1), arguments[3:]
for number, (name, (kind, changes)) in enumerate(CASES.items()):
    torch.manual_seed(number)
    if not arguments or name in arguments:
        golden(f"{into}/{name}", name, kind, changes, *shape)
