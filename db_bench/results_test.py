"""Tests of db_bench/results: tables in pages, provenance, what is refused, what is dropped from the files."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from load_script import load_script

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "results")

results = load_script("results")
import figures  # noqa: E402  results knows where it lies


def run_of(engine, rate, written):
    return {"engine": engine, "round": 0, "seconds": 3, "metrics": {"puts_per_second": rate, "written_per_byte": written, "files": 7}}


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
| write amplification | 7.50 | **2.50** |
| puts | 4 | **8** |
| files | 7 | 7 |

`db_bench/compare uniform_2m --engines leveled,leveled_sub,trie -- --gets=0`: 2026-01-02, commit 0123456789.

<!-- end of results -->
after"""


class PageTest(unittest.TestCase):
    def regenerate(self, page, summary=None):
        return results.regenerate(page, lambda workload, *_: [summary or summary_of(workload)], "page.md")

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
        waiting = results.regenerate(PAGE, lambda *_: [], "page.md")
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

    def test_rows_where_rocksdb_is_ahead_come_first(self):
        first, second = summary_of("ycsb_200k"), summary_of("queue_200k")
        for summary, key, leveled, trie in ((first, "ycsb_a.per_second", 1000, 2000), (second, "queue.per_second", 3000, 1000)):
            summary["medians"] = {"leveled": {key: leveled}, "trie": {key: trie}}
        page = "<!-- results known; leveled, trie; behind_first, ycsb_a.per_second, queue.per_second -->\n<!-- end of results -->"
        made = results.regenerate(page, lambda *_: [first, second], "page.md").split("\n")
        self.assertEqual([line.split(",")[0] for line in made[2:6]], ["| | leveled | `trie` |", "| --- | ---: | ---: |", "| queue", "| ycsb_a"])
        page = page.replace("behind_first, ", "")
        made = results.regenerate(page, lambda *_: [first, second], "page.md").split("\n")
        self.assertEqual([line.split(",")[0] for line in made[4:6]], ["| ycsb_a", "| queue"])

    def test_a_group_is_one_table(self):
        first, second = summary_of("memtable_fillrandom_wal_1"), summary_of("memtable_fillseq")
        for summary, metric in ((first, "fillrandom"), (second, "fillseq")):
            for i, name in enumerate(summary["medians"]):
                summary["medians"][name] = {metric + ".ops_per_second": 1000.0 * (i + 1)}
        page = "<!-- results memtables; leveled, trie; all -->\n<!-- end of results -->"
        made = results.regenerate(page, lambda *_: [first, second], "page.md").split("\n")
        self.assertEqual(made[2:6], [
            "| | leveled | `trie` |",
            "| --- | ---: | ---: |",
            "| fillrandom, WAL, 1 writer, thousand/s | 1 | **3** |",
            "| fillseq, WAL, 1 writer, thousand/s | 1 | **3** |",
        ])
        self.assertIn("`db_bench/compare memtables --engines", "\n".join(made))
        page = page.replace("all", "fillseq.ops_per_second: in order")
        made = results.regenerate(page, lambda *_: [first, second], "page.md")
        self.assertIn("| in order | 1 | **3** |", made)
        self.assertNotIn("fillrandom", made)

    def test_words_of_rows(self):
        self.assertEqual(
            results.split_rows(' a.b: "one, two", c , d: three'), (["a.b", "c", "d"], {"a.b": "one, two", "d": "three"})
        )


class FileTest(unittest.TestCase):
    """A tree with one page and its files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = folder.name
        os.makedirs(os.path.join(self.top, "docs", "results"))
        self.page = self.file("docs/page.md", PAGE)
        for name, value in (("TOP", self.top), ("FOLDER", os.path.join(self.top, "docs", "results")), ("pages", lambda: [self.page])):
            patch = mock.patch.object(results, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def file(self, name, text):
        path = os.path.join(self.top, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def result(self, value, name="uniform_2m"):
        return self.file(f"docs/results/{name}.json", json.dumps(value))

    def kept(self, path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def test_what_no_page_shows_is_dropped(self):
        path = self.result(summary_of())
        self.assertEqual(results.update(write=False, top=self.top), ["docs/results/uniform_2m.json", "docs/page.md"])
        results.update(write=True, top=self.top)
        kept = self.kept(path)
        self.assertEqual(kept["engines"], ["leveled", "trie"])
        self.assertEqual(kept["medians"]["trie"], {"puts_per_second": 8000, "written_per_byte": 2.5, "files": 7})
        self.assertNotIn("runs", kept)
        self.assertEqual(results.update(write=False, top=self.top), [])
        with open(self.page, encoding="utf-8") as file:
            self.assertEqual(file.read(), MADE.replace("leveled,leveled_sub,trie --", "leveled,trie --"))

    def test_two_tables_of_one_file(self):
        more = PAGE.replace("leveled, trie; written_per_byte, puts_per_second: puts, files", "leveled_sub;files")
        self.page = self.file("docs/page.md", PAGE + "\n" + more)
        path = self.result(summary_of())
        results.update(write=True, top=self.top)
        self.assertEqual(self.kept(path)["medians"]["leveled_sub"], {"files": 7})
        self.assertEqual(self.kept(path)["medians"]["leveled"]["puts_per_second"], 4000)

    def test_a_file_of_a_group(self):
        self.page = self.file("docs/page.md", PAGE)
        with_none = {**summary_of("fill_read"), "medians": {"leveled": {"readrandom.ops_per_second": 1}}}
        path = self.result([summary_of(), with_none])
        results.update(write=True, top=self.top)
        self.assertEqual(self.kept(path)["workload"], "uniform_2m")
        self.assertEqual(results.update(write=False, top=self.top), [])

    def test_figures_of_another_script(self):
        rows = [("a row", 1, "less", {"ours": 1.23, "theirs": 2}), ("another", 0, None, {"ours": None, "theirs": 7})]
        path = self.result(figures.table_of("own", "db_bench/own", {"ours": "**ours**", "theirs": "theirs"}, rows), "own")
        self.page = self.file("docs/page.md", "<!-- results own;all;all -->\n<!-- end of results -->\n")
        results.update(write=True, top=self.top)
        with open(self.page, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("| | **ours** | theirs |\n| --- | ---: | ---: |\n| a row | **1.2** | 2.0 |\n| another | - | 7 |\n", text)
        self.assertIn("`db_bench/own`: 20", text)
        self.assertEqual(results.update(write=False, top=self.top), [])
        self.assertEqual(self.kept(path)["medians"]["ours"], {"a row": 1.23})

    def test_what_is_refused(self):
        for text, value, name in [
            ("cannot read", None, "uniform_2m"),
            ("is not a file that", {"a": 1}, "uniform_2m"),
            ("no page shows docs/results/other.json", summary_of(), "other"),
        ]:
            path = self.file(f"docs/results/{name}.json", "{" if value is None else json.dumps(value))
            with self.assertRaises(results.Failure) as caught:
                results.update(write=False, top=self.top)
            self.assertIn(text, str(caught.exception))
            os.remove(path)


class CommandLineTest(unittest.TestCase):
    def test_the_pages_are_up_to_date(self):
        done = subprocess.run([SCRIPT, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
