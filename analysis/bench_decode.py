"""Decode speed of Lathe and of transformers' generate, side by side.

    python analysis/bench_decode.py [--shapes 5M,27M,0.5B] [--dtypes float32,bfloat16]
        [--batches 1,8,64] [--threads 1,2] [--go go]

Needs: pip install torch==2.15.0 transformers==5.23.0 safetensors; Go. For each
combination transformers and Lathe sample the same number of tokens from the
same random policy, at temperature 1 over the whole vocabulary, each in a
process of its own, one after the other. What is timed is steps of decoding:
the time for prompts and first tokens is taken away. GB/s is weights read, once
for each step; the share is of what the same threads read from memory at best,
measured in the same process. Each figure is the best of three. The ratio by
CPU time counts on a machine with other work.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPT = 64  # tokens
SHAPES = {
    "5M": dict(vocab_size=4096, hidden_size=256, intermediate_size=640, num_hidden_layers=6,
               num_attention_heads=4, num_key_value_heads=2),
    "27M": dict(vocab_size=8192, hidden_size=512, intermediate_size=1408, num_hidden_layers=8,
                num_attention_heads=8, num_key_value_heads=4),
    "0.5B": dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                 num_attention_heads=14, num_key_value_heads=2, rope_theta=1e6),
}
TOKENS = {"5M": 128, "27M": 64, "0.5B": 16}


def make(folder, shape, dtype):
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(1)
    config = Qwen2Config(**SHAPES[shape], max_position_embeddings=2048, tie_word_embeddings=True)
    Qwen2ForCausalLM(config).to(getattr(torch, dtype)).save_pretrained(folder)


def peer(folder, batch, threads, tokens):
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    model.generation_config.eos_token_id = None
    rows = torch.arange(batch)[:, None] * 7919 + torch.arange(PROMPT)[None, :] * 104729 + 1
    ids = rows % model.config.vocab_size

    def seconds(new):
        wall = cpu = float("inf")
        for _ in range(3):
            start, used = time.perf_counter(), time.process_time()
            out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_k=0,
                                 top_p=1.0, min_new_tokens=new, max_new_tokens=new, pad_token_id=0)
            wall, cpu = min(wall, time.perf_counter() - start), min(cpu, time.process_time() - used)
            assert out.shape[1] == PROMPT + new
        return wall, cpu

    with torch.inference_mode():
        (first, first_cpu), (whole, whole_cpu) = seconds(1), seconds(1 + tokens)
    print(json.dumps({"tokens/s": batch * tokens / (whole - first), "tokens/cpu-s": batch * tokens / (whole_cpu - first_cpu),
                      "prompt-tokens/s": batch * PROMPT / first,
                      "peak-MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}))


def measure_peer(folder, batch, threads, tokens):
    out = subprocess.run([sys.executable, __file__, "--peer", folder, str(batch), str(threads), str(tokens)],
                         check=True, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS=str(threads)))
    return json.loads(out.stdout.splitlines()[-1])


def measure_ours(binary, folder, batch, threads, tokens):
    env = dict(os.environ, LATHE_BENCH_POLICY=folder, LATHE_BENCH_BATCH=str(batch), LATHE_BENCH_THREADS=str(threads),
               LATHE_BENCH_TOKENS=str(tokens), LATHE_BENCH_PROMPT=str(PROMPT), GOMAXPROCS=str(threads))
    out = subprocess.run([binary, "-test.run", "^$", "-test.bench", "^BenchmarkDecodeFolder", "-test.benchtime", "1x"],
                         check=True, capture_output=True, text=True, env=env).stdout
    line = next(l for l in out.splitlines() if l.startswith("BenchmarkDecodeFolder") and "tokens/s" in l)
    fields = line.split()[2:]
    return {unit: float(value) for value, unit in zip(fields[::2], fields[1::2])}


def main():
    if sys.argv[1:2] == ["--peer"]:
        return peer(sys.argv[2], *map(int, sys.argv[3:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="5M,27M,0.5B")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--batches", default="1,8,64")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--go", default="go")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        binary = os.path.join(temporary, "cpu.test")
        subprocess.run([args.go, "test", "-c", "-o", binary, "./pkg/policy/cpu"], check=True, cwd=ROOT)
        print("policy  weights   threads batch |     lathe  transformers  ratio  by CPU | GB/s  of memory | peak MB  transformers |"
              " prompts: ratio", flush=True)
        for shape in args.shapes.split(","):
            for dtype in args.dtypes.split(","):
                folder = os.path.join(temporary, f"{shape}-{dtype}")
                make(folder, shape, dtype)
                for threads in map(int, args.threads.split(",")):
                    for batch in map(int, args.batches.split(",")):
                        ours = measure_ours(binary, folder, batch, threads, TOKENS[shape])
                        theirs = measure_peer(folder, batch, threads, TOKENS[shape])
                        print(f"{shape:6}  {dtype:9} {threads:6} {batch:5} | {ours['tokens/s']:9.1f} {theirs['tokens/s']:13.1f}"
                              f" {ours['tokens/s'] / theirs['tokens/s']:6.1f} {ours['tokens/cpu-s'] / theirs['tokens/cpu-s']:7.1f} | {ours['weight-GB/s']:4.1f}"
                              f" {ours['weight-GB/s'] / ours['memory-GB/s']:9.0%} | {ours['peak-MB']:7.0f}"
                              f" {theirs['peak-MB']:13.0f} | {ours['prompt-tokens/s'] / theirs['prompt-tokens/s']:14.1f}",
                              flush=True)


if __name__ == "__main__":
    main()
