"""Write rope.json: the frequencies of rotary embedding that transformers computes.

Needs: pip install torch==2.15.0 transformers==5.23.0. Run in this folder. Each case
has the settings that Lathe's test makes a configuration of, and what the class of
the family makes of them: inv_freq, exact in float32, and attention_scaling.
"""

import json

from transformers import LlamaConfig, Phi3Config, Qwen2Config
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding

QWQ = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768, rope_theta=1000000.0)
# LongRoPE has a factor for each of 48 pairs of Phi-3.5-mini.
SHORT, LONG = [1 + 0.0325 * i for i in range(48)], [1 + 1.37 * i for i in range(48)]
CASES = {
    "QwQ-32B": (Qwen2Config, Qwen2RotaryEmbedding, 128, 40960, QWQ),
    "yarn with all settings": (Qwen2Config, Qwen2RotaryEmbedding, 64, 4096, QWQ | dict(
        factor=40.0, original_max_position_embeddings=4096, beta_fast=24, beta_slow=2, mscale=0.707, mscale_all_dim=1.0, truncate=False)),
    "yarn with a factor of attention": (Qwen2Config, Qwen2RotaryEmbedding, 64, 4096, QWQ | dict(factor=2.5, attention_factor=1.25)),
    "linear": (LlamaConfig, LlamaRotaryEmbedding, 128, 4096, dict(rope_type="linear", factor=3.0, rope_theta=10000.0)),
    "dynamic": (LlamaConfig, LlamaRotaryEmbedding, 128, 4096, dict(rope_type="dynamic", factor=4.0, rope_theta=10000.0)),
    "llama3": (LlamaConfig, LlamaRotaryEmbedding, 64, 131072, dict(
        rope_type="llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192, rope_theta=500000.0)),
    "Phi-3.5-mini": (Phi3Config, Phi3RotaryEmbedding, 96, 131072, dict(
        rope_type="longrope", short_factor=SHORT, long_factor=LONG, rope_theta=10000.0)),
    "Phi-4-mini": (Phi3Config, Phi3RotaryEmbedding, 128, 131072, dict(
        rope_type="longrope", short_factor=SHORT, long_factor=LONG, rope_theta=10000.0, partial_rotary_factor=0.75)),
}
cases = []
for name, (config, embedding, width, positions, rope) in CASES.items():
    more = dict(original_max_position_embeddings=4096) if config is Phi3Config else dict(head_dim=width)
    made = embedding(config(
        hidden_size=2 * width, num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=positions, rope_parameters=dict(rope), **more))
    cases.append(dict(
        name=name, config=dict(
            architectures=[config.__name__.replace("Config", "ForCausalLM")], hidden_size=2 * width, num_attention_heads=2, intermediate_size=8,
            num_hidden_layers=1, vocab_size=8, rms_norm_eps=1e-6, max_position_embeddings=positions, rope_parameters=rope, **more),
        frequencies=made.inv_freq.tolist(), factor=made.attention_scaling,
    ))
with open("rope.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
