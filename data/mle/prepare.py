"""Makes machine-learning tasks from data sets that Debian packages hold.

    python3 prepare.py OUT [--tasks ID,ID] [--list]

writes a folder OUT/ID for each task. Nothing is downloaded. A task whose
package is not installed is named with what to install; the others are made,
and the exit code is 1. The last line is a SHA-256 over all that was written.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # the folder may be anybody's

import kit
import sources
import tasks_python
import tasks_r
import tasks_r_more
import tasks_text_image

TASKS = tasks_python.TASKS + tasks_r.TASKS + tasks_r_more.TASKS + tasks_text_image.TASKS


def checksums():
    lines = (kit.BOARDS / "SHA256SUMS").read_text().splitlines()
    return {task: total for total, task in (line.split() for line in lines)}


def write(task, out, expected):
    """Writes OUT/ID whole or not at all, and gives the files."""
    prepared = kit.prepare(task)
    if expected is not None and kit.checksum(prepared) != expected:
        raise ValueError("the data are not those that the board was made from: run baselines.py")
    files = kit.files(task, prepared)
    beside = out / f".{task.id}.{os.getpid()}"
    try:
        for name, content in files.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        shutil.rmtree(out / task.id, ignore_errors=True)
        beside.rename(out / task.id)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", nargs="?", type=pathlib.Path, help="the folder to write into")
    parser.add_argument("--tasks", help="names of tasks, with commas between; all without it")
    parser.add_argument("--list", action="store_true", help="say which tasks there are")
    asked = parser.parse_args()
    if asked.list:
        for t in TASKS:
            print(f"{t.id:24} {t.split:6} {t.modality:8} {t.metric:26} {' '.join(t.packages)}")
        return 0
    if asked.out is None:
        parser.error("no folder to write into")
    chosen = TASKS
    if asked.tasks:
        names = asked.tasks.split(",")
        chosen = [t for t in TASKS if t.id in names]
        unknown = set(names) - {t.id for t in TASKS}
        if unknown:
            parser.error(f"unknown tasks: {' '.join(sorted(unknown))}; --list says which there are")
    asked.out.mkdir(parents=True, exist_ok=True)
    expected, total, failed = checksums(), hashlib.sha256(), False
    for task in chosen:
        missing = [p for p in task.packages if not sources.version(p)]
        if missing:
            print(f"{task.id}: needs `apt-get install {' '.join(missing)}`", file=sys.stderr)
            failed = True
            continue
        try:
            files = write(task, asked.out, expected.get(task.id))
        except (ValueError, OSError, subprocess.CalledProcessError) as problem:
            print(f"{task.id}: {problem}", file=sys.stderr)
            failed = True
            continue
        for name, content in sorted(files.items()):
            total.update(f"{task.id}/{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    print(total.hexdigest())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
