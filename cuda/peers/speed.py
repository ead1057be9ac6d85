"""The speed of PyTorch and transformers on the cases of cases.json.

    python speed.py OUT.jsonl [--quick] [--seconds N] [--device cuda]

Training is a step of plain maximum likelihood in bfloat16 with float32 masters
and moments as torch.optim.AdamW(fused=True) keeps them under autocast, with
scaled-dot-product attention; eager and compiled are tried and the faster one
counts. An adapter is trained on a base in bfloat16. Where responses begin with a
prompt, each has its own, and logits are computed of the responses alone. The head
is computed and gone back through in chunks, whose logits are computed again, for
log-probabilities and entropies. Decoding is model.generate, sampling at temperature 1, with a cache that
grows and with a static one, for which transformers compiles the model; the
faster one counts. Random weights serve: no value of them is looked at.

A line of JSON a case is added to OUT: what, model, tokens_per_second, peak_bytes
and how it was had, or error. Cases that OUT has are left out, so that a run goes
on where another was ended; one that ended its run is among them, because a
case's first line is an error, which holds until its second is there. A way of
computing a case has N seconds (150); one that takes longer, or fails, is told in
`tried`, and the others count. The status is 1 if a case has no result but for want
of memory, or the device reported an error: it may be of no more use to this
process, and another one goes on with the rest. LATHE_GPU_CASES may name other
cases. Needs torch and transformers.
"""

import argparse
import contextlib
import gc
import json
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def peak(device):
    return torch.cuda.max_memory_allocated() if device == "cuda" else 0


def reset(device):
    gc.collect()
    torch._dynamo.reset()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


@contextlib.contextmanager
def at_most(seconds):
    """Raises TimeoutError in what takes longer."""

    def late(signal, frame):
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def model_of(config, dtype, device):
    torch.manual_seed(1)
    with torch.device(device):
        model = Qwen2ForCausalLM._from_config(Qwen2Config(**config), dtype=dtype, attn_implementation="sdpa")
    return model


def adapt(model, rank):
    """Freezes a model and puts a low-rank projection, whose scale is 2, beside each projection of its blocks."""

    class Adapted(torch.nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base
            self.down = torch.nn.Parameter(torch.randn(rank, base.in_features, device=base.weight.device) / rank)
            self.up = torch.nn.Parameter(torch.zeros(base.out_features, rank, device=base.weight.device))

        def forward(self, x):
            linear = torch.nn.functional.linear
            return self.base(x) + 2 * linear(linear(x, self.down), self.up)

    model.requires_grad_(False)
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, child in list(part.named_children()):
                if isinstance(child, torch.nn.Linear):
                    setattr(part, name, Adapted(child))
    return model


def train(config, case, device, micro, compiled):
    rank = case.get("lora")
    model = model_of(config, torch.bfloat16 if rank else torch.float32, device).train()
    if rank:
        adapt(model, rank)
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=1e-6, fused=True)
    call = torch.compile(model) if compiled else model
    ids = torch.randint(0, config["vocab_size"], (case["sequences"], case["tokens"]), device=device)
    own = case["tokens"] - case["prompt"] if case.get("responses") else case["tokens"] - 1  # tokens that are learned of each
    best = float("inf")
    for step in range(2 + case["steps"]):
        wait(device)
        start = time.perf_counter()
        # As many sequences at a time as fit with the whole logits of all tokens.
        for part in ids.split(micro):
            with torch.autocast(device, dtype=torch.bfloat16):
                logits = call(part, use_cache=False, logits_to_keep=own + 1).logits[:, :-1]
            loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, logits.shape[-1]), part[:, -own:].reshape(-1), reduction="sum")
            (loss / ids.numel()).backward()
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait(device)
        if step >= 2:
            best = min(best, time.perf_counter() - start)
    return {"tokens_per_second": ids.numel() / best, "peak_bytes": peak(device), "how": f"{'compiled' if compiled else 'eager'}, {micro} sequences at a time"}


def of_chunk(hidden, weight, targets):
    """The sums of log-probabilities and of entropies of some rows."""
    logp = torch.nn.functional.linear(hidden, weight).float().log_softmax(-1)
    return logp.gather(1, targets[:, None]).sum() - (logp.exp() * logp).sum()


