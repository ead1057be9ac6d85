"""Write golden models of every family, with what transformers makes of them.

Needs: pip install torch==2.15.0 transformers==5.23.0 safetensors==0.8.0.
Run in this folder: for each case below it writes golden/CASE with config.json,
generation_config.json and weights as transformers saves them, in one file or
in several, and golden.safetensors:

  tokens    (S, L) sequences
  positions (P) positions whose logits are kept
  logits    (S, P, V) after the tokens at these positions
  logprobs  (S, L) of each token given its predecessors, 0 for the first
  grad.NAME the gradient of the mean of all log-probabilities

All are computed in float64 from the weights as they are stored, and rounded to
float32 at the end. It also prints how far the float32 logits of transformers
are from these, relative to the largest.
"""

import json
import os
import shutil

import torch
from safetensors.torch import save_file
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

LLAMA3 = dict(
    rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
# Odd widths, queries shared by several heads or not, heads that do not add up
# to the hidden size. "length" long ones reach positions beyond 5,000.
CASES = {
    "llama-tied": dict(
        config=LlamaConfig(
            vocab_size=37, hidden_size=20, intermediate_size=27, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=6, rms_norm_eps=1e-5, tie_word_embeddings=True, max_position_embeddings=128,
        ),
    ),
    "llama3-long": dict(
        config=LlamaConfig(
            vocab_size=19, hidden_size=18, intermediate_size=21, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, head_dim=14, rms_norm_eps=1e-5, tie_word_embeddings=False, max_position_embeddings=8192,
            rope_parameters=LLAMA3,
        ),
        length=5300, sequences=1,
    ),
    "llama3-old-spelling-sharded-bf16": dict(
        config=LlamaConfig(
            vocab_size=53, hidden_size=24, intermediate_size=31, num_hidden_layers=3, num_attention_heads=6,
            num_key_value_heads=1, rms_norm_eps=1e-5, tie_word_embeddings=False, max_position_embeddings=1024,
            rope_parameters=LLAMA3,
        ),
        length=300, dtype=torch.bfloat16, shards="9KB", old_spelling=True,
    ),
    "llama-linear": dict(
        config=LlamaConfig(
            vocab_size=31, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=True, max_position_embeddings=256,
            rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0),
        ),
        length=100,
    ),
    "qwen2-tied": dict(
        config=Qwen2Config(
            vocab_size=41, hidden_size=21, intermediate_size=33, num_hidden_layers=2, num_attention_heads=3,
            num_key_value_heads=1, head_dim=10, tie_word_embeddings=True, max_position_embeddings=128,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0), sliding_window=32, max_window_layers=1,
        ),
    ),
    "qwen2-untied-sharded-f16": dict(
        config=Qwen2Config(
            vocab_size=33, hidden_size=24, intermediate_size=35, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, tie_word_embeddings=False, max_position_embeddings=128,
        ),
        dtype=torch.float16, shards="12KB",
    ),
    "qwen2-long": dict(
        config=Qwen2Config(
            vocab_size=17, hidden_size=16, intermediate_size=22, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=2, head_dim=16, tie_word_embeddings=True, max_position_embeddings=8192,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
        ),
        length=5300, sequences=1,
    ),
    "qwen3-tied": dict(
        config=Qwen3Config(
            vocab_size=43, hidden_size=22, intermediate_size=29, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=10, tie_word_embeddings=True, max_position_embeddings=128,
        ),
    ),
    "qwen3-long-sharded-bf16": dict(
        config=Qwen3Config(
            vocab_size=23, hidden_size=18, intermediate_size=25, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, head_dim=20, tie_word_embeddings=False, max_position_embeddings=8192,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
        ),
        length=5300, sequences=1, dtype=torch.bfloat16, shards="5KB",
    ),
}
CLASSES = {"llama": LlamaForCausalLM, "qwen2": Qwen2ForCausalLM, "qwen3": Qwen3ForCausalLM}


def randomize(model):
    """Norms near one and not at it, biases that are not zero."""
    for name, p in model.named_parameters():
        if name.endswith("norm.weight"):
            p.data = 1 + 0.2 * torch.randn_like(p)
        else:
            p.data = (0.3 if name.endswith("bias") else 1.5 / p.shape[-1] ** 0.5) * torch.randn_like(p)


def spell_old(folder):
    """Say the rotary embedding's scaling as transformers 4 does."""
    path = folder + "/config.json"
    with open(path) as f:
        config = json.load(f)
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype")
    with open(path, "w") as f:
        json.dump(config, f, indent=2)


def golden(name, config, length=24, sequences=2, dtype=torch.float32, shards="1GB", old_spelling=False):
    folder = "golden/" + name
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    model = CLASSES[config.model_type](config)
    randomize(model)
    model = model.to(dtype)
    model.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=[1, 2])
    model.save_pretrained(folder, max_shard_size=shards)
    if old_spelling:
        spell_old(folder)
    model = CLASSES[config.model_type].from_pretrained(folder, dtype=torch.float64).eval()
    tokens = torch.randint(0, config.vocab_size, (sequences, length))
    logits = model(tokens).logits
    inner = torch.log_softmax(logits[:, :-1], -1).gather(-1, tokens[:, 1:, None])[..., 0]
    inner.mean().backward()
    positions = torch.arange(length) if length < 64 else torch.linspace(0, length - 1, 40).long()
    tensors = {
        "tokens": tokens, "positions": positions, "logits": logits.detach()[:, positions],
        "logprobs": torch.nn.functional.pad(inner.detach(), (1, 0)),
    }
    tensors |= {"grad." + name: p.grad for name, p in model.named_parameters()}
    save_file({k: v.float().contiguous() for k, v in tensors.items()}, folder + "/golden.safetensors")
    with torch.no_grad():
        single = model.float()(tokens).logits
    print(f"{name}: float32 logits differ by {((single - logits).abs().max() / logits.abs().max()).item():.2g}")


for number, (name, case) in enumerate(CASES.items()):
    torch.manual_seed(number)
    golden(name, **case)
