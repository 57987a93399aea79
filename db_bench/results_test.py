"""Tests of db_bench/results: tables in pages, provenance, what is refused, and, where matplotlib is, pictures."""

import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest

from load_script import load_script

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "results")

results = load_script("results")


def run_of(engine, rate, written):
    seconds = [0.0, 1.0, 2.0, 3.0]
    course = {
        "seconds": seconds,
        "puts": [rate * second for second in seconds],
        "written_bytes": [rate * second * written for second in seconds],
        "live_bytes": [1 + 100 * second for second in seconds],
        "table_bytes": [1 + 120 * second for second in seconds],
        "memory_bytes": [1e6] * 4,
    }
    latency = {"percent": [50, 99, 100], "micros": [1, 2, 3]}
    return {
        "engine": engine,
        "round": 0,
        "seconds": 3,
        "metrics": {"puts_per_second": rate, "written_per_byte": written, "files": 7},
        "curves": {"load": course, "put_latency": latency},
    }


def summary_of(workload="uniform_2m"):
    runs = [run_of("leveled", 4000, 7.5), run_of("leveled_sub", 5000, 7.5), run_of("trie", 8000, 2.5)]
    return {
        "workload": workload,
        "summary": "2 M puts",
        "engines": [run["engine"] for run in runs],
        "repeat": 1,
        "date": "2026-01-02",
        "commit": "0123456789",
        "extra_flags": ["--gets=0"],
        "machine": {"processor": "p", "cores": 2, "memory_bytes": 24 << 30},
        "commands": {run["engine"]: "engine_bench --engine=" + run["engine"] for run in runs},
        "runs": runs,
        "medians": {run["engine"]: run["metrics"] for run in runs},
        "ratios": {},
    }


PAGE = """# Page

<!-- results uniform_2m; leveled, trie; written_per_byte, puts_per_second: puts, files -->
what was here
<!-- end of results -->
after"""

MADE = """# Page

<!-- results uniform_2m; leveled, trie; written_per_byte, puts_per_second: puts, files -->

| | leveled | `trie` |
| --- | ---: | ---: |
| written per byte ingested | 7.50 | **2.50** |
| puts | 4 | **8** |
| files | 7 | 7 |

`db_bench/compare uniform_2m --engines leveled,leveled_sub,trie -- --gets=0`: one run each, 2026-01-02, commit
0123456789, 2 cores, 24 GiB.

<!-- end of results -->
after"""


class PageTest(unittest.TestCase):
    def regenerate(self, page, summary=None):
        return results.regenerate(page, lambda workload: [summary or summary_of(workload)], "page.md")

    def expect_failure(self, text, page):
        with self.assertRaises(results.Failure) as caught:
            self.regenerate(page)
        self.assertIn(text, str(caught.exception))

    def test_table(self):
        self.assertEqual(self.regenerate(PAGE), MADE)

    def test_made_tables_stay(self):
        self.assertEqual(self.regenerate(MADE), MADE)

    def test_builds_side_by_side(self):
        summary = summary_of()
        names = {"leveled": "leveled@9.10", "leveled_sub": "leveled@11.8", "trie": "trie@9.10"}
        summary["engines"] = list(names.values())
        summary["medians"] = {name: summary["medians"][old] for old, name in names.items()}
        summary["bins"] = {"9.10": "build/bin", "11.8": "DIR"}
        made = self.regenerate(PAGE.replace("leveled, trie", "leveled@9.10, leveled@11.8"), summary)
        self.assertIn("| | leveled, 9.10 | leveled, 11.8 |", made)
        self.assertIn("--engines leveled,trie --bin 9.10=build/bin --bin 11.8=DIR -- --gets=0`", made.replace("\n", " "))

    def test_a_table_before_it_is_measured(self):
        waiting = results.regenerate(PAGE, lambda workload: [], "page.md")
        self.assertIn("-->\n\nNot measured yet.\n\n<!-- end of results -->\nafter", waiting)
        self.assertEqual(self.regenerate(waiting), MADE)

    def test_a_row_that_nobody_measured_is_left_out(self):
        page = PAGE.replace("files -->", "mixed.p99_micros -->")
        self.assertNotIn("p99", self.regenerate(page).split("-->")[1])

    def test_as_good_as_shown_is_as_good(self):
        summary = summary_of()
        summary["medians"]["leveled"]["written_per_byte"] = 2.5001
        self.assertIn("| 2.50 | 2.50 |", self.regenerate(PAGE, summary))

    def test_what_is_refused(self):
        self.expect_failure("page.md:3: uniform_2m was not measured for silt", PAGE.replace("leveled, trie", "silt"))
        self.expect_failure("has no row wishes", PAGE.replace("files", "wishes"))
        self.expect_failure("page.md:3: write <!-- results", PAGE.replace("; leveled, trie", ""))
        self.expect_failure("page.md:3: the table has no", PAGE.replace(results.END, ""))
        self.expect_failure("page.md:5: nothing begins", PAGE.replace("<!-- results uniform_2m", "<!-- uniform_2m"))
        self.expect_failure("page.md:4: the table of line 3", PAGE.replace("what was here", PAGE.splitlines()[2]))

    def test_a_workload_that_is_gone(self):
        with self.assertRaises(results.Failure):
            self.regenerate(PAGE, summary_of("of_last_year"))

    def test_a_group_is_one_table(self):
        first, second = summary_of("memtable_fillrandom_64_wal_1"), summary_of("memtable_fillseq")
        for summary, metric in ((first, "fillrandom"), (second, "fillseq")):
            for i, name in enumerate(summary["medians"]):
                summary["medians"][name] = {metric + ".ops_per_second": 1000.0 * (i + 1)}
        page = "<!-- results memtables; leveled, trie; all -->\n<!-- end of results -->"
        made = results.regenerate(page, lambda _: [first, second], "page.md").split("\n")
        self.assertEqual(made[2:6], [
            "| | leveled | `trie` |",
            "| --- | ---: | ---: |",
            "| fillrandom, 64 B values, WAL, 1 writer, thousand/s | 1 | **3** |",
            "| fillseq, 100 B values, WAL, 1 writer, thousand/s | 1 | **3** |",
        ])
        self.assertIn("`db_bench/compare memtables --engines", "\n".join(made))
        page = page.replace("all", "fillseq.ops_per_second: in order")
        made = results.regenerate(page, lambda _: [first, second], "page.md")
        self.assertIn("| in order | 1 | **3** |", made)
        self.assertNotIn("64 B", made)

    def test_words_of_rows(self):
        self.assertEqual(
            results.split_rows(' a.b: "one, two", c , d: three'), (["a.b", "c", "d"], {"a.b": "one, two", "d": "three"})
        )


