"""Where a training step's time goes on one core, and how near each part is to its limit.

    python analysis/bench_parts.py [--millions 5,27] [--steps 6] [--go go]

Needs: Go. A step of TestPeerChild in pkg/policy/cpu (forward, backward, AdamW)
is profiled on one thread, so that every sample has its whole stack. The limits
are measured in the same run: products against tiles whose operands stay in the
caches (BenchmarkPanels), the optimizer against what one core reads from memory
(lathe policy bench).
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = {  # vocabulary, width, inner width, layers, heads, key-value heads, head width; as benchConfig
    5: (4096, 256, 640, 6, 4, 2, 64),
    27: (8192, 512, 1408, 8, 8, 4, 64),
    494: (151936, 896, 4864, 24, 14, 2, 64),
}
SEQUENCES = {5: 8, 27: 8, 494: 2}
TOKENS = 256
# The first part whose pattern a stack matches has the sample.
PARTS = {
    "optimizer": r"cpu\.\(\*Engine\)\.Step|adamW",
    "head and loss": r"cpu\.\(\*head\)",
    "attention": r"[aA]ttend",
    "weights packed and transposed": r"readyBackward|\.pack\(|gemm\.pack|\.Transpose|settle",
    "projections": r"gemm\.",
    "norms, SwiGLU, rotary": r"vec\.|cpu\.",
    "all else": r".",
}
SETUP = r"policytest|cpu\.New|randomSource|testing\.tRunner\.func|runtime/pprof"


def seconds(binary, profile, focus, ignore):
    command = ["go", "tool", "pprof", "-top", "-unit=s", f"-focus={focus}", f"-ignore={'|'.join(ignore)}", binary, profile]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    shown = re.search(r"Showing nodes accounting for ([\d.]+)s", out)
    return float(shown.group(1)) if shown else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", default="5,27")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--go", default="go")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for package in ("cpu", "gemm"):
            path = {"cpu": "./pkg/policy/cpu", "gemm": "./pkg/gemm"}[package]
            subprocess.run([args.go, "test", "-c", "-o", str(folder / package), path], check=True, cwd=ROOT)
        panels = subprocess.run([folder / "gemm", "-test.run", "^$", "-test.bench", "^BenchmarkPanels$"], check=True, capture_output=True, text=True).stdout
        limit = {mode: float(re.search(rf"BenchmarkPanels/{name}\S*\s.*?([\d.]+) GF/s", panels).group(1))
                 for mode, name in (("float32", "float32"), ("compute bfloat16", "pairs"))}
        for millions in map(int, args.millions.split(",")):
            vocabulary, width, inner, layers, heads, kv, head = SHAPES[millions]
            projections = layers * (width * (heads + 2 * kv) * head + heads * head * width + 3 * width * inner)
            tokens = SEQUENCES[millions] * TOKENS
            for mode in limit:
                case = {"millions": millions, "sequences": SEQUENCES[millions], "tokens": TOKENS, "threads": 1, "warmup": 1, "steps": args.steps, "mode": mode}
                subprocess.run([folder / "cpu", "-test.run", "^TestPeerChild$", f"-test.cpuprofile={folder / 'profile'}"], check=True, capture_output=True,
                               env=dict(os.environ, LATHE_PEER_CASE=json.dumps(case), GOMAXPROCS="1"))
                steps, ignore, parts = args.steps + 1, [SETUP], {}
                for part, pattern in PARTS.items():
                    parts[part] = seconds(str(folder / "cpu"), str(folder / "profile"), pattern, ignore) / steps
                    ignore.append(pattern)
                whole = sum(parts.values())
                print(f"{millions}M weights, {mode}: {whole:.3f} s of CPU a step of {tokens} tokens")
                for part, spent in parts.items():
                    note = ""
                    if part == "projections":
                        speed = 6 * projections * tokens / spent / 1e9
                        note = f"{speed:.0f} GFLOP/s, {speed / limit[mode]:.0%} of {limit[mode]:.0f} with operands in the caches"
                    elif part == "head and loss":
                        speed = 6 * vocabulary * width * tokens / spent / 1e9
                        note = f"{speed:.0f} GFLOP/s with softmax and loss, {speed / limit[mode]:.0%}"
                    elif part == "optimizer":
                        note = f"{28 * (projections + vocabulary * width) / spent / 1e9:.1f} GB/s of weights, gradients and moments"
                    print(f"  {part:30} {spent:7.3f} s {spent / whole:6.1%}  {note}")


if __name__ == "__main__":
    main()