def head(config, case, device, rows, compiled):
    count = case["sequences"] * case["tokens"]
    weight = (torch.randn(config["vocab_size"], config["hidden_size"], device=device, dtype=torch.bfloat16) * 0.02).requires_grad_()
    hidden = torch.randn(count, config["hidden_size"], device=device, dtype=torch.bfloat16)
    targets = torch.randint(0, config["vocab_size"], (count,), device=device)
    call = torch.compile(of_chunk) if compiled else of_chunk
    best = float("inf")
    gradient, weight.grad = torch.zeros_like(hidden), torch.zeros_like(weight)
    before = torch.cuda.memory_allocated() if device == "cuda" else 0
    for step in range(2 + case["steps"]):
        wait(device)
        start = time.perf_counter()
        for own, h, t in zip(gradient.split(rows), hidden.split(rows), targets.split(rows)):
            h = h.detach().requires_grad_()
            (torch.utils.checkpoint.checkpoint(call, h, weight, t, use_reentrant=False) / count).backward()
            own.copy_(h.grad)
        wait(device)
        if step >= 2:
            best = min(best, time.perf_counter() - start)
    return {"tokens_per_second": count / best, "peak_bytes": max(0, peak(device) - before), "how": f"{'compiled' if compiled else 'eager'}, {rows} rows at a time"}


def decode(config, case, device, static):
    model = model_of(config, torch.bfloat16, device).eval()
    ids = torch.randint(0, config["vocab_size"], (case["batch"], case["prompt"]), device=device)
    settings = dict(max_new_tokens=case["tokens"], do_sample=True, temperature=1.0, top_k=0, top_p=1.0, attention_mask=torch.ones_like(ids), pad_token_id=0)
    if static:
        settings["cache_implementation"] = "static"
    model.generation_config.eos_token_id = None  # nothing ends a response
    with torch.inference_mode():
        for _ in range(2):  # the first compiles
            wait(device)
            start = time.perf_counter()
            answer = model.generate(ids, **settings)
            wait(device)
            seconds = time.perf_counter() - start
    assert answer.shape[1] == case["prompt"] + case["tokens"], "a response was ended"
    return {"tokens_per_second": case["batch"] * case["tokens"] / seconds, "peak_bytes": peak(device), "how": "generate, static cache" if static else "generate, growing cache"}


def ways(what, case, quick):
    """What is tried of a case: lists of calls, of each of which the first that fits in memory counts."""
    if what == "decode":
        return [[lambda c, d: decode(c, case, d, False)]] + ([] if quick else [[lambda c, d: decode(c, case, d, True)]])
    if what == "head":
        return [[lambda c, d, r=rows, k=compiled: head(c, case, d, r, k)] for compiled in (False, True) for rows in (1024, 4096)]
    n = case["sequences"]
    sizes = sorted({n, max(1, n // 2), max(1, n // 4), 1}, reverse=True)
    return [[lambda c, d, m=m, k=compiled: train(c, case, d, m, k) for m in sizes] for compiled in ((False,) if quick else (False, True))]


def best(what, config, case, device, quick, seconds):
    results, tried = [], []
    for way in ways(what, case, quick):
        for call in way:
            reset(device)
            try:
                with at_most(seconds):
                    results.append(call(config, device))
                break
            except torch.OutOfMemoryError:
                tried.append("out of memory")
            except Exception as e:  # a way that fails leaves the others
                tried.append(f"{type(e).__name__}: {e}"[:300])
                break
    fastest = max(results, key=lambda r: r["tokens_per_second"]) if results else {"error": tried[-1]}
    return dict(fastest, tried=tried)


def key(what, case):
    return [what, case["model"], case.get("sequences") or case.get("batch"), case["tokens"], case.get("responses"), case.get("lora")]


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=int, default=150)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    with open(os.environ.get("LATHE_GPU_CASES") or os.path.join(HERE, "cases.json")) as f:
        cases = json.load(f)
    have = [key(line["what"], line) for line in lines(arguments.out)]

    def add(line):
        with open(arguments.out, "a") as out:
            print(json.dumps(line), file=out, flush=True)

    for what in ("train", "head", "decode"):
        for case in cases.get(what, []):
            if key(what, case) in have or arguments.quick and not case.get("quick"):
                continue
            line = dict(case, what=what, by="PyTorch " + torch.__version__)
            add(dict(line, error="it ended the program, or was ended with it"))  # unless a later line says otherwise
            result = best(what, cases["models"][case["model"]], case, arguments.device, arguments.quick, arguments.seconds)
            print(*key(what, case), result, flush=True)
            add(dict(line, **result))
            if result.get("error", "out of memory") != "out of memory" or any("CUDA error" in text for text in result["tried"]):
                sys.exit(1)


if __name__ == "__main__":
    import torch
    import torch.utils.checkpoint
    from transformers import Qwen2Config, Qwen2ForCausalLM

    main()
