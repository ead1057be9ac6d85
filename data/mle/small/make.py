"""Writes three small machine-learning tasks, for tests and for policies of a few
thousand weights. The data are drawn here, the programs of their demonstrations
need nothing but Python, and the boards are scores of fixed baselines.

    python3 data/mle/small/make.py

writes the folders beside it anew.
"""

import csv
import json
import pathlib
import random

FOLDER = pathlib.Path(__file__).parent


def write(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def accuracy(answers, predictions):
    return sum(a == p for a, p in zip(answers, predictions)) / len(answers)


def rmse(answers, predictions):
    return (sum((a - p) ** 2 for a, p in zip(answers, predictions)) / len(answers)) ** 0.5


def baselines(train, test):
    """Predictions of the constant, the nearest row by each column, and the mean of the
    k nearest rows (the commonest label, where y is one)."""
    labels = isinstance(train[0][-1], str)

    def together(rows):
        ys = [r[-1] for r in rows]
        return max(sorted(set(ys)), key=ys.count) if labels else sum(ys) / len(ys)

    yield [together(train)] * len(test)
    for column in (1, 2):
        yield [min(train, key=lambda r: (abs(r[column] - q[column]), r[0]))[-1] for q in test]
    for k in (1, 3, 9, 27):
        yield [together(sorted(train, key=lambda r: ((r[1] - q[1]) ** 2 + (r[2] - q[2]) ** 2, r[0]))[:k]) for q in test]


def task(name, title, text, split, metric, direction, worst, best, score, rows):
    folder = FOLDER / name
    train, test = rows[:90], rows[90:]
    write(folder / "public/train.csv", ["id", "u", "v", "y"], train)
    write(folder / "public/test.csv", ["id", "u", "v"], [r[:3] for r in test])
    constant = next(baselines(train, test))[0]
    if not isinstance(constant, str):
        constant = round(constant, 4)
    write(folder / "public/sample_submission.csv", ["id", "y"], [[r[0], constant] for r in test])
    write(folder / "private/answers.csv", ["id", "y"], [[r[0], r[3]] for r in test])
    scores = sorted((round(score([r[-1] for r in test], p), 5) for p in baselines(train, test)), reverse=direction == "maximize")
    write(folder / "leaderboard.csv", ["rank", "score"], [[i + 1, s] for i, s in enumerate(scores)])
    (folder / "description.md").write_text(
        f"# {title}\n\n{text}\n\n`train.csv` has the columns id, u, v and y; `test.csv` has all but y. "
        f"A submission has a row with id and y for each row of `test.csv`. It is scored by {metric}.\n"
    )
    (folder / "task.yaml").write_text(
        f"title: {title}\nsplit: {split}\nmodality: tabular\nsource: drawn by make.py; Apache-2.0\n"
        f"metric: {metric}\ndirection: {direction}\nid_column: id\ntarget_columns: [y]\n"
        f"score_range: {{worst: {worst}, best: {best}}}\nleaderboard: {{of: reference}}\n"
        "limits: {wall_seconds: 20, memory_mb: 512, processes: 16, file_mb: 16, disk_mb: 64}\n"
    )


def draw(seed, y):
    r = random.Random(seed)
    rows = []
    for i in r.sample(range(1000, 10000), 150):
        u, v = round(r.uniform(0, 10), 2), round(r.uniform(0, 10), 2)
        rows.append([i, u, v, y(u, v, r.gauss(0, 1))])
    return rows


HEAD = """import csv
t=list(csv.DictReader(open("input/train.csv")))
q=list(csv.DictReader(open("input/test.csv")))
"""
TAIL = """w=open("submission.csv","w")
w.write("id,y\\n")
for r in q:w.write(r["id"]+","+p(r)+"\\n")
"""
MODELS = {
    "constant": 'p=lambda r:t[0]["y"]\n',
    "nearest u": 'd=lambda r,s:abs(float(r["u"])-float(s["u"]))\np=lambda r:min(t,key=lambda s:d(r,s))["y"]\n',
    "nearest v": 'd=lambda r,s:abs(float(r["v"])-float(s["v"]))\np=lambda r:min(t,key=lambda s:d(r,s))["y"]\n',
    "nearest": 'd=lambda r,s:abs(float(r["u"])-float(s["u"]))+abs(float(r["v"])-float(s["v"]))\np=lambda r:min(t,key=lambda s:d(r,s))["y"]\n',
}
BUGS = {
    "file": ("train.csv", "trian.csv", "FileNotFoundError"),
    "import": ("import csv\n", "", "NameError"),
    "column": ('w.write("id,y\\n")', 'w.write("id,z\\n")', "column"),
}


def demonstrations():
    programs = {name: HEAD + model + TAIL for name, model in MODELS.items()}
    for program in programs.values():
        yield {"response": program}
        for right, wrong, said in BUGS.values():
            broken = program.replace(right, wrong)
            yield {"response": broken}
            yield {"kind": "debug", "parent": broken, "failed": said, "response": program}
    for name in ("constant", "nearest u", "nearest v"):
        yield {"kind": "improve", "parent": programs[name], "response": programs["nearest"]}
        yield {"kind": "diverge", "parent": programs["nearest"], "response": programs[name]}


if __name__ == "__main__":
    task("halves", "Halves", "Tell on which side of a line a point lies, y being left or right. The side of some is wrong.", "train", "accuracy", "maximize", 0.5, 1,
         accuracy, draw(1, lambda u, v, noise: "left" if u + v / 2 + noise / 2 < 7 else "right"))
    task("slope", "Slope", "Tell the height y of a place from its coordinates u and v.", "train", "rmse", "minimize", 12, 0,
         rmse, draw(2, lambda u, v, noise: round(3 * u - v + noise, 2)))
    task("bowl", "Bowl", "Tell the depth y of a bowl at the point u, v.", "test", "rmse", "minimize", 12, 0,
         rmse, draw(3, lambda u, v, noise: round((u - 5) ** 2 + (v - 4) ** 2 / 2 + noise, 2)))
    with open(FOLDER / "demonstrations.jsonl", "w") as f:
        for row in demonstrations():
            f.write(json.dumps(row) + "\n")
