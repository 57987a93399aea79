"""Tests of test/sanitizers/run: what it runs, and what it writes down."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True

WARNING = b"7: WARNING: ThreadSanitizer: data race (pid=1)\n"
AGAIN = WARNING[3:]  # as ctest gives what failed a second time


def load():
    loader = importlib.machinery.SourceFileLoader("sanitizers_run", os.path.join(HERE, "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("sanitizers_run", loader))
    loader.exec_module(module)
    return module


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.script = load()
        self.script.SOURCE = folder.name
        self.script.RESULT = os.path.join(folder.name, "results.json")
        self.script.FIRST = {"tsan": ["threads"], "asan": []}
        self.script.ctest = self.ctest
        self.tests = {"asan": ["a", "b"], "tsan": ["a", "b", "threads"]}
        self.outputs = {}  # of a test; it passes without a line where it has none
        self.ran = []
        self.clone("1" * 12)

    def clone(self, commit):
        """A new build folder of each preset, whose programs are of `commit`."""
        for preset in self.tests:
            folder = os.path.join(self.script.SOURCE, "build-" + preset)
            subprocess.run(["rm", "-rf", folder], check=True)
            os.makedirs(folder)
            with open(os.path.join(folder, "sanitizers.commit"), "w", encoding="utf-8") as file:
                file.write(commit + "\n")

    def ctest(self, preset, *arguments, **more):
        if arguments[0] == "--show-only=json-v1":
            names = [name for name in self.tests[preset] if "-R" not in arguments or name in arguments]
            said = json.dumps({"tests": [{"name": name} for name in names]}) if names else "the preset is not configured"
            return subprocess.CompletedProcess(arguments, 0, said.encode())
        name = arguments[1].strip("^$")
        self.ran.append(name)
        output, code = self.outputs.get(name, (b"", 0))
        return subprocess.CompletedProcess(arguments, code, output)

    def run_script(self, *arguments):
        """The tests that ran."""
        self.ran = []
        with mock.patch.object(sys, "argv", ["run", *arguments, "--no-build"]), contextlib.redirect_stdout(io.StringIO()):
            self.code = self.script.main()
        return self.ran

    def results(self):
        self.run_script("--report")
        with open(self.script.RESULT, encoding="utf-8") as file:
            return json.load(file)

    def row(self, sanitizer):
        results = self.results()
        return next(dict(zip(results["columns"], row)) for row in results["rows"] if row[0] == sanitizer)

    def test_what_threads_share_most_comes_first_then_what_was_short(self):
        self.assertEqual(self.run_script("tsan"), ["threads", "a", "b"])
        with open(os.path.join(self.script.SOURCE, "build-tsan", "sanitizers.journal"), encoding="utf-8") as file:
            entries = [json.loads(line) for line in file]
        entries[1]["seconds"] = 100  # a
        with open(os.path.join(self.script.SOURCE, "build-tsan", "sanitizers.journal"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
        self.assertEqual(self.run_script("tsan", "--again"), ["threads", "b", "a"])

    def test_what_has_passed_is_not_run_again(self):
        self.assertEqual(self.run_script("asan", "--tests", "a"), ["a"])
        self.assertEqual(self.run_script("asan"), ["b"])
        self.assertEqual(self.run_script("asan"), [])
        self.assertEqual(self.run_script("tsan", "--tests", "b"), ["b"])  # each sanitizer by itself
        self.assertEqual(self.run_script("asan", "--again"), ["a", "b"])

    def test_a_report_has_the_totals(self):
        self.run_script("asan", "--tests", "a")
        row = self.row("address, undefined behaviour")
        self.assertEqual([row["tests"], row["passed"], row["findings"], row["commit"]], [2, 1, 0, "1" * 12])
        self.run_script("asan")
        self.assertEqual(self.row("address, undefined behaviour")["passed"], 2)
        before = self.results()
        self.assertEqual(self.results(), before)  # nothing ran since

    def test_what_failed_is_run_again(self):
        self.outputs = {"a": (WARNING + WARNING + AGAIN + AGAIN, 66), "b": (b"***Timeout 600 sec", 8)}
        self.assertEqual(self.run_script("tsan"), ["threads", "a", "b"])
        self.assertEqual(self.code, 1)
        row = self.row("thread")
        self.assertEqual([row["passed"], row["findings"]], [1, 2])
        self.outputs = {"a": (WARNING, 0)}  # a finding fails what ends well
        self.assertEqual(sorted(self.run_script("tsan")), ["a", "b"])
        row = self.row("thread")
        self.assertEqual([row["passed"], row["findings"]], [2, 1])

    def test_the_latest_end_counts(self):
        self.run_script("asan")
        self.outputs = {"a": (b"", 1)}
        self.run_script("asan", "--again")
        self.assertEqual(self.row("address, undefined behaviour")["passed"], 1)

    def test_a_preset_that_was_not_run_here_stays_as_it_was_reported(self):
        self.run_script("asan")
        before = self.row("address, undefined behaviour")
        self.clone("2" * 12)
        self.run_script("tsan")
        self.assertEqual(self.row("address, undefined behaviour"), before)
        self.assertEqual(self.row("thread")["passed"], 3)

    def test_tests_that_are_gone_and_new_ones(self):
        self.run_script("asan")
        self.tests["asan"] = ["b", "c"]
        row = self.row("address, undefined behaviour")
        self.assertEqual([row["tests"], row["passed"]], [2, 1])
        self.assertEqual(self.run_script("asan"), ["c"])


if __name__ == "__main__":
    unittest.main()
