"""Reads the data sets that Debian packages hold, as tables of texts."""

import csv
import functools
import importlib.util
import os
import pathlib
import subprocess
import tempfile


@functools.cache
def version(package):
    """The version of an installed Debian package; empty when it is not installed."""
    try:
        query = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package]
        said = subprocess.run(query, capture_output=True, text=True).stdout.split()
    except FileNotFoundError:
        return ""
    return said[1] if said[:1] == ["installed"] else ""


def folder(module):
    """The folder of a Python module, which is not imported."""
    return pathlib.Path(importlib.util.find_spec(module).origin).parent


def table(path, delimiter=","):
    """The rows of a CSV file, each a dict of texts."""
    with open(path, encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f, delimiter=delimiter))


def from_r(package, dataset):
    """A data set of an R package. The column "" holds the row names."""
    with tempfile.TemporaryDirectory() as scratch:
        file = os.path.join(scratch, "data.csv")
        script = pathlib.Path(__file__).parent / "rdata.R"
        subprocess.run(
            ["Rscript", "--vanilla", str(script), package, dataset, file],
            check=True, env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        return table(file)
