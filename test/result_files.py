"""The files in docs/results/reliability, of which test/reliability makes its page, for the scripts that write down what they ran."""

import json
import os
import subprocess
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(SOURCE, "docs", "results", "reliability")


def path_of(name):
    return os.path.join(FOLDER, name + ".json")


def read(path, otherwise):
    """What the file holds, or `otherwise` where there is none."""
    if not os.path.exists(path):
        return otherwise
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_text(path, text):
    """All of it or nothing of it: a script that is stopped leaves the file as it was."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)


def write(path, content, sort_keys=False):
    write_text(path, json.dumps(content, indent=1, sort_keys=sort_keys) + "\n")


def commit():
    """That of the tree as it is now: what takes long asks when it begins."""
    return subprocess.run(["git", "-C", SOURCE, "rev-parse", "--short=12", "HEAD"], stdout=subprocess.PIPE, check=False).stdout.decode().strip()


def a_run(command, of_commit=None):
    """A row of a file's `runs`, that has ended today."""
    return {"command": command, "commit": commit() if of_commit is None else of_commit, "date": time.strftime("%Y-%m-%d", time.gmtime())}


def add_run(content, run):
    """Once, however often it was run."""
    if run not in content["runs"]:
        content["runs"].append(run)
