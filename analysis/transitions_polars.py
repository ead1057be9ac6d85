#!/usr/bin/env python3
"""What became of first turns, by iteration (FlipTS Fig. 3), over the seeds of a recipe.

    python3 analysis/transitions_polars.py runs/flipts/small-s1 runs/flipts/small-s2

Reads the scores of training of each run with polars, and prints a line for each
iteration: the iteration, and the shares of F2S, S2S, S2F and F2F in percent, means over
runs. F2S is a trace whose first turn fails and whose last succeeds. Traces of one turn,
and failures of ours, are left out. `lathe paper flipts` prints the same numbers.
"""

import pathlib
import sys

import polars as pl

KINDS = ["F2S", "S2S", "S2F", "F2F"]


def transitions(run):
    """The shares of a run by iteration."""
    tables = []
    # A later wave (w01, w02 …) has the whole traces of those that went on.
    for wave, file in sorted((f.parent.parent.name, f) for f in pathlib.Path(run).glob("iter/*/**/score/*.parquet")):
        iteration = int(file.relative_to(pathlib.Path(run, "iter")).parts[0])
        number = int(wave[1:]) if wave.startswith("w") else 0
        rows = pl.read_parquet(file, columns=["instance_id", "sample", "outcome", "turns"])
        outcomes = pl.col("turns").list.eval(pl.element().struct.field("outcome").cast(pl.String))
        tables.append(rows.select(
            pl.lit(iteration).alias("iteration"), pl.lit(number).alias("wave"), "instance_id", "sample",
            pl.col("outcome").cast(pl.String), outcomes.alias("turns"),
        ))
    if not tables:
        sys.exit(f"{run} holds no scores")
    traces = pl.concat(tables).sort("wave").unique(["instance_id", "sample"], keep="last")
    traces = traces.filter(pl.col("outcome").is_in(["ok", "wrong", "invalid", "timeout"]) & (pl.col("turns").list.len() > 1))

    def letter(turn):
        return pl.when(turn == "ok").then(pl.lit("S")).otherwise(pl.lit("F"))

    became = pl.concat_str(letter(pl.col("turns").list.first()), pl.lit("2"), letter(pl.col("turns").list.last()))
    return traces.group_by("iteration").agg([(100 * (became == kind).mean()).alias(kind) for kind in KINDS])


def main(runs):
    if not runs:
        sys.exit(__doc__)
    shares = pl.concat([transitions(run) for run in runs])
    for row in shares.group_by("iteration").agg(pl.col(KINDS).mean()).sort("iteration").iter_rows():
        print(row[0], *(f"{share:.3f}" for share in row[1:]), sep="\t")


if __name__ == "__main__":
    main(sys.argv[1:])
