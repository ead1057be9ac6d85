"""Writes a task's page and its task.yaml."""

import json

import sources

# How each metric is put to those who submit: what is scored, and what a row of a submission holds.
METRICS = {
    "accuracy": ("accuracy: the share of the rows whose label is right", "the predicted label"),
    "balanced-accuracy": ("balanced accuracy: the mean, over the classes, of the share of their rows whose label is right", "the predicted label"),
    "f1-macro": ("the macro-averaged F1 score: the mean, over the classes, of the harmonic mean of precision and recall", "the predicted label"),
    "f1-weighted": ("the weighted F1 score: the mean, over the classes, of the harmonic mean of precision and recall, each weighted by its number of test rows", "the predicted label"),
    "f1": ("the F1 score of class 1: the harmonic mean of its precision and recall", "0 or 1"),
    "auc-roc": ("the area under the ROC curve", "the predicted probability that the answer is 1"),
    "mean-column-wise-auc": ("the mean column-wise ROC AUC: the area under the ROC curve of each target, averaged over the targets", "the predicted probabilities that the answer is 1, one for each target"),
    "log-loss": ("the log loss (in nats) of the predicted probabilities", "the predicted probability that the answer is 1"),
    "multi-class-log-loss": ("the multi-class log loss (in nats): the mean of -log of the probability given to the true class. Each row is divided by its sum first", "the predicted probability of each class"),
    "multi-class-auc-ovr": ("the mean, over the classes, of the area under the ROC curve of that class against the rest", "the predicted probability of each class; they sum to 1"),
    "rmse": ("the root mean squared error", "the predicted value"),
    "mcrmse": ("the mean column-wise root mean squared error: the RMSE of each target, averaged over the targets", "the predicted value of each target"),
    "rmsle": ("the root mean squared logarithmic error: the RMSE of log(1 + value)", "the predicted value, above -1"),
    "mae": ("the mean absolute error", "the predicted value"),
    "median-absolute-error": ("the median absolute error: half of the rows have an error that is at most the score", "the predicted value"),
    "r2": ("the coefficient of determination, R²: 1 minus the squared error over that of the mean of the answers", "the predicted value"),
    "poisson-deviance": ("the mean Poisson deviance, the mean of 2·(y·log(y/p) - y + p) for a count y and a predicted rate p", "the predicted rate, above 0"),
    "quadratic-weighted-kappa": ("the quadratic weighted kappa of the predicted and the true ratings", "the predicted rating, a whole number"),
    "map@3": ("mean average precision at 3: a row scores 1, 1/2 or 1/3 when the true label is named first, second or third, else 0", "up to three labels, the likeliest first, with a space between them"),
}


def page(task, prepared):
    what, cell = METRICS[task.metric]
    better = "Higher is better." if task.direction == "maximize" else "Lower is better."
    sample = prepared.public["sample_submission.csv"].decode().splitlines()
    folders = sorted({name.split("/")[0] for name in prepared.public if "/" in name})
    data = [
        "- `train.csv` - the training set, with the answers",
        "- `test.csv` - the test set, without them",
        "- `sample_submission.csv` - a submission in the right form",
    ] + [f"- `{folder}/` - images" for folder in folders]
    parts = [
        f"# {task.title}",
        "## Description",
        task.about.strip(),
        "## Evaluation",
        f"Submissions are scored by {what}. {better}",
        "## Submission",
        f"For each `{task.id_column}` of `test.csv`, write {cell}. The file is a CSV file with a header and {len(sample) - 1} rows, in any order:",
        "\n".join(["```", *sample[:4], "...", "```"]),
        "## Data",
        "\n".join(data),
        "### Columns",
        task.columns.strip(),
    ]
    if prepared.classes:
        parts.append(f"The classes are {', '.join(f'`{c}`' for c in prepared.classes)}.")
    return "\n\n".join(parts) + "\n"


def task_yaml(task, prepared, worst):
    best = 1 if task.direction == "maximize" else 0
    text = json.dumps  # a JSON text is a YAML text
    lines = [
        f"name: {task.id}",
        f"title: {text(task.title, ensure_ascii=False)}",
        f"split: {task.split}",
        f"metric: {text(task.metric)}",
        f"direction: {task.direction}",
        f"id_column: {task.id_column}",
        f"target_columns: {text(task.targets)}",
    ]
    if prepared.classes:
        lines.append(f"classes: {text(prepared.classes, ensure_ascii=False)}")
    if worst is not None:
        lines.append(f"score_range: {{worst: {worst}, best: {best}}}")
        lines.append("leaderboard: {file: leaderboard.csv, of: reference}")
    lines += [
        "public: public",
        "answers: private/answers.csv",
        "sample_submission: public/sample_submission.csv",
        "description: description.md",
        f"modality: {task.modality}",
        f"source: {text(f'{task.packages[0]} {sources.version(task.packages[0])}: {task.source}', ensure_ascii=False)}",
        "limits: {wall_seconds: 300, memory_mb: 4096, processes: 64, file_mb: 1024, disk_mb: 2048, gpus: 0}",
    ]
    return "\n".join(lines) + "\n"
