"""Tests of db_bench/compare: parsing of stored outputs, medians, ratios, tables, order of runs, time left, errors."""

import os
import stat
import subprocess
import sys
import tempfile
import unittest

from load_script import load_script

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "compare")

compare = load_script("compare")
import workloads  # noqa: E402  compare knows where it lies


def stored(name):
    with open(os.path.join(HERE, "testdata", name), encoding="utf-8") as file:
        return file.read()


class ParseTest(unittest.TestCase):
    def test_engine_bench(self):
        metrics = workloads.EngineBench.parse(stored("engine_bench.json"))
        self.assertEqual(metrics["workload.puts"], 50000)
        written = metrics["flush_bytes"] + metrics["compaction_bytes"]
        self.assertAlmostEqual(metrics["written_per_byte"], written / metrics["ingested_bytes"], places=3)
        self.assertEqual(sum(key.startswith("puts_per_second_by_tenth.") for key in metrics), 10)
        self.assertEqual(metrics["second_pass.gets"], 5000)
        for metric in workloads.LOAD_METRICS:
            self.assertIn(metric.key, metrics)

    def test_db_bench(self):
        metrics = workloads.DbBench.parse(stored("db_bench.txt"))
        self.assertEqual(metrics["fillrandom.micros"], 5.779)
        self.assertEqual(metrics["fillrandom.ops_per_second"], 172573)
        self.assertEqual(metrics["readrandom.ops_per_second"], 139192)
        self.assertEqual(metrics["readmissing.seconds"], 0.028)
        self.assertEqual(metrics["flush_bytes"], 11689891)
        self.assertEqual(metrics["compaction_bytes"], 15272576)
        self.assertEqual(metrics["put_bytes"], 13100000)
        self.assertAlmostEqual(metrics["written_per_byte"], (11689891 + 15272576) / 13100000)

    def test_db_bench_histogram(self):
        metrics = workloads.DbBench.parse(
            "readwhilewriting :  2.000 micros/op 500000 ops/sec 1.000 seconds 500000 operations;   20.5 MB/s\n"
            "Microseconds per read:\nCount: 5 Average: 2.0  StdDev: 1.0\n"
            "Percentiles: P50: 1.63 P75: 2.21 P99: 9.87 P99.9: 21.10 P99.99: 48.00\n"
        )
        self.assertEqual(metrics["readwhilewriting.read.p50_micros"], 1.63)
        self.assertEqual(metrics["readwhilewriting.read.p99.9_micros"], 21.1)

    def test_memtablerep_bench(self):
        bench = workloads.MemtableRepBench("", 1000000)
        metrics = bench.parse(
            "Running fillrandom\nNumber of threads: 1\nElapsed time: 250000 us\nTotal bytes written: 111.58 MiB\n"
            "Write throughput: 446.3 MiB/s\nwrite us/op: 0.25\n"
            "Running readseq\nNumber of threads: 1\nElapsed time: 750000 us\n"
        )
        self.assertEqual(metrics["fillrandom.per_second"], 4e6)
        self.assertEqual(metrics["flushable_per_second"], 1e6)
        self.assertEqual(metrics["fillrandom.written_mib_per_second"], 446.3)
        with self.assertRaises(ValueError):
            bench.parse("no memtablerep of that name\n")

    def test_operation_counts_bench(self):
        bench = workloads.OperationCounts("", 200, 1.5, 4)
        metrics = bench.parse("L0 3\nput: 812 ns of processor time per operation\nput: 8466 instructions per operation\n")
        self.assertEqual(metrics, {"put": 8466})
        with self.assertRaises(ValueError):
            bench.parse("put: 812 ns of processor time per operation\n")
        self.assertEqual(bench.command("leveled_sub", "DIR")[:4], ["--steps", "stock,cairn.SubMemTable", "DIR", "all"])
        self.assertEqual(bench.command("trie_space_2", "DIR")[1], "trie;root_trigger=12;trigger=4;space_bound=2")

    def test_output_that_is_none(self):
        with self.assertRaises(ValueError):
            workloads.EngineBench.parse("Segmentation fault")
        with self.assertRaises(ValueError):
            workloads.DbBench.parse("open error: IO error\n")

    def test_flatten(self):
        self.assertEqual(
            workloads.flatten({"a": 1, "b": {"c": [2, 3.5]}, "name": "x", "flag": True}), {"a": 1, "b.c.0": 2, "b.c.1": 3.5}
        )


