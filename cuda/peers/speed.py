"""The speed of PyTorch and transformers on the cases of cases.json.

    python speed.py OUT.jsonl [--quick] [--seconds N] [--device cuda]

Training is a step of plain maximum likelihood in bfloat16 with float32 masters
and moments as torch.optim.AdamW(fused=True) keeps them under autocast, with
scaled-dot-product attention; eager and compiled are tried and the faster one
counts. Decoding is model.generate, sampling at temperature 1, with a cache that
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


def train(config, case, device, micro, compiled):
    model = model_of(config, torch.float32, device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    call = torch.compile(model) if compiled else model
    ids = torch.randint(0, config["vocab_size"], (case["sequences"], case["tokens"]), device=device)
    best = float("inf")
    for step in range(2 + case["steps"]):
        wait(device)
        start = time.perf_counter()
        # As many sequences at a time as fit with the whole logits of all tokens.
        for part in ids.split(micro):
            with torch.autocast(device, dtype=torch.bfloat16):
                logits = call(part, use_cache=False).logits[:, :-1]
            loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, logits.shape[-1]), part[:, 1:].reshape(-1), reduction="sum")
            (loss / ids.numel()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait(device)
        if step >= 2:
            best = min(best, time.perf_counter() - start)
    return {"tokens_per_second": ids.numel() / best, "peak_bytes": peak(device), "how": f"{'compiled' if compiled else 'eager'}, {micro} sequences at a time"}


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
    return [what, case["model"], case.get("sequences") or case.get("batch"), case["tokens"]]


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

    for what in ("train", "decode"):
        for case in cases[what]:
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
    from transformers import Qwen2Config, Qwen2ForCausalLM

    main()
