#!/usr/bin/env python3
"""Runs the miniature recipes of jobs/COVERAGE.md, cut short, and makes every item from them.

    LATHE_DATA=runs/data analysis/coverage_runs.py --lathe bin/lathe --out runs/coverage [--only exit]

Each recipe runs with one seed, a short warm start and a few iterations, so that an item shows
that its command works, and nothing about a method. The recipes of machine-learning tasks, which
$LATHE_DATA/mle holds, begin with the policy that the first of them has warmed up. A command
goes on where it was stopped. OUT/items.txt lists the items: how many numbers each has, or
what is missing.
"""

import argparse
import glob
import json
import os
import pathlib
import subprocess

JOBS = pathlib.Path(__file__).resolve().parent.parent / "jobs"
SHORT = ["schedule.iterations=3"]
WARMED = ["warm_start.steps=200", "warm_start.chunk=200"]
FEW = SHORT + WARMED + ["evaluation.problems=8"]
WARM = SHORT + ["policy.new=null", "policy.path={out}/warm/mlerl-s1/policy/v000000", "warm_start=null"]
# Of each paper: settings, and the recipes that run with them.
BATCHES = {
    "exit": [(FEW, ["exit/mini/puzzle-*", "exit/mini/tools-*", "mixed/both", "mixed/sort", "mixed/colour"]), (WARM, ["exit/mini/mle-*"])],
    "flipts": [(FEW, ["flipts/small*"])],
    "ace": [(WARM, ["ace/mini/*"])],
    "rlmle": [(WARM, ["rlmle/mini/*"])],
    "mlerl": [(WARM, [f"mlerl/mini/{n}" for n in ("mlerl", "all-valid", "reset", "signed")]),
              (["warm_start.steps=20"], ["mlerl/mini/self-distillation", "mlerl/mini/distillation-*"]),
              ([], ["mlerl/mini/undistilled"])],
}


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--lathe", default="bin/lathe")
    ask.add_argument("--out", type=pathlib.Path, required=True)
    ask.add_argument("--only", choices=BATCHES, action="append")
    options = ask.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ, LATHE_RUNS=str(out / "mlerl-0"))

    def lathe(*words):
        said = subprocess.run([options.lathe, *map(str, words)], env=environment, text=True, stdout=subprocess.PIPE)
        if said.returncode:
            raise SystemExit(f"lathe {' '.join(map(str, words))}: exit code {said.returncode}")
        return said.stdout

    def sweep(folder, recipes, settings):
        found = sorted(f for r in recipes for f in glob.glob(str(JOBS / (r + ".yaml"))))
        lathe("sweep", *found, "--out", folder, "--parallel", 2, *(w for s in settings for w in ("--set", s.format(out=out))))

    lines = []
    for paper in options.only or BATCHES:
        folders = []
        for i, (settings, recipes) in enumerate(BATCHES[paper]):
            if settings == WARM:
                sweep(out / "warm", ["mlerl/mini/mlerl"], WARMED + ["schedule.iterations=0"])
            if i == 1 and paper == "mlerl":
                for kind in ("all", "valid", "selected"):
                    lathe("pool", folders[0] / "mlerl-s1", "--select", kind, "--out", folders[0] / f"{kind}.parquet")
            folders.append(out / f"{paper}-{i}")
            sweep(folders[-1], recipes, settings)
        for item in json.loads(lathe("paper", paper, *folders, "--json"))["items"]:
            made = f"{len(item['numbers'])} numbers" if item["numbers"] else "nothing: " + "; ".join(item["missing"])
            lines.append(f"{paper:7} {item['name']:28} {item['title']:28} {made}")
    (out / "items.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