class StatisticsTest(unittest.TestCase):
    RUNS = [
        {"engine": "x", "metrics": {"rate": 10, "zero": 0}},
        {"engine": "y", "metrics": {"rate": 5, "zero": 7}},
        {"engine": "x", "metrics": {"rate": 30, "zero": 0}},
        {"engine": "y", "metrics": {"rate": 15, "zero": 7}},
        {"engine": "x", "metrics": {"rate": 20, "zero": 0}},
        {"engine": "y", "metrics": {"rate": 10, "zero": 7}},
    ]

    def test_medians_and_ratios(self):
        medians = compare.medians(self.RUNS)
        self.assertEqual(medians["x"]["rate"], 20)
        self.assertEqual(medians["y"]["rate"], 10)
        self.assertEqual(compare.ratios(medians, "x"), {"y": {"rate": 0.5}})

    def test_table(self):
        medians = compare.medians(self.RUNS)
        metrics = [workloads.Metric("rate", "rate", 1), workloads.Metric("zero", "zero", 0), workloads.Metric("none", "none")]
        rows = compare.table_rows(metrics, ["x", "y"], medians, compare.ratios(medians, "x"))
        self.assertEqual(rows, [["", "x", "y", "ratio"], ["rate", "20.0", "10.0", "0.50"], ["zero", "0", "7", "-"]])
        self.assertEqual(
            compare.aligned(rows), "         x     y  ratio\nrate  20.0  10.0   0.50\nzero     0     7      -"
        )
        self.assertEqual(
            compare.markdown(rows),
            "|  | x | y | ratio |\n| --- | ---: | ---: | ---: |\n| rate | 20.0 | 10.0 | 0.50 |\n| zero | 0 | 7 | - |",
        )


class ScheduleTest(unittest.TestCase):
    def test_engines_take_turns_and_each_begins_a_round(self):
        runs = compare.schedule(["a", "b", "c"], 3)
        self.assertEqual(runs[:6], [(0, "a"), (0, "b"), (0, "c"), (1, "b"), (1, "c"), (1, "a")])
        for round_number in range(3):
            self.assertEqual(sorted(engine for number, engine in runs if number == round_number), ["a", "b", "c"])

    def test_time_left(self):
        self.assertIsNone(compare.seconds_left(["a", "b"], 3, {}))
        self.assertEqual(compare.seconds_left(["b", "a"], 4, {"a": [10], "b": [20]}), 26)
        self.assertEqual(compare.seconds_left(["b", "a"], 40, {"a": [10], "b": [20]}), 10)
        self.assertEqual(compare.seconds_left(["c"], 0, {"a": [10], "b": [20]}), 15)


class WorkloadTest(unittest.TestCase):
    def test_each_names_its_command(self):
        for name, workload in compare.WORKLOADS.items():
            for engine in workload.engines:
                command = workload.command(engine, "DIR")
                if isinstance(workload, workloads.OperationCounts):
                    self.assertIn("DIR", command, name)
                    continue
                if engine not in workloads.MEMTABLES:
                    self.assertIn("--engine=" + workloads.column(engine).engine, command, name)
                else:
                    self.assertTrue({"--memtablerep=" + engine, "--memtablerep=skiplist"} & set(command), name)
                in_folder = any(part.startswith("--db=DIR") for part in command)
                self.assertEqual(in_folder, workload.program != "memtablerep_bench", name)
            self.assertTrue(workload.summary)

    def test_groups_hold_workloads_and_compare_with_the_first_engine(self):
        for name, (summary, workloads) in compare.GROUPS.items():
            self.assertTrue(summary)
            self.assertNotIn(name, compare.WORKLOADS)
            self.assertEqual(len({compare.WORKLOADS[workload].engines[0] for workload in workloads}), 1)

    def test_published_workloads(self):
        for size, items in (("200k", 200000), ("20m_disk", 20000000)):
            known = compare.GROUPS["known_" + size][1]
            self.assertEqual(len(known), 9)
            for name in known:
                workload = compare.WORKLOADS[name]
                flags = workload.command("ordered", "DIR")
                self.assertIn(f"--{'num' if name.startswith('mixgraph') else 'keys'}={items}", flags, name)
                self.assertEqual(any("direct" in flag for flag in flags), size.endswith("disk"), name)
                scans = name.split("_")[0] in ("mixgraph", "queue", "series")
                self.assertEqual("trie" in workload.engines, not scans, name)
        rows = compare.WORKLOADS["mixgraph_200k"].parse(stored("db_bench.txt"))
        self.assertNotIn("written_per_byte", rows)
        self.assertIn("mixgraph_written_per_byte", rows)

    def test_columns_of_a_group(self):
        rows = [["rate", "1", "2", "2.00"]]
        self.assertEqual(
            compare.fit_columns(rows, ["a", "c"], ["a", "b", "c"]), [["rate", "1", "-", "-", "2", "2.00"]]
        )


