"""Makes the reference boards: runs a fixed grid of baselines on each task.

    python3 baselines.py [--tasks ID,ID]

writes boards/ID.csv and the task's line of boards/SHA256SUMS. The scores are
those of package mlebench (score.go). Every model has one thread and a fixed
seed. It takes minutes for a task.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import filters
import forecasts
import grids
import kit
import prepare

FOLDER = pathlib.Path(__file__).parent
NAMES = {"lecture-ratings": ["student", "lecturer", "department"]}  # numbers that name


def read(content):
    return pd.read_csv(content, keep_default_na=False, na_values=[""])


def features(task, frame, folder):
    """The columns that the models are given."""
    x = frame.drop(columns=[task.id_column, *[t for t in task.targets if t in frame]])
    if task.id == "splice-junctions":
        x = pd.DataFrame([list(s) for s in x["sequence"]]).add_prefix("base_")
    if task.id == "handwritten-digits":
        x = pd.DataFrame([filters.pixels(folder / f).ravel() for f in x["file"]]).add_prefix("pixel_")
    if "date" in x and x["date"].dtype == object:
        day = pd.to_datetime(x.pop("date"))
        x = x.assign(year=day.dt.year, day=day.dt.dayofyear)
    elif task.modality == "series":
        x = forecasts.calendar(frame["date"]).join(x)
    return x


def predict(task, classes, ratings, estimator, train, y, test):
    """What a fitted model says of the test rows, as cells of a submission."""
    columns = []
    for target in task.targets:
        fitted = clone(estimator).fit(train, y[target])
        if task.metric in kit.LABEL or task.metric == "f1":
            columns.append(fitted.predict(test))
        elif task.metric in kit.PER_CLASS or task.metric == "map@3":
            shares = pd.DataFrame(fitted.predict_proba(test), columns=fitted.classes_.astype(str))
            if task.metric == "map@3":
                best = np.argsort(-shares.to_numpy(), axis=1, kind="stable")[:, :3]
                return [[" ".join(shares.columns[i] for i in row)] for row in best]
            return shares.reindex(columns=classes, fill_value=0).to_numpy().round(9).tolist()
        elif task.metric in kit.CHANCE:
            columns.append(fitted.predict_proba(test)[:, 1])
        else:
            value = np.asarray(fitted.predict(test), dtype=float).ravel()
            if task.metric == "quadratic-weighted-kappa":
                value = np.clip(np.round(value), *ratings).astype(int)
            elif task.metric == "poisson-deviance":
                value = np.maximum(value, 0.01)
            elif task.metric == "rmsle":
                value = np.maximum(value, 0)
            columns.append(value)
    return list(map(list, zip(*columns)))


def grid(task):
    if task.modality == "text" and task.id != "splice-junctions":
        return grids.text_regressors() if task.metric == "median-absolute-error" else grids.text_classifiers()
    if task.metric == "quadratic-weighted-kappa":
        wanted = ("logistic", "random forest", "boosting rate=0.1 steps=100")
        return grids.regressors(task.metric) + [(f"{n} of classes", k, e) for n, k, e in grids.classifiers(False) if n.startswith(wanted)]
    if task.metric in kit.LABEL | kit.PER_CLASS | kit.CHANCE | {"f1", "map@3"}:
        weighed = task.metric in ("f1", "f1-macro", "balanced-accuracy")
        return grids.classifiers(len(task.targets) > 1) + (grids.balanced() if weighed else [])
    return grids.regressors(task.metric)


def submissions(task, classes, public):
    """Name and cells of each baseline's submission."""
    train, test = read(public / "train.csv"), read(public / "test.csv")
    if task.id == "photograph-denoising":
        yield from filters.submissions(train, test, public)
        return
    if task.modality == "series":
        yield from forecasts.submissions(task, train, test)
    if task.id == "mauna-loa-co2":
        return
    x, x_test, y = features(task, train, public), features(task, test, public), train[task.targets]
    names = [c for c in x if x[c].dtype == object] + NAMES.get(task.id, [])
    for frame in (x, x_test):
        frame[names] = frame[names].fillna("").astype(str)
    if task.modality == "text" and task.id != "splice-junctions":
        made = {kind: grids.text(*how) for kind, how in grids.FEATURES.items()}
    else:
        if task.id not in NAMES:  # a column with more names than that says little
            names = [c for c in names if x[c].nunique() <= 100]
        numbers = [c for c in x if x[c].dtype != object]
        made = {"scaled": grids.scaled(numbers, names, task.id in NAMES), "coded": grids.coded(numbers, names)}
    given = {}
    for kind, transform in made.items():
        given[kind] = transform.fit_transform(x), transform.transform(x_test)
    ratings = (y.min().min(), y.max().max())
    for name, kind, estimator in grid(task):
        yield name, predict(task, classes, ratings, estimator, given[kind][0], y, given[kind][1])


def score(task, classes, folder, names):
    """The scores of the submissions 0.csv, 1.csv, … in a folder, by package mlebench."""
    spec = {"ID": task.id, "Metric": task.metric, "IDColumn": task.id_column, "Columns": task.targets, "Classes": classes}
    (folder / "task.json").write_text(json.dumps(spec))
    files = [str(folder / f"{i}.csv") for i in range(len(names))]
    command = ["go", "run", str(FOLDER / "score.go"), str(folder / "task.json"), str(folder / "answers.csv"), *files]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=FOLDER).stdout.splitlines()
    return [(float(line), name) for line, name in zip(said, names, strict=True)]


def board(task):
    prepared = kit.prepare(task)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        public = folder / "public"
        for name, content in prepared.public.items():
            (public / name).parent.mkdir(parents=True, exist_ok=True)
            (public / name).write_bytes(content)
        (folder / "answers.csv").write_bytes(prepared.answers)
        (folder / "0.csv").write_bytes(prepared.public["sample_submission.csv"])
        names, header = ["constant"], kit.submission_columns(task, prepared.classes)
        ids = read(public / "test.csv")[task.id_column]
        for name, cells in submissions(task, prepared.classes, public):
            rows = [[i, *row] for i, row in zip(ids, cells, strict=True)]
            (folder / f"{len(names)}.csv").write_bytes(kit.write_csv(header, rows))
            names.append(name)
        scores = score(task, prepared.classes, folder, names)
    scores.sort(key=lambda s: (-s[0] if task.direction == "maximize" else s[0], s[1]))
    (kit.BOARDS / f"{task.id}.csv").write_bytes(
        kit.write_csv(["rank", "score", "baseline"], [(i + 1, points, name) for i, (points, name) in enumerate(scores)]))
    return kit.checksum(prepared), scores


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", help="names of tasks, with commas between; all without it")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of models that a grid's extremes fit badly
    for task in prepare.TASKS:
        if asked.tasks and task.id not in asked.tasks.split(","):
            continue
        began = time.monotonic()
        total, scores = board(task)
        sums = {**prepare.checksums(), task.id: total}
        (kit.BOARDS / "SHA256SUMS").write_text("".join(f"{sums[t]}  {t}\n" for t in sorted(sums)))
        print(f"{task.id}: {len(scores)} baselines, {scores[0][0]} to {scores[-1][0]}, {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
