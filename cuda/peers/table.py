"""Prints one table of what gpu-check.sh has left in a folder, and writes it as
table.txt and, with all numbers, as summary.json there.

    python table.py FOLDER

What is missing or cannot be read is told in the table; the status is 0 whenever
a table was printed.
"""

import json
import os
import sys


def lines(path, problems):
    """The lines of JSON of a file; one that was cut off is left out."""
    if not os.path.exists(path):
        return []
    found = []
    with open(path, errors="replace") as f:
        for number, line in enumerate(f, 1):
            try:
                if line.strip():
                    found.append(json.loads(line))
            except ValueError:
                problems.append(f"line {number} of {os.path.basename(path)} is no JSON")
    return found


def key(case):
    return (case["what"], case["model"], case.get("sequences") or case.get("batch"), case["tokens"], case.get("responses"), case.get("lora"))


def share(a, kernels):
    """Of the ceiling measured: of products in training, of the memory's speed in decoding."""
    if a.get("flops_per_second") and kernels.get("product_flops_per_second"):
        return a["flops_per_second"] / kernels["product_flops_per_second"]
    if a.get("bytes_per_second") and kernels.get("copy_bytes_per_second"):
        return a["bytes_per_second"] / kernels["copy_bytes_per_second"]
    return None


def text(value, form):
    return "-" if value is None else format(value, form)


def products(kernels):
    """The benchmark's products that were measured on both paths, by name: the lines by mma and by wgmma."""
    paths = {}
    for line in kernels.get("lines", []):
        name, _, path = line["name"].rpartition(" ")
        if path in ("mma", "wgmma"):
            paths.setdefault(name, {})[path] = line
    return {name: (p["mma"], p["wgmma"]) for name, p in paths.items() if len(p) == 2}


def speed_rows(ours, by_wgmma, theirs, kernels):
    rows = []
    for k in list(ours) + [k for k in theirs if k not in ours]:
        a, b = ours.get(k, {}), theirs.get(k, {})
        what, model, count, tokens, responses, lora = k
        name = f"{what} {model} {count}x{tokens}" + (" shared" if responses else "") + (f" LoRA {lora}" if lora else "")
        row = {"case": name, "lathe": a, "lathe_wgmma": by_wgmma.get(k, {}), "pytorch": b,
               "share_of_ceiling": share(a, kernels)}
        rows.append(row)
    return rows


def main():
    folder, problems, printed = sys.argv[1], [], []

    def say(line=""):
        printed.append(line)
        print(line)

    def of(name):
        return lines(os.path.join(folder, name), problems)

    def ends(name, what):
        """How each ended last, with the seconds of all that it was tried."""
        last = {}
        for s in of(name):
            last[s[what]] = dict(s, seconds=s["seconds"] + last.get(s[what], {"seconds": 0})["seconds"])
        return list(last.values())

    stages, steps = ends("stages.jsonl", "stage"), ends("steps.jsonl", "step")
    tests = {t["test"]: t for t in of("twins.jsonl")}
    kernels = {}
    try:
        with open(os.path.join(folder, "kernels.json")) as f:
            kernels = json.load(f)
    except (OSError, ValueError) as e:
        problems.append(f"no ceilings: {e}")
    machine = []
    if os.path.exists(os.path.join(folder, "machine.txt")):
        with open(os.path.join(folder, "machine.txt"), errors="replace") as f:
            machine = f.read().splitlines()
    rows = speed_rows(*({key(c): c for c in of(name)} for name in ("lathe.jsonl", "lathe-wgmma.jsonl", "pytorch.jsonl")), kernels)
    invariance = of("invariance.jsonl")

    say()
    for line in machine:
        say(line)
    if kernels:
        say(f"ceilings measured here: {kernels['product_flops_per_second'] / 1e12:.0f} TFLOP/s in bfloat16, "
            f"{kernels['copy_bytes_per_second'] / 1e12:.2f} TB/s copied")
    for by in ("mma", "wgmma", "float", "cuBLASLt"):
        own = [x for x in invariance if x["by"] == by]
        if own:
            say(f"a row's bits whatever the rows around it, {by}: {sum(x['differing'] == 0 for x in own)} of {len(own)} shapes the same")
    beside = [x for x in invariance if x["by"] == "wgmma beside mma"]
    if beside:
        say(f"wgmma has the bits of mma in {sum(x['differing'] == 0 for x in beside)} of {len(beside)} shapes")
    if products(kernels):
        say(f"{'product':<32} {'mma us':>12} {'of ceiling':>10} {'wgmma us':>12} {'of ceiling':>10} {'ratio':>6}")
    for name, (a, b) in products(kernels).items():
        say(f"{name:<32} {a['seconds'] * 1e6:>12.1f} {a['fraction']:>10.1%} {b['seconds'] * 1e6:>12.1f} {b['fraction']:>10.1%} "
            f"{a['seconds'] / b['seconds']:>6.2f}")
    if rows:
        say(f"{'case':<32} {'Lathe tok/s':>12} {'by wgmma':>12} {'PyTorch':>12} {'ratio':>6} {'of ceiling':>10} {'GB':>7} {'PyTorch':>7}")
    for r in rows:
        a, b, wgmma = r["lathe"], r["pytorch"], r["lathe_wgmma"].get("tokens_per_second") or None
        speeds = [x.get("tokens_per_second") or None for x in (a, b)]
        ratio = speeds[0] / speeds[1] if all(speeds) else None
        held = [x["peak_bytes"] / 1e9 if x.get("peak_bytes") else None for x in (a, b)]
        say(f"{r['case']:<32} {text(speeds[0], '>12.0f'):>12} {text(wgmma, '>12.0f'):>12} {text(speeds[1], '>12.0f'):>12} {text(ratio, '>6.2f'):>6} "
            f"{text(r['share_of_ceiling'], '>10.1%'):>10} {text(held[0], '>7.1f'):>7} {text(held[1], '>7.1f'):>7}")
        for by, x in (("Lathe", a), ("by wgmma", r["lathe_wgmma"]), ("PyTorch", b)):
            if x.get("error"):
                say(f"    {by} FAILED: {x['error'][:110]}")
    for what, ended in (("stage", stages), ("step", steps)):
        say(f"{what:<32} {'result':>12} {'seconds':>12}")
        for s in ended:
            result = {0: "ok", 124: "too slow", 125: "left out", 126: "skipped"}.get(s["status"], f"FAILED {s['status']}")
            say(f"{s[what]:<32} {result:>12} {s['seconds']:>12}" + (f"  stage {s['because']} failed" if s.get("because") else ""))
    for t in tests.values():
        if "error" in t:
            say(f"    {t['test']} FAILED: {t['error']}")
    for problem in problems:
        say(problem)
    summary = {"machine": machine, "stages": stages, "steps": steps, "tests": list(tests.values()), "speed": rows, "invariance": invariance, "kernels": kernels, "problems": problems}
    with open(os.path.join(folder, "summary.json"), "w") as f:
        json.dump(summary, f, indent=1)
    with open(os.path.join(folder, "table.txt"), "w") as f:
        f.write("\n".join(printed) + "\n")


if __name__ == "__main__":
    main()
