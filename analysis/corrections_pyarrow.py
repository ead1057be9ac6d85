#!/usr/bin/env python3
"""Net corrections by revision (ExIt Fig. 4), over the seeds of a recipe.

    python3 analysis/corrections_pyarrow.py runs/sweep/quickstart-s1 runs/sweep/quickstart-s2

Reads the evaluation of the last policy of each run with pyarrow, and prints a line for
each step: the step, the mean over runs, and the sample standard deviation (empty of one
run). A step corrects an answer that is right after it and was wrong at first, and breaks
one that is wrong and was right. `lathe paper exit` prints the same numbers.
"""

import pathlib
import statistics
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

POLICYS = ["ok", "wrong", "invalid", "timeout"]  # outcomes that are the policy's own doing
CHAIN = ["set", "task_id", "sample"]


def net_corrections(run):
    """Net corrections of the run's last policy, by step."""
    last = max(pathlib.Path(run, "eval").glob("v*/"))
    files = sorted(last.glob("*.parquet"))
    if not files:
        sys.exit(f"{last} holds no evaluation")
    columns = [*CHAIN, "step", "outcome"]
    answers = pa.concat_tables(pq.read_table(file, columns=columns) for file in files)
    answers = answers.filter((pc.field("sample") >= 0) & pc.field("outcome").isin(POLICYS))
    is_right = pc.cast(pc.equal(answers["outcome"].cast("string"), "ok"), "int64")
    answers = answers.drop_columns(["outcome"]).append_column("right", is_right)
    first = answers.filter(pc.field("step") == 0).drop_columns(["step"]).rename_columns([*CHAIN, "right_first"])
    both = answers.join(first, CHAIN, join_type="inner")
    both = both.append_column("net", pc.subtract(both["right"], both["right_first"]))
    by_step = both.group_by("step").aggregate([("net", "sum")]).sort_by("step")
    return dict(zip(by_step["step"].to_pylist(), by_step["net_sum"].to_pylist()))


def main(runs):
    if not runs:
        sys.exit(__doc__)
    by_run = [net_corrections(run) for run in runs]
    for step in sorted(set.intersection(*map(set, by_run))):
        values = [net[step] for net in by_run]
        deviation = f"{statistics.stdev(values):.3f}" if len(values) > 1 else ""
        print(step, f"{statistics.mean(values):.3f}", deviation, sep="\t")


if __name__ == "__main__":
    main(sys.argv[1:])