class CurveTest(unittest.TestCase):
    def test_rates(self):
        points = results.smooth_rates([0, 1, 2, 4], [0, 10, 20, 60], windows=4)
        self.assertEqual(points, [(0.5, 10), (1.5, 10), (3, 20)])

    def test_nothing_is_put_while_the_load_settles(self):
        self.assertEqual(results.smooth_rates([0, 1, 2], [0, 10, 10], windows=3), [(0.5, 10)])

    def test_the_run_with_the_median_rate_is_shown(self):
        summary = summary_of()
        summary["runs"] += [run_of("trie", 100, 2), run_of("trie", 900, 2)]
        self.assertEqual(results.median_run(summary, "trie")["metrics"]["puts_per_second"], 900)
        self.assertIsNone(results.median_run(summary, "silt"))

    def test_rivals_are_grey_and_columns_differ(self):
        names = ["leveled", "leveled_sub", "universal_16_sub", "ordered", "trie"]
        colours = [results.colour_of(name, names) for name in names]
        self.assertEqual(len(set(colours)), len(names))
        self.assertEqual(colours[:3], results.GREYS[:3])


class CommandLineTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, value):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(value if isinstance(value, str) else json.dumps(value))
        return path

    def run_script(self, *arguments):
        return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)

    def test_the_pages_are_up_to_date(self):
        done = self.run_script("--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_errors_are_one_line(self):
        for text, *arguments in [
            ("cannot read", "--html", "x.html", os.path.join(self.folder, "none.json")),
            ("cannot read", "--html", "x.html", self.file("broken.json", "{")),
            ("is not a file that", "--html", "x.html", self.file("other.json", {"a": 1})),
            ("take no files", "--check", self.file("good.json", summary_of())),
            ("unknown panel dreams", "--svg", "x.svg", self.file("good.json", summary_of()), "--panels", "dreams"),
        ]:
            done = self.run_script(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1)

    def test_pictures(self):
        path = self.file("good.json", [summary_of(), copy.deepcopy(summary_of("uniform_20m"))])
        page = os.path.join(self.folder, "report.html")
        done = self.run_script("--html", page, path)
        if "matplotlib is missing" in done.stderr:
            self.skipTest("matplotlib is missing; scripts/install_packages report installs it")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        # Load rate, written, space, memory and the latency of puts of each workload, three panels a drawing.
        self.assertEqual(text.count("<svg"), 4)
        self.assertEqual(text.count("Load rate"), 2)
        self.assertNotIn("Get during overwrites: one", text)
        self.assertNotRegex(text, r'(src|href)="?http')
        picture = os.path.join(self.folder, "one.svg")
        self.assertEqual(self.run_script("--svg", picture, path, "--panels", "puts,memory").returncode, 0)
        with open(picture, encoding="utf-8") as file:
            self.assertIn("Resident memory", file.read())


if __name__ == "__main__":
    unittest.main()
