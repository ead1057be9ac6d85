"""Runs a task's own grader on one submission, as MLE-bench runs its graders.

usage: grade.py ORDER, a JSON file. What came of it is written to the order's
"result": {"score": text}, {"refused": text} or {"raised": text}.
"""

import importlib.util
import json
import os
import sys
import types

MOST = 2000  # characters of a message


class InvalidSubmissionError(Exception):
    """Stands in for mlebench.grade_helpers.InvalidSubmissionError where mlebench is not installed."""


def stand_in():
    """Lets a grader import InvalidSubmissionError where mlebench is not installed."""
    if importlib.util.find_spec("mlebench") is None:
        package, helpers = types.ModuleType("mlebench"), types.ModuleType("mlebench.grade_helpers")
        helpers.InvalidSubmissionError = InvalidSubmissionError
        package.__path__, package.grade_helpers = [], helpers
        sys.modules.update({"mlebench": package, "mlebench.grade_helpers": helpers})


def grade_of(path):
    """The function grade of a file, which may import its neighbours as `.name`."""
    package = types.ModuleType("task_grader")
    package.__path__ = [os.path.dirname(path)]
    sys.modules[package.__name__] = package
    module = importlib.import_module(package.__name__ + "." + os.path.basename(path).removesuffix(".py"))
    return module.grade


def read_csv(path):
    import pandas

    try:
        return pandas.read_csv(path, float_precision="round_trip")
    except pandas.errors.EmptyDataError:
        return pandas.DataFrame()


def read_answers(path):
    if path.endswith((".jsonl", ".ndjson")):
        with open(path, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]
    return read_csv(path)


def said(error):
    return f"{type(error).__name__}: {error}"[:MOST]


def result(order):
    stand_in()
    grade = grade_of(order["grader"])
    submission, answers = order["submission"], order["answers"]
    if order["tables"] == "pandas":
        answers = read_answers(answers)
        try:
            submission = read_csv(submission)
        except (ValueError, UnicodeError) as error:
            return {"refused": "it is no table: " + said(error)}
    try:
        score = grade(submission, answers)
    except Exception as error:
        if any(kind.__name__ == "InvalidSubmissionError" for kind in type(error).__mro__):
            return {"refused": str(error)[:MOST]}
        return {"raised": said(error)}
    return {"score": repr(float(score))}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        order = json.load(file)
    sys.path[:1] = order["modules"]
    process = os.getpid()
    came = result(order)
    if os.getpid() != process:
        os._exit(1)  # a child of the grader's that came back
    with open(order["result"], "w", encoding="utf-8", errors="replace") as file:
        json.dump(came, file)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # whatever threads the grader has left


main()
