"""Writes what a script has measured as db_bench/results reads it: a table of docs/results that no workload describes."""

import datetime
import json
import os
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def commit():
    """The commit that the programs were built from, as far as this checkout tells."""
    git = ["git", "-C", TOP]
    try:
        name = subprocess.run(git + ["rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True).stdout
        status = git + ["status", "--porcelain", "-uno", "--", ":(top,exclude)docs/results"]  # what runs before have written
        changed = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name.strip() + (" with changes" if changed.strip() else "")


def table_of(name, command, columns, rows):
    """columns: {key: label}; rows: [(label, digits, "more", "less" or None for what is better, {column: value or None})]."""
    return {
        "workload": name,
        "command": command,
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "engines": list(columns),
        "columns": columns,
        "metrics": [[label, digits, better] for label, digits, better, _ in rows],
        "medians": {
            column: {label: cells[column] for label, _, _, cells in rows if cells.get(column) is not None} for column in columns
        },
    }


def write_figures(name, command, columns, rows, folder=os.path.join(TOP, "docs", "results")):
    path = os.path.join(folder, name + ".json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(json.dumps(table_of(name, command, columns, rows), indent=1) + "\n")
    os.replace(path + ".new", path)
    print(f"wrote {os.path.relpath(path, TOP)}; db_bench/results --write puts it into the pages")
