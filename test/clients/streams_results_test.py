"""Tests of streams_results: tables in pages, the picture that is out of date, what is refused."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "streams_results")
sys.dont_write_bytecode = True

PAGE = """# Streams

<!-- streams kafka -->
what was here
<!-- end of streams -->
after
"""


def measures(rate):
    return {
        "records": 2000000,
        "records_per_second": rate,
        "processor_seconds": 50.0,
        "put_bytes": 3000000,
        "written_bytes": 4500000,
        "restore_seconds": 1.25,
        "restored_records": 123456,
        "state_bytes": 2000000,
    }


class StreamsResultsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = folder.name

    def write(self, name, value):
        path = os.path.join(self.top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(value if isinstance(value, str) else json.dumps(value))

    def read(self, name):
        with open(os.path.join(self.top, name), encoding="utf-8") as file:
            return file.read()

    def run_script(self, *arguments, top=None):
        return subprocess.run([SCRIPT, "--top", top or self.top, *arguments], capture_output=True, text=True, check=False)

    def expect_failure(self, text, *arguments):
        done = self.run_script(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)

    def measure(self, work="work", **rates):
        for how, rate in rates.items():
            self.write(f"{work}/measure/{how}/measures.json", measures(rate))
        self.write(f"{work}/measure/size", "1000\n")
        return os.path.join(self.top, work)

    def collect(self, *works, note=""):
        done = self.run_script("--collect", "kafka", *works, "--note", note)
        self.assertEqual(done.returncode, 0, done.stderr)

    def write_pages(self):
        done = self.run_script("--write")
        if "matplotlib is missing" in done.stderr:
            self.skipTest("matplotlib is missing; scripts/install_packages report installs it")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_repository_is_up_to_date(self):
        done = self.run_script("--check", top=os.path.dirname(os.path.dirname(HERE)))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_table_and_picture(self):
        self.write("docs/guide/clients.md", PAGE)
        self.collect(self.measure(stock=1234.5, sub_memtables=2345.6), note="By night.")
        self.expect_failure("run test/clients/streams_results --write", "--check")
        self.assertEqual(self.write_pages(), "docs/guide/clients.md: written\ndocs/guide/streams.svg: written\n")
        page = self.read("docs/guide/clients.md")
        self.assertIn("| | stock | sub-MemTables |\n| --- | ---: | ---: |\n| records per second | 1,234 | 2,346 |", page)
        self.assertIn("| CPU seconds per million records | 25 | 25 |", page)
        self.assertIn("| written by flush and compaction, MB | 4.5 | 4.5 |", page)
        self.assertNotIn("what was here", page)
        self.assertIn("`CLIENT_EVENTS=1000 test/clients/kafka/run measure`: one run each", page)
        self.assertIn("GiB. By night.\n\n<!-- end of streams -->\nafter\n", page.replace("GiB.\n", "GiB. "))
        self.assertIn("2,346", self.read("docs/guide/streams.svg"))
        self.assertEqual(self.run_script("--check").returncode, 0)
        # Numbers that the picture does not show leave it as it is; others do not.
        self.collect(self.measure(stock=1234.5, sub_memtables=3456.7))
        self.assertEqual(self.run_script("--check").stdout, "docs/guide/clients.md: out of date\ndocs/guide/streams.svg: out of date\n")

    def test_a_store_alone(self):
        store = {"records": 5, "put_bytes": 10, "written_bytes": 15, "put_per_second": 4000, "get_per_second": 5000, "absent_per_second": 6000}
        self.write("work/measure/stock/measures.json", store)
        self.expect_failure("scan_per_second missing", "--collect", "store", os.path.join(self.top, "work"))
        self.write("work/measure/stock/measures.json", {**store, "scan_per_second": 700})
        self.assertEqual(self.run_script("--collect", "store", os.path.join(self.top, "work")).returncode, 0)
        self.write("docs/guide/clients.md", PAGE.replace("kafka", "store"))
        self.write_pages()
        self.assertIn("| puts, thousands per second | 4 |", self.read("docs/guide/clients.md"))
        self.assertIn("| ranges of 50 | 0.7 |\n| write amplification | 1.50 |", self.read("docs/guide/clients.md"))
        self.assertIn("store: ranges of 50", self.read("docs/guide/streams.svg"))

    def test_medians(self):
        works = [self.measure(f"work{rate}", stock=rate, cairn=2 * rate) for rate in (3, 1, 2)]
        self.collect(*works)
        summary = json.loads(self.read("docs/results/streams/kafka.json"))
        self.assertEqual(summary["repeat"], 3)
        self.assertEqual([summary["hows"][how]["records_per_second"] for how in ("stock", "cairn")], [2, 4])

    def test_what_is_refused(self):
        self.expect_failure("takes the folders", "--collect", "kafka")
        self.expect_failure("cannot read", "--collect", "kafka", self.measure(cairn=1))
        self.expect_failure("cairn was not measured in each", "--collect", "kafka", self.measure(stock=1, cairn=1), self.measure("w2", stock=1))
        other = measures(1)
        other["records"] = 5
        self.write("work/measure/ordered/measures.json", other)
        self.expect_failure("the runs are of different inputs: 5, 2000000 records", "--collect", "kafka", os.path.join(self.top, "work"))
        self.write("work/measure/stock/measures.json", {"records": 1})
        self.expect_failure("put_bytes, written_bytes, records_per_second", "--collect", "kafka", os.path.join(self.top, "work"))
        self.expect_failure("take no folders", "--check", "folder")
        for text, page in [
            ("docs/guide/clients.md:3: write <!-- streams CLIENT -->", PAGE.replace("kafka", "flink")),
            ("docs/guide/clients.md:3: the table has no", PAGE.replace("<!-- end of streams -->", "")),
            ("docs/guide/clients.md:5: nothing begins", PAGE.replace("<!-- streams kafka -->", "")),
            ("docs/guide/clients.md:4: the table of line 3", PAGE.replace("what was here", "<!-- streams kafka -->")),
        ]:
            self.collect(self.measure("whole", stock=1))
            self.write("docs/guide/clients.md", page)
            self.expect_failure(text, "--check")
        self.write("docs/guide/clients.md", PAGE)
        self.write("docs/results/streams/kafka.json", {"hows": {}})
        self.expect_failure("is not a file that streams_results --collect writes", "--check")


if __name__ == "__main__":
    unittest.main()
