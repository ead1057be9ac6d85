"""What a task is, how its rows are split, and how its folder is written."""

import csv
import hashlib
import io
import math
import pathlib
import statistics
from collections import Counter
from dataclasses import dataclass

import sources
import words

BOARDS = pathlib.Path(__file__).parent / "boards"
MOST_ROWS = 6000  # larger data sets are cut, so that a program takes seconds

LABEL = {"accuracy", "balanced-accuracy", "f1-macro", "f1-weighted"}  # a label is predicted
CHANCE = {"auc-roc", "log-loss", "mean-column-wise-auc"}  # the probability of 1, by column
PER_CLASS = {"multi-class-log-loss", "multi-class-auc-ovr"}  # a probability for each class
MAXIMIZE = LABEL | {"auc-roc", "mean-column-wise-auc", "multi-class-auc-ovr", "f1", "r2", "quadratic-weighted-kappa", "map@3"}


@dataclass(frozen=True)
class Task:
    id: str
    title: str
    metric: str  # a name of package pkg/mlebench/metric
    targets: list  # columns of the answers
    modality: str  # tabular, text, image or series
    packages: list  # Debian packages; the first holds the data
    source: str  # of the data: where they are from, and their licence
    about: str  # the page's first part: what the data are and what is asked
    columns: str  # the page's description of the columns
    make: object  # () -> Data
    split: str = "train"
    share: float = 0.18  # of the rows (or groups of rows) that are held out
    id_column: str = "id"

    @property
    def direction(self):
        return "maximize" if self.metric in MAXIMIZE else "minimize"


@dataclass(frozen=True)
class Row:
    features: tuple  # texts, in the order of the columns
    targets: tuple  # texts, in the order of the task's targets
    group: object = None  # rows of one group are on one side; None: rows of equal features are
    image: bytes = None  # a PNG file
    id: str = None  # set by the split, or before it where rows are dated
    late: bool = None  # where rows are dated: held out


@dataclass(frozen=True)
class Data:
    columns: list
    rows: list
    classes: list = None


@dataclass(frozen=True)
class Prepared:
    """The files of a task, and what the baselines need of them."""

    public: dict  # name: bytes
    answers: bytes
    classes: list


def fraction(*parts):
    """A number in [0, 1) that the parts alone decide, by SHA-256."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split(task, data):
    """The rows of train and test, with ids, in the order of the ids."""
    keyed = [(r.features + (r.image,) if r.group is None else r.group, r) for r in data.rows]
    if data.rows[0].late is None:
        keep = MOST_ROWS / len(keyed)
        keyed = [(key, r) for key, r in keyed if fraction(task.id, "cut", key) < keep]
        # The ids are places in an order that says nothing of that of the source.
        keyed = [(fraction(task.id, "order", i), key, r) for i, (key, r) in enumerate(keyed)]
        keyed.sort(key=lambda k: k[0])
        rows = [
            Row(r.features, r.targets, r.group, r.image, str(i), fraction(task.id, "split", key) < task.share)
            for i, (_, key, r) in enumerate(keyed)
        ]
    else:
        rows = [r for _, r in keyed]
    return [r for r in rows if not r.late], [r for r in rows if r.late]


def write_csv(header, rows):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue().encode()


def constant(metric, columns, classes):
    """A prediction by the answers of the training rows alone, the same for every row."""
    first = columns[0]
    most = [label for label, _ in sorted(Counter(first).items(), key=lambda c: (-c[1], c[0]))]
    if metric in LABEL or metric == "quadratic-weighted-kappa":
        return [most[0]]
    if metric in PER_CLASS:
        return [f"{first.count(c) / len(first):.6f}" for c in classes]
    if metric == "map@3":
        return [" ".join(most[:3])]
    if metric == "f1":
        return ["1"]
    return [f"{middle(metric, [float(v) for v in column]):.6g}" for column in columns]


def middle(metric, values):
    """The number that scores best when it is predicted for all of the values."""
    if metric in ("mae", "median-absolute-error"):
        return statistics.median(values)
    if metric == "rmsle":
        return math.expm1(statistics.fmean(map(math.log1p, values)))
    return statistics.fmean(values)


def submission_columns(task, classes):
    return [task.id_column] + (list(classes) if task.metric in PER_CLASS else task.targets)


def prepare(task):
    data = task.make()
    if isinstance(data, Prepared):
        return data
    train, test = split(task, data)
    images = data.rows[0].image is not None
    header = [task.id_column] + (["file"] if images else []) + data.columns

    def cells(r):
        return (r.id,) + ((f"images/{r.id}.png",) if images else ()) + r.features

    same = constant(task.metric, list(zip(*(r.targets for r in train))), data.classes)
    public = {
        "train.csv": write_csv(header + task.targets, [cells(r) + r.targets for r in train]),
        "test.csv": write_csv(header, [cells(r) for r in test]),
        "sample_submission.csv": write_csv(submission_columns(task, data.classes), [[r.id, *same] for r in test]),
    }
    if images:
        public.update({f"images/{r.id}.png": r.image for r in train + test})
    return Prepared(public, write_csv([task.id_column] + task.targets, [(r.id, *r.targets) for r in test]), data.classes)


def checksum(prepared):
    """What a board belongs to: the data of a task, not its words."""
    total = hashlib.sha256()
    for name, content in sorted(prepared.public.items()) + [("answers", prepared.answers)]:
        total.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def board(task):
    """The rows of the task's board: score and baseline, best first."""
    return [(r["score"], r["baseline"]) for r in sources.table(BOARDS / f"{task.id}.csv")]


def files(task, prepared):
    """All files of the task's folder, by name."""
    out = {f"public/{name}": content for name, content in prepared.public.items()}
    out["private/answers.csv"] = prepared.answers
    out["description.md"] = words.page(task, prepared).encode()
    worst = None
    if (BOARDS / f"{task.id}.csv").exists():
        scores = board(task)
        out["leaderboard.csv"] = write_csv(["rank", "score"], [(i + 1, score) for i, (score, _) in enumerate(scores)])
        worst = next(score for score, baseline in scores if baseline == "constant")
    out["task.yaml"] = words.task_yaml(task, prepared, worst).encode()
    return out
