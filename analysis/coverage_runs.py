#!/usr/bin/env python3
"""Runs the miniature recipes of jobs/COVERAGE.md, cut short, and makes every item from them.

    LATHE_DATA=runs/data analysis/coverage_runs.py --lathe bin/lathe --out runs/coverage [--only exit]

Each recipe runs with one seed and a few iterations, those of puzzles, tools and arithmetic
after a short warm start, so that an item shows that its command works, and nothing about a
method. The recipes of machine-learning tasks, which
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
FEW = SHORT + ["warm_start.steps=200", "warm_start.chunk=200", "evaluation.problems=8"]
WARM = SHORT + ["policy.new=null", "policy.path={out}/warm/mlerl-s1/policy/v000000", "warm_start.steps=0"]
TIMED = WARM + ["evaluation.seconds=60"]  # a budget, which items over time need
TRIES = WARM + ["evaluation.samples=32"]  # of the held-out task, whose valid programs are few
# Of each paper: settings, and the recipes that run with them.
BATCHES = {
    "exit": [(FEW, ["exit/mini/puzzle-*", "exit/mini/tools-*", "mixed/both", "mixed/sort", "mixed/colour"]), (WARM, ["exit/mini/mle-*"])],
    "flipts": [(FEW, ["flipts/small", "flipts/small-[!s]*"]), (SHORT + ["evaluation.problems=8"], ["flipts/small-step-level"])],
    "ace": [(TIMED, ["ace/mini/*"])],
    "rlmle": [(TRIES, ["rlmle/mini/rlmle"]), (WARM, ["rlmle/mini/[!r]*"])],
    "mlerl": [(TIMED, [f"mlerl/mini/{n}" for n in ("mlerl", "all-valid", "reset", "signed")]),
              (["warm_start.steps=20", "evaluation.samples=2"], ["mlerl/mini/self-distillation", "mlerl/mini/distillation-*"]),
              (["evaluation.samples=2"], ["mlerl/mini/undistilled"])],
}


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--lathe", default="bin/lathe")
    ask.add_argument("--out", type=pathlib.Path, required=True)
    ask.add_argument("--only", choices=BATCHES, action="append")
    options = ask.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ, LATHE_RUNS=str(out / "mlerl-0"), LATHE_OFFLINE=str(out / "flipts-0/small-offline-s1/iter/000001"))

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
            if settings[:len(WARM)] == WARM:
                sweep(out / "warm", ["mlerl/mini/mlerl"], ["schedule.iterations=0"])
            if i == 1 and paper == "mlerl":
                for kind in ("all", "valid", "selected"):
                    lathe("pool", folders[0] / "mlerl-s1", "--select", kind, "--out", folders[0] / f"{kind}.parquet")
            folders.append(out / f"{paper}-{i}")
            sweep(folders[-1], recipes, settings)
        for item in json.loads(lathe("paper", paper, *folders, "--json"))["items"]:
            made = f"{len(item['numbers'])} numbers" if item["numbers"] else "nothing: " + "; ".join(item["missing"])
            lines.append(f"{paper:7} {item['name']:28} {item['title']:28} {made}")
            print(lines[-1], flush=True)
    (out / "items.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
