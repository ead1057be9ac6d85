"""Writes tiny GGUF models with random weights, and the log-probabilities that transformers gives for them.

Made with gguf 0.19.0, transformers 4.57.6 and torch 2.15.0: python3 models.py FOLDER [ARCHITECTURE...]
The layout of tensors is that of llama.cpp's convert_hf_to_gguf.py.
"""
import json, os, sys
import numpy as np
import gguf, torch
from gguf import GGMLQuantizationType as T
from transformers import AutoModelForCausalLM

folder, names = sys.argv[1], sys.argv[2:] or ["llama", "qwen2", "qwen3"]
hidden, inner, layers, heads, kv = 32, 64, 2, 2, 1
alphabet = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
spelled = {b: chr(b) for b in alphabet}
spelled.update({b: chr(256 + i) for i, b in enumerate(sorted(set(range(256)) - set(alphabet)))})
tokens = [spelled[b] for b in range(256)] + ["in", "he", "<|im_start|>", "<|im_end|>", "[PAD260]", "[PAD261]"]
types = [1] * 258 + [3, 3, 5, 5]
ids = list(b"In 1984, 12 + 30 = 42.") + [258, 256, 257, 97, 259]

for name in names:
    draw = np.random.default_rng(54)
    gemma = name.startswith("gemma")
    width = {"qwen2": 16, "qwen3": 128}.get(name, 256 if gemma else 32)  # transformers reads it of llama alone
    w = gguf.GGUFWriter(os.path.join(folder, name + ".gguf"), name)
    w.add_block_count(layers); w.add_context_length(128); w.add_embedding_length(hidden); w.add_feed_forward_length(inner)
    w.add_head_count(heads); w.add_head_count_kv(kv); w.add_layer_norm_rms_eps(1e-5); w.add_rope_freq_base(10000.0)
    w.add_key_length(width); w.add_value_length(width); w.add_vocab_size(len(tokens))
    if name == "llama": w.add_rope_dimension_count(width)
    if name in ("gemma2", "gemma3"): w.add_sliding_window(8)
    if name == "gemma2": w.add_attn_logit_softcapping(50.0); w.add_final_logit_softcapping(30.0)
    w.add_tokenizer_model("gpt2"); w.add_tokenizer_pre("gpt-2" if name == "llama" else "qwen2")
    w.add_token_list(tokens); w.add_token_types(types); w.add_token_merges(["i n", "h e"])
    w.add_bos_token_id(258); w.add_eos_token_id(259); w.add_add_bos_token(False)
    w.add_chat_template("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")

    def add(tensor, kind, *shape, mean=0.0):
        values = draw.normal(mean, 0.1 if mean == 0 else 0.3, shape).astype(np.float32)
        data = values if kind == T.F32 else gguf.quants.quantize(values, kind)
        w.add_tensor(tensor, data, raw_dtype=kind)

    add("token_embd.weight", T.Q8_0, len(tokens), hidden)
    for i in range(layers):
        b = f"blk.{i}."
        norms = ["attn_norm", "ffn_norm"] + (["post_attention_norm", "post_ffw_norm"] if name in ("gemma2", "gemma3") else [])
        for n in norms: add(b + n + ".weight", T.F32, hidden, mean=1.0)
        if name in ("qwen3", "gemma3"):
            for n in ("attn_q_norm", "attn_k_norm"): add(b + n + ".weight", T.F32, width, mean=1.0)
        add(b + "attn_q.weight", T.Q4_1, heads * width, hidden)
        add(b + "attn_k.weight", T.Q5_1, kv * width, hidden)
        add(b + "attn_v.weight", T.Q5_0, kv * width, hidden)
        if name == "qwen2":
            for n, rows in (("q", heads), ("k", kv), ("v", kv)): add(b + f"attn_{n}.bias", T.F32, rows * width)
        add(b + "attn_output.weight", T.Q4_0, hidden, heads * width)
        add(b + "ffn_gate.weight", T.F16, inner, hidden)
        add(b + "ffn_up.weight", T.BF16, inner, hidden)
        add(b + "ffn_down.weight", T.Q8_0, hidden, inner)
    add("output_norm.weight", T.F32, hidden, mean=1.0)
    if not gemma: add("output.weight", T.Q8_0, len(tokens), hidden)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name + ".gguf", dtype=torch.float32).eval()
    with torch.no_grad():
        p = torch.log_softmax(model(torch.tensor([ids])).logits, -1)[0, :-1].gather(-1, torch.tensor(ids)[1:, None])[:, 0]
    json.dump({"token_ids": ids, "logprobs": [None] + [round(float(x), 6) for x in p]}, open(os.path.join(folder, name + ".json"), "w"))
