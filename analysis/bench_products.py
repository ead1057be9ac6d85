"""Products of Lathe and of oneDNN through PyTorch, side by side.

    python analysis/bench_products.py [--seconds 0.5] [--rounds 2] [--go go]

Needs: pip install torch==2.15.0; Go. Shapes are those of BenchmarkPeer in
pkg/gemm: m x k x n, a projection of m tokens from k to n (packed; with few rows
it is decoding), or a weight's gradient (TN), which sums over k tokens. Either
side is measured in a process of its own, one shape after the other and --rounds
times over, in many rounds of 0.2 GFLOP or of one product, and the fastest
counts: other programs only ever slow things down. PyTorch holds its operands in
the type that it computes in and gives a result in it; Lathe's rows and results
are float32, and rows are rounded on the way. So the last two columns have
PyTorch do the same in bfloat16: round float32 rows, multiply, and widen the
result (as autocast does).
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def peer(op, m, k, n, dtype, threads, seconds):
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    same = dtype == "as Lathe"
    kind = torch.bfloat16 if same else getattr(torch, dtype)
    rows = torch.float32 if same else kind
    if op == "packed":
        a, w = torch.randn(m, k).to(rows), torch.randn(n, k).to(kind)
        product = lambda: torch.nn.functional.linear(a.to(kind), w).to(rows)
    else:
        a, w = torch.randn(k, m).to(rows), torch.randn(k, n).to(rows)
        product = lambda: (a.to(kind).t() @ w.to(kind)).to(rows)
    best, began, rounds = float("inf"), time.perf_counter(), 0
    with torch.inference_mode():
        while rounds < 3 or time.perf_counter() - began < seconds:
            start = time.perf_counter()
            for _ in range(max(1, int(2e8 / (2 * m * k * n)))):
                product()
            best = min(best, (time.perf_counter() - start) / max(1, int(2e8 / (2 * m * k * n))))
            rounds += 1
    return 2 * m * k * n / best / 1e9


def peers(cases, seconds):
    """GFLOP/s of each case, in one process for each number of threads."""
    found = {}
    for threads in sorted({case[-1] for case in cases}):
        mine = [case for case in cases if case[-1] == threads]
        out = subprocess.run([sys.executable, __file__, "--peer", json.dumps([mine, seconds])], check=True, capture_output=True, text=True,
                             env=dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads)))
        found.update(zip(map(tuple, mine), json.loads(out.stdout.splitlines()[-1])))
    return found


def ours(binary, seconds):
    out = subprocess.run([binary, "-test.run", "^$", "-test.bench", "^BenchmarkPeer$", "-test.benchtime", f"{seconds}s", "-test.cpu", "2"],
                         check=True, capture_output=True, text=True).stdout
    found = {}
    for line in out.splitlines():
        match = re.match(r"BenchmarkPeer/(\w+)/(\d+)x(\d+)x(\d+)/(\w+)/(\d)-2\s.*?([\d.]+) GF/s", line)
        if match:
            op, m, k, n, dtype, threads, speed = match.groups()
            found[op, int(m), int(k), int(n), dtype, int(threads)] = float(speed)
    return found


def main():
    if sys.argv[1:2] == ["--peer"]:
        cases, seconds = json.loads(sys.argv[2])
        return print(json.dumps([peer(*case, seconds) for case in cases]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--go", default="go")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        binary = os.path.join(temporary, "gemm.test")
        subprocess.run([args.go, "test", "-c", "-o", binary, "./pkg/gemm"], check=True, cwd=ROOT)
        best = {}, {}
        for _ in range(args.rounds):
            for side, found in zip(best, (ours(binary, args.seconds), None)):
                if found is None:
                    found = peers([*best[0], *((*case[:4], "as Lathe", case[5]) for case in best[0] if case[4] == "bfloat16")], args.seconds)
                for case, speed in found.items():
                    side[case] = max(side.get(case, 0), speed)
    print("product  m x k x n          threads | float32: Lathe  oneDNN  ratio | bfloat16: Lathe  oneDNN  ratio  as Lathe  ratio  (GFLOP/s)")
    for case in best[0]:
        op, m, k, n, dtype, threads = case
        if dtype != "float32":
            continue
        half, same = (op, m, k, n, "bfloat16", threads), (op, m, k, n, "as Lathe", threads)
        print(f"{op:8} {f'{m} x {k} x {n}':18} {threads:7} | {best[0][case]:14.1f} {best[1][case]:7.1f} {best[0][case] / best[1][case]:6.2f}"
              f" | {best[0][half]:15.1f} {best[1][half]:7.1f} {best[0][half] / best[1][half]:6.2f} {best[1][same]:9.1f} {best[0][half] / best[1][same]:6.2f}")


if __name__ == "__main__":
    main()
