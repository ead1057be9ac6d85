"""One measurement of TestAgainstPyTorch: PyTorch trains transformers' model.

Forward, cross-entropy, backward, clipping and fused AdamW, as the case in
LATHE_PEER_CASE says: in float32, with products in bfloat16 by autocast, or with
weights and state in bfloat16; as it is or through torch.compile. Prints the
tokens per second of wall time and of CPU time of the fastest step, and the peak
memory of the process, as one line of JSON.
Needs: pip install torch==2.15.0 transformers==5.24.0; a C++ compiler
"""

import json
import os
import resource
import time

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

case = json.loads(os.environ["LATHE_PEER_CASE"])
torch.set_num_threads(case["threads"])
torch.manual_seed(1)
compiled = case["mode"].startswith("compiled ")
mode = case["mode"].removeprefix("compiled ")
model = Qwen2ForCausalLM(Qwen2Config(**case["config"])).to(torch.bfloat16 if mode == "bfloat16" else torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)


def loss_of(ids):
    with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
        logits = model(ids, use_cache=False).logits[:, :-1]
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


if compiled:
    loss_of = torch.compile(loss_of)
ids = torch.randint(0, model.config.vocab_size, (case["sequences"], case["tokens"]))
wall = cpu = float("inf")
for step in range(case["warmup"] + case["steps"]):
    start = time.perf_counter(), time.process_time()
    loss = loss_of(ids)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step >= case["warmup"]:
        wall = min(wall, time.perf_counter() - start[0])
        cpu = min(cpu, time.process_time() - start[1])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
result = {"tokens_per_second": ids.numel() / wall, "tokens_per_cpu_second": ids.numel() / cpu, "peak_bytes": peak}
print(json.dumps(result))
