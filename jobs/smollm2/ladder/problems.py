#!/usr/bin/env python3
"""problems.py DATA FOLDER writes the problems of these recipes into FOLDER, from DATA/data/math/{svamp,gsm8k}:

warm.jsonl    700 of SVAMP and 700 of GSM8K's training split with two or three steps, with worked solutions
train.jsonl   the same 700 of SVAMP, and 1,400 others of GSM8K with two or three steps
svamp.jsonl   the other 300 of SVAMP
gsm8k.jsonl   GSM8K's test split

A problem's kind is its rung of the ladder: svamp, gsm8k-2, gsm8k-3 and so on, by the lines of its solution.
Neither depends on a seed: files are read in their own order.
"""

import json
import pathlib
import re
import sys


def svamp(row):
    expression = re.sub(r"\.0\b", "", row["Equation"]).strip()
    if expression.startswith("(") and expression.endswith(")") and expression.count("(") == 1:
        expression = expression[1:-1].strip()
    answer = f"{row['Answer']:g}"
    return {
        "question": f"{row['Body'].strip().rstrip('.')}. {row['Question'].strip()}",
        "answer": answer,
        "kind": "svamp",
        "solution": f"{expression} = {answer}\n#### {answer}",
    }


def gsm8k(row):
    steps, answer = re.sub(r"<<.*?>>", "", row["answer"]).split("\n#### ")
    return {
        "question": row["question"],
        "answer": answer.strip(),
        "kind": f"gsm8k-{len(steps.splitlines())}",
        "solution": f"{steps}\n#### {answer.strip()}",
    }


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main(data, folder):
    words = [svamp(row) for row in json.loads((data / "data/math/svamp/SVAMP.json").read_text(encoding="utf-8"))]
    train = [gsm8k(row) for row in lines(data / "data/math/gsm8k/train.jsonl")]
    rungs = [[row for row in train if row["kind"] == f"gsm8k-{steps}"] for steps in (2, 3)]
    files = {
        "warm": words[:700] + rungs[0][:350] + rungs[1][:350],
        "train": words[:700] + rungs[0][350:1050] + rungs[1][350:1050],
        "svamp": words[700:],
        "gsm8k": [gsm8k(row) for row in lines(data / "data/math/gsm8k/test.jsonl")],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in files.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: problems.py DATA FOLDER")
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
