"""Log a run's numbers, which lathe export writes to standard input, with wandb or trackio.

    tracker.py wandb|trackio FOLDER RUNID NAME

A line is {"step", "name", "value"}. What was logged before stands in FOLDER/RUNID.json, so that
the command can be repeated while the run goes on. wandb writes its offline files and never
connects; trackio writes its database. Both libraries are those of the Python at hand.
"""

import json
import os
import sys


def rows(lines, logged):
    """The new numbers of each step of training and of the evaluations, in their order."""
    found = {}
    for line in lines:
        point = json.loads(line)
        part = "held_out" if point["name"].startswith("held_out/") else "training"
        if point["step"] not in logged[part]:
            found.setdefault((part, point["step"]), {})[point["name"]] = point["value"]
    return sorted(found.items(), key=lambda row: (row[0][1], row[0][0] != "training"))


def wandb(folder, run, name):
    import wandb

    os.environ["WANDB_SILENT"] = "true"
    # wandb makes a folder FOLDER/wandb/offline-run-… each time; all have one id, and wandb sync joins them.
    log = wandb.init(project="lathe", id=run, name=name, dir=folder, mode="offline", resume="allow")
    log.define_metric("iteration")
    log.define_metric("version")
    log.define_metric("*", step_metric="iteration")
    log.define_metric("held_out/*", step_metric="version")

    def put(part, step, numbers):
        log.log({**numbers, "iteration" if part == "training" else "version": step})

    return put, log.finish


def trackio(folder, run, name):
    os.environ["TRACKIO_DIR"] = os.path.join(folder, "trackio")
    import trackio

    trackio.init(project="lathe", name=f"{name} {run}", resume="allow", embed=False)

    def put(part, step, numbers):
        trackio.log(numbers, step=step)

    return put, trackio.finish


def main(tracker, folder, run, name):
    folder = os.path.abspath(folder)
    os.makedirs(folder, exist_ok=True)
    state = os.path.join(folder, f"{run}.{tracker}.json")
    logged = {"training": [], "held_out": []}
    if os.path.exists(state):
        with open(state, encoding="utf-8") as file:
            logged = json.load(file)
    new = rows(sys.stdin, logged)
    if new:
        put, finish = {"wandb": wandb, "trackio": trackio}[tracker](folder, run, name)
        for (part, step), numbers in new:
            put(part, step, numbers)
            logged[part].append(step)
        finish()
        with open(state + ".part", "w", encoding="utf-8") as file:
            json.dump(logged, file)
        os.replace(state + ".part", state)
    print(f"{len(new)} new {'step' if len(new) == 1 else 'steps'} in {folder}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing}: this Python has no {sys.argv[1]}")
