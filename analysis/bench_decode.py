"""Decode speed of Lathe, of transformers' generate and of llama.cpp, side by side.

    python analysis/bench_decode.py [--shapes 5M,27M,0.5B] [--dtypes float32,bfloat16]
        [--batches 1,8,64] [--threads 1,2] [--go go] [--llama .../llama-batched-bench]

Needs: pip install torch==2.15.0 transformers==5.24.0 safetensors; Go; with --llama
gguf==0.17.1 and a build of llama.cpp. For each combination all sample the same
number of tokens from the same random policy, Lathe and transformers at
temperature 1 over the whole vocabulary, llama.cpp without sampling, which its
benchmark leaves out; each in a process of its own, one after the other. With
bfloat16 weights Lathe is measured with products in float32 and in bfloat16.
What is timed is steps of decoding: the time for prompts and first tokens is
taken away. GB/s is weights read, once for each step; the share is of what the
same threads read from memory at best, measured in the same process. Each
figure is the best of three. The ratio by CPU time counts on a machine with
other work.
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


def to_gguf(folder, path, shape, dtype):
    """Writes the policy for llama.cpp, without a vocabulary."""
    import gguf
    import torch
    from safetensors.torch import load_file

    c = SHAPES[shape]
    out = gguf.GGUFWriter(path, "qwen2")
    out.add_context_length(2048)
    out.add_embedding_length(c["hidden_size"])
    out.add_block_count(c["num_hidden_layers"])
    out.add_feed_forward_length(c["intermediate_size"])
    out.add_head_count(c["num_attention_heads"])
    out.add_head_count_kv(c["num_key_value_heads"])
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_freq_base(c.get("rope_theta", 1e4))
    out.add_vocab_size(c["vocab_size"])
    out.add_tokenizer_model("none")
    names = {
        "model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
        "model.layers.": "blk.",
    }
    for name, tensor in load_file(os.path.join(folder, "model.safetensors")).items():
        for old, new in names.items():
            name = name.replace(old, new)
        if dtype == "bfloat16" and tensor.dim() > 1:
            out.add_tensor(name, tensor.view(torch.uint8).numpy(), raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            out.add_tensor(name, tensor.float().numpy())
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def measure_llama(program, model, batch, threads, tokens):
    found = []
    for _ in range(20):
        with tempfile.TemporaryFile("w+") as out:
            subprocess.run([program, "-m", model, "-c", str((PROMPT + tokens) * batch), "-b", "2048", "-ub", "512", "-npp", str(PROMPT), "-ntg", str(tokens),
                            "-npl", str(batch), "-t", str(threads), "-tb", str(threads), "--output-format", "jsonl"],
                           check=True, stdout=out, stderr=subprocess.DEVNULL)
            out.seek(0)
            found += [json.loads(line)["speed_tg"] for line in out if line.startswith("{")]
        if len(found) == 3:  # a thread writes them, which the program's end may outrun
            return max(found)
    raise RuntimeError(f"{program} printed {len(found)} results in 20 runs")


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


def measure_ours(binary, folder, batch, threads, tokens, compute):
    env = dict(os.environ, LATHE_BENCH_POLICY=folder, LATHE_BENCH_COMPUTE=compute, LATHE_BENCH_BATCH=str(batch), LATHE_BENCH_THREADS=str(threads),
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
    parser.add_argument("--llama", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        binary = os.path.join(temporary, "cpu.test")
        subprocess.run([args.go, "test", "-c", "-o", binary, "./pkg/policy/cpu"], check=True, cwd=ROOT)
        print("policy  weights   products  threads batch |     lathe  transformers  ratio  by CPU  llama.cpp  ratio | GB/s  of memory | peak MB"
              "  transformers | prompts: ratio", flush=True)
        for shape in args.shapes.split(","):
            for dtype in args.dtypes.split(","):
                folder, model = os.path.join(temporary, f"{shape}-{dtype}"), os.path.join(temporary, f"{shape}-{dtype}.gguf")
                make(folder, shape, dtype)
                if args.llama:
                    to_gguf(folder, model, shape, dtype)
                for threads in map(int, args.threads.split(",")):
                    for batch in map(int, args.batches.split(",")):
                        theirs = measure_peer(folder, batch, threads, TOKENS[shape])
                        llama = measure_llama(args.llama, model, batch, threads, TOKENS[shape]) if args.llama else float("nan")
                        for products in {"float32": ["float32"], "bfloat16": ["float32", "bfloat16"]}[dtype]:
                            ours = measure_ours(binary, folder, batch, threads, TOKENS[shape], "BF16" if products == "bfloat16" else "F32")
                            print(f"{shape:6}  {dtype:9} {products:9} {threads:6} {batch:5} | {ours['tokens/s']:9.1f} {theirs['tokens/s']:13.1f}"
                                  f" {ours['tokens/s'] / theirs['tokens/s']:6.1f} {ours['tokens/cpu-s'] / theirs['tokens/cpu-s']:7.1f}"
                                  f" {llama:10.1f} {ours['tokens/s'] / llama:6.2f} | {ours['weight-GB/s']:4.1f}"
                                  f" {ours['weight-GB/s'] / ours['memory-GB/s']:9.0%} | {ours['peak-MB']:7.0f}"
                                  f" {theirs['peak-MB']:13.0f} | {ours['prompt-tokens/s'] / theirs['prompt-tokens/s']:14.1f}",
                                  flush=True)


if __name__ == "__main__":
    main()
