"""Time PyTorch on BenchmarkTrain's models (pkg/policy/cpu/bench_test.go).

Needs: pip install torch==2.15.0 transformers==5.23.0. One thread; forward,
backward, clipping and AdamW. Prints the best of five rounds of three steps, in
tokens per second of wall time and of CPU time; the latter counts on a machine
with other work.
"""

import time

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

torch.set_num_threads(1)
common = dict(num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True)
for sequences, tokens, shape in (
    (8, 256, dict(vocab_size=4096, hidden_size=256, intermediate_size=640, num_hidden_layers=6)),
    (200, 40, dict(vocab_size=260, hidden_size=128, intermediate_size=384, num_hidden_layers=5)),
):
    model = Qwen2ForCausalLM(Qwen2Config(**shape, **common))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    ids = torch.randint(0, model.config.vocab_size, (sequences, tokens))

    def step():
        optimizer.zero_grad(set_to_none=False)
        logits = model(ids, use_cache=False).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    for _ in range(2):
        step()
    wall = cpu = 1e9
    for _ in range(5):
        start = time.time(), time.process_time()
        for _ in range(3):
            step()
        wall, cpu = min(wall, (time.time() - start[0]) / 3), min(cpu, (time.process_time() - start[1]) / 3)
    n = sum(p.numel() for p in model.parameters())
    print(f"params={n / 1e6:.1f}M sequences={sequences}x{tokens}: {sequences * tokens / wall:.0f} tokens/s, {sequences * tokens / cpu:.0f} tokens/cpu-s")
