"""The files in docs/results/reliability: each is one table of docs/reliability.md (test/reliability) and nothing else.

{"columns": [...], "rows": [[...], ...]}; a row ends with the date and the commit of the run that it comes from.
"""

import json
import os
import subprocess
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(SOURCE, "docs", "results", "reliability")
RUN = ["date", "commit"]


def path_of(name):
    return os.path.join(FOLDER, name + ".json")


def read(path, otherwise):
    """What the file holds, or `otherwise` where there is none."""
    if not os.path.exists(path):
        return otherwise
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def read_rows(path):
    """{first cell: row}"""
    return {row[0]: row for row in read(path, {"rows": []})["rows"]}


def write_text(path, text):
    """All of it or nothing of it: a script that is stopped leaves the file as it was."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)


def write_rows(path, columns, rows):
    """A table, a line for each row."""
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    write_text(path, '{"columns": %s,\n "rows": [\n%s\n]}\n' % (json.dumps(columns + RUN), lines))


def commit():
    """That of the tree as it is now: what takes long asks when it begins."""
    return subprocess.run(["git", "-C", SOURCE, "rev-parse", "--short=12", "HEAD"], stdout=subprocess.PIPE, check=False).stdout.decode().strip()


def a_run(of_commit=None):
    """The end of a row: a run that has ended today."""
    return [time.strftime("%Y-%m-%d", time.gmtime()), commit() if of_commit is None else of_commit]


def row_of(row, before=None, of_commit=None):
    """The row with the run at its end; the numbers of `before`, a row of the file with a run at its end, are added to its own."""
    if before is not None:
        row = [cell + old if isinstance(cell, int) and isinstance(old, int) else cell for cell, old in zip(row, before)]
    return row + a_run(of_commit)
