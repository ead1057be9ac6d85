"""Write golden models and their log-probabilities and gradients.

Needs: pip install torch==2.15.0 transformers==5.23.0 safetensors==0.8.0.
Run in this folder. For each architecture a folder with config.json and
model.safetensors, as transformers writes them, and golden.safetensors:
tokens (2, 24), logprobs (2, 24) of each token given its predecessors (0 for
the first), coefficients (2, 24), and grad.NAME, the gradients of
sum(coefficients * logprobs). All in float64, rounded to float32 at the end.

With a folder as argument, print instead what transformers makes of it: the
log-probabilities of tokens 0..9 and, if there is a tokenizer, a rendered chat.
"""

import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM


def logprobs(model, tokens):
    logits = model(tokens).logits
    inner = torch.log_softmax(logits[:, :-1], -1).gather(-1, tokens[:, 1:, None])[..., 0]
    return torch.nn.functional.pad(inner, (1, 0))


def golden(folder, model):
    for p in model.parameters():
        p.data = torch.randn_like(p) * 0.2 + (1.0 if p.dim() == 1 and p.numel() == model.config.hidden_size else 0.0)
    model.save_pretrained(folder)
    model = model.double().eval()
    tokens = torch.randint(0, model.config.vocab_size, (2, 24))
    coefficients = torch.randn(2, 24, dtype=torch.float64)
    coefficients[:, 0] = 0
    out = logprobs(model, tokens)
    (coefficients.float().double() * out).sum().backward()
    tensors = {"tokens": tokens, "logprobs": out.detach(), "coefficients": coefficients}
    tensors |= {"grad." + name: p.grad for name, p in model.named_parameters()}
    save_file({k: v.float().contiguous() for k, v in tensors.items()}, folder + "/golden.safetensors")


if len(sys.argv) > 1:
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1]).double().eval()
    print([round(x, 6) for x in logprobs(model, torch.arange(10)[None])[0].tolist()])
    try:
        tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    except OSError:
        sys.exit()
    messages = [{"role": "user", "content": "2+3"}, {"role": "assistant", "content": "5"}]
    print(repr(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)))
    print(tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False))
    sys.exit()

torch.manual_seed(0)
shape = dict(vocab_size=30, hidden_size=24, intermediate_size=36, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64)
golden("qwen2", Qwen2ForCausalLM(Qwen2Config(**shape, num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-6)))
golden("llama", LlamaForCausalLM(LlamaConfig(**shape, num_key_value_heads=1, tie_word_embeddings=False, rms_norm_eps=1e-5, rope_theta=500.0)))