FAKE_PROGRAM = """#!/bin/sh
for flag; do case $flag in --engine=broken) echo "no such thing" >&2; exit 3;; --engine=slow) rate=1000;; esac; done
echo "{\\"puts_per_second\\": ${rate:-4000}, \\"written_per_byte\\": 2}"
"""


class CommandLineTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = folder.name
        program = os.path.join(self.bin, "engine_bench")
        with open(program, "w", encoding="utf-8") as file:
            file.write(FAKE_PROGRAM)
        os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)

    def run_script(self, *arguments, bins=None):
        words = [word for folder in bins or [self.bin] for word in ("--bin", folder)]
        return subprocess.run([sys.executable, SCRIPT, *arguments, *words], capture_output=True, text=True, check=False)

    def expect_failure(self, text, *arguments):
        done = self.run_script(*arguments)
        self.assertNotEqual(done.returncode, 0)
        lines = done.stderr.strip().splitlines()
        self.assertIn(text, lines[-1])
        self.assertNotIn("Traceback", done.stderr)

    def test_table_and_json(self):
        result = os.path.join(self.bin, "result.json")
        done = self.run_script("uniform_2m", "--engines", "fast,slow", "--repeat", "2", "--json", result)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"load rate, thousand puts/s +4 +1 +0\.25")
        self.assertIn("run 4 of 4", done.stderr)
        with open(result, encoding="utf-8") as file:
            written = compare.json.load(file)
        self.assertEqual(len(written["runs"]), 4)
        self.assertEqual(written["ratios"]["slow"]["puts_per_second"], 0.25)
        self.assertIn("--engine=slow", written["commands"]["slow"])

    def test_several_builds_take_turns(self):
        other = os.path.join(self.bin, "other")
        os.mkdir(other)
        program = os.path.join(other, "engine_bench")
        with open(program, "w", encoding="utf-8") as file:
            file.write(FAKE_PROGRAM.replace("4000", "6000"))
        os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
        result = os.path.join(self.bin, "result.json")
        done = self.run_script(
            "releases_2m", "--engines", "fast,slow", "--json", result, bins=["9.10=" + self.bin, "11.8=" + other]
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(result, encoding="utf-8") as file:
            written = compare.json.load(file)
        self.assertEqual([run["engine"] for run in written["runs"]], ["fast@9.10", "fast@11.8", "slow@9.10", "slow@11.8"])
        self.assertEqual(written["ratios"]["fast@11.8"]["puts_per_second"], 1.5)
        self.assertEqual(written["bins"], {"9.10": "DIR", "11.8": "DIR"})
        self.assertEqual(workloads.column("leveled_sub@11.8").label, "leveled, sub-MemTables, 11.8")
        self.assertIn("--memtable=cairn.SubMemTable", workloads.column("leveled_sub@11.8").flags("memtable", "runs"))
        for bins in (["a=" + other, other], ["a=" + other, "a=" + self.bin], ["a=", "b=" + other]):
            done = self.run_script("releases_2m", bins=bins)
            self.assertEqual(done.returncode, 1)
            self.assertIn("each with a name of its own", done.stderr)

    def test_what_ran_before_a_failure_is_kept(self):
        result = os.path.join(self.bin, "result.json")
        self.expect_failure("ended with code 3", "uniform_2m", "--engines", "fast,broken", "--json", result)
        with open(result, encoding="utf-8") as file:
            written = compare.json.load(file)
        self.assertEqual([run["engine"] for run in written["runs"]], ["fast"])

    def test_errors_are_one_line(self):
        self.expect_failure("unknown workload nothing", "nothing")
        self.expect_failure("a workload is missing")
        self.expect_failure("none twice", "uniform_2m", "--engines", "fast,fast")
        self.expect_failure("--repeat", "uniform_2m", "--repeat", "0")
        self.expect_failure("ended with code 3: no such thing", "uniform_2m", "--engines", "broken")
        self.expect_failure("is not there", "fill_read")
        self.expect_failure("No such file", "uniform_2m", "--engines", "fast", "--json", "/nonexistent/x.json")

    def test_list(self):
        done = self.run_script("--list")
        self.assertEqual(done.returncode, 0)
        for name in compare.WORKLOADS:
            self.assertIn(name, done.stdout)


if __name__ == "__main__":
    unittest.main()
