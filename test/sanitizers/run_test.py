"""Tests of test/sanitizers/run: what it runs, what it keeps of other clones' runs, and what it writes down."""

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

    def test_what_has_passed_is_not_run_again_here_or_in_another_clone(self):
        self.assertEqual(self.run_script("asan", "--tests", "a"), ["a"])
        self.assertEqual(self.run_script("asan"), ["b"])
        self.assertEqual(self.run_script("asan"), [])
        self.results()
        self.clone("2" * 12)
        self.assertEqual(self.run_script("asan"), [])
        self.assertEqual(self.run_script("tsan", "--tests", "b"), ["b"])  # each sanitizer by itself
        self.assertEqual(self.run_script("asan", "--again"), ["a", "b"])

    def test_a_report_from_a_new_clone_adds_to_the_results(self):
        self.run_script("asan", "--tests", "a")
        self.results()
        self.clone("2" * 12)
        self.run_script("asan")
        row = self.row("address, undefined behaviour")
        self.assertEqual([row["tests"], row["to the end"], row["findings"]], [2, 2, 0])
        self.assertEqual(row["which"], "`%s`: a; `%s`: b" % ("1" * 12, "2" * 12))
        self.assertEqual([run["commit"] for run in self.results()["runs"]], ["1" * 12, "2" * 12])
        self.clone("3" * 12)
        before = self.results()
        self.assertEqual(self.results(), before)  # nothing ran since

    def test_what_failed_is_named_and_run_again(self):
        self.outputs = {"a": (WARNING + WARNING + AGAIN + AGAIN, 66), "b": (b"***Timeout 600 sec", 8)}
        self.assertEqual(self.run_script("tsan"), ["threads", "a", "b"])
        self.assertEqual(self.code, 1)
        row = self.row("thread")
        self.assertEqual([row["to the end"], row["findings"], row["not to the end"]], [1, 2, "a (failed), b (timeout)"])
        self.outputs = {"a": (WARNING, 0)}  # a finding fails what ends well
        self.clone("2" * 12)
        self.assertEqual(sorted(self.run_script("tsan")), ["a", "b"])
        row = self.row("thread")
        self.assertEqual([row["to the end"], row["findings"], row["not to the end"]], [2, 1, "a (failed)"])

    def test_the_latest_end_counts(self):
        self.run_script("asan")
        self.results()
        self.outputs = {"a": (b"", 1)}
        self.run_script("asan", "--again")
        self.assertEqual(self.row("address, undefined behaviour")["not to the end"], "a (failed)")
        # A journal that is older than what another clone has reported since.
        with open(self.script.RESULT, encoding="utf-8") as file:
            results = json.load(file)
        results["ran"]["asan"]["ends"]["a"].update(end="passed", time="9999-01-01 00:00:00")
        with open(self.script.RESULT, "w", encoding="utf-8") as file:
            json.dump(results, file)
        self.assertEqual(self.row("address, undefined behaviour")["not to the end"], "none")

    def test_a_preset_that_is_not_configured_here_stays_as_it_was_reported(self):
        self.run_script("asan", "--tests", "a")
        before = self.row("address, undefined behaviour")
        self.assertEqual(before["not run"], "b")
        self.clone("2" * 12)
        self.tests["asan"] = []
        self.run_script("tsan")
        self.assertEqual(self.row("address, undefined behaviour"), before)
        self.assertEqual(self.row("thread")["to the end"], 3)

    def test_tests_that_are_gone_and_new_ones(self):
        self.run_script("asan")
        self.results()
        self.clone("2" * 12)
        self.tests["asan"] = ["b", "c"]
        row = self.row("address, undefined behaviour")
        self.assertEqual([row["tests"], row["to the end"], row["not run"]], [2, 1, "c"])
        self.assertEqual(self.run_script("asan"), ["c"])

    def test_the_repository_says_what_its_results_say(self):
        script = load()
        with open(script.RESULT, encoding="utf-8") as file:
            results = json.load(file)
        for preset, row in zip(sorted(script.NAMES), results["rows"]):
            ends = results["ran"][preset]["ends"]
            row = dict(zip(results["columns"], row))
            self.assertEqual(row["tests"], len(results["ran"][preset]["tests"]))
            self.assertEqual(row["to the end"], sum(end["end"] == "passed" for end in ends.values()))
        for run in results["runs"]:
            self.assertRegex(run["commit"], "^[0-9a-f]{12}$")


if __name__ == "__main__":
    unittest.main()
