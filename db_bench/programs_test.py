"""Tests of the programs db_bench, engine_bench, msls_runs and cairn_demo from outside: what they refuse, and small runs on each engine."""

import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BIN = os.path.join(os.environ["CAIRN_BUILD_DIR"], "bin")
ENGINES = ["leveled", "partitioned", "universal", "ordered", "leveled_ordered", "round_robin", "trie_sst", "ordered_trie", "trie", "trie_cached", "silt"]
DEMO_ENGINES = ["leveled", "universal", "trie"]


def result_cache_bytes(path):
    with open(os.path.join(path, "LOG"), encoding="utf-8") as log:
        found = re.search(r"result cache of (\d+) bytes", log.read())
    return found and int(found.group(1))


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_program(self, name, *arguments, env=None):
        environment = dict(os.environ, TMPDIR=self.folder, **(env or {}))
        return subprocess.run(
            [os.path.join(BIN, name), *arguments], capture_output=True, text=True, check=False, env=environment
        )

    def expect_refusal(self, name, text, *arguments, env=None):
        done = self.run_program(name, *arguments, env=env)
        self.assertNotEqual(done.returncode, 0, arguments)
        self.assertGreater(done.returncode, 0, "killed by a signal")
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertIn(text, lines[0])

    def expect_success(self, name, *arguments, env=None):
        done = self.run_program(name, *arguments, env=env)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done


class DbBenchTest(ProgramTest):
    def stored_options(self, path):
        files = [name for name in os.listdir(path) if name.startswith("OPTIONS-") and not name.endswith("dbtmp")]
        newest = max(files, key=lambda name: int(name.split("-")[1]))
        with open(os.path.join(path, newest), encoding="utf-8") as file:
            return dict(line.strip().split("=", 1) for line in file if "=" in line)

    def bench(self, engine, *arguments, env=None):
        path = os.path.join(self.folder, "db_" + engine)
        done = self.expect_success("db_bench", "--engine=" + engine, "--db=" + path, "--num=20000", *arguments, env=env)
        return done.stdout, self.stored_options(path)

    def test_contradictions(self):
        for text, arguments in [
            ("it may be leveled, partitioned, universal, leveled_ordered, ordered, ordered_trie, trie, trie_sst, silt, round_robin, trie_cached", ["--engine=nothing"]),
            ("it may be leveled, partitioned, universal, leveled_ordered, ordered, ordered_trie, trie, trie_sst, silt, round_robin, trie_cached", ["--engine="]),
            ("--engine_options needs --engine", ["--engine_options=trigger=4"]),
            ("--options_file", ["--engine=leveled", "--options_file=x"]),
            ("--compaction_style", ["--engine=universal", "--compaction_style=0"]),
            ("no_such", ["--engine=leveled", "--engine_options=no_such=1"]),
            ("--options_file", ["--engine=trie_sst", "--options_file=x"]),
            ("--compaction_style", ["--engine=trie_sst", "--compaction_style=1"]),
            ("--num_levels", ["--engine=trie_sst", "--num_levels=7"]),
            ("--use_uint64_comparator", ["--engine=trie_sst", "--use_uint64_comparator", "--key_size=8"]),
            ("--max_scan_distance", ["--engine=trie_sst", "--max_scan_distance=10"]),
            ("--writes_per_range_tombstone", ["--engine=trie_sst", "--writes_per_range_tombstone=10"]),
            ("seekrandom", ["--engine=trie_sst", "--benchmarks=fillrandom,seekrandom", "--seek_nexts=10"]),
            ("compact0", ["--engine=trie_sst", "--benchmarks=fillrandom,compact0[X2]"]),
            ("no_such", ["--engine=trie_sst", "--engine_options=no_such=1"]),
            ("fan_out", ["--engine=trie_sst", "--engine_options=fan_out=7"]),
            ("--num_levels", ["--engine=silt", "--num_levels=7"]),
            ("--use_ribbon_filter", ["--engine=silt", "--use_ribbon_filter"]),
            ("seekrandom", ["--engine=silt", "--benchmarks=fillrandom,seekrandom", "--seek_nexts=10"]),
            ("merge_trigger", ["--engine=silt", "--engine_options=merge_trigger=0"]),
        ]:
            with self.subTest(arguments):
                self.expect_refusal("db_bench", text, *arguments)

    def test_presets_and_overrides(self):
        run = ["--benchmarks=fillrandom"]
        _, options = self.bench("leveled", *run)
        self.assertEqual(options["compaction_style"], "kCompactionStyleLevel")
        self.assertEqual(options["level_compaction_dynamic_level_bytes"], "true")
        self.assertTrue(options["filter_policy"].startswith("bloomfilter:10"))
        _, options = self.bench("leveled", "--level_compaction_dynamic_level_bytes=false", "--bloom_bits=7", *run)
        self.assertEqual(options["level_compaction_dynamic_level_bytes"], "false")
        self.assertTrue(options["filter_policy"].startswith("bloomfilter:7"))
        _, options = self.bench("universal", *run)
        self.assertEqual(options["compaction_style"], "kCompactionStyleUniversal")
        self.assertEqual(options["level0_file_num_compaction_trigger"], "8")
        _, options = self.bench("universal", "--level0_file_num_compaction_trigger=4", *run)
        self.assertEqual(options["level0_file_num_compaction_trigger"], "4")

    def test_result_cache(self):
        for engine in ["leveled", "trie"]:
            with self.subTest(engine):
                self.bench(engine, "--benchmarks=fillrandom,readrandom", "--result_cache_size=1000000")
                self.assertEqual(result_cache_bytes(os.path.join(self.folder, "db_" + engine)), 1000000)

    def test_result_cache_beside_the_environments_options(self):
        for given in [
            "# a remark\nwrite_buffer_size=1M",
            "result_cache=3000000;write_buffer_size=1M",
            "write_buffer_size=1M\n[*/db_leveled]\nresult_cache=3000000\n# a remark",
        ]:
            with self.subTest(given):
                env = {"CAIRN_OPTIONS": given}
                _, options = self.bench("leveled", "--benchmarks=fillrandom", "--result_cache_size=1000000", env=env)
                self.assertEqual(options["write_buffer_size"], "1048576")
                self.assertEqual(result_cache_bytes(os.path.join(self.folder, "db_leveled")), 1000000)

    def test_trie_keeps_every_other_flag(self):
        _, options = self.bench("trie_sst", "--benchmarks=fillrandom")
        self.assertIn("cairn", options["comparator"].lower())
        self.assertIn("bloomfilter:16:", options["table"])
        flags = {
            "write_buffer_size": "1000000",
            "bloom_bits": "11",
            "compression_type": "lz4",
            "max_background_jobs": "5",
            "open_files": "77",
            "block_size": "8192",
            "bytes_per_sync": "12345",
            "level0_file_num_compaction_trigger": "6",
            "level0_slowdown_writes_trigger": "33",
            "level0_stop_writes_trigger": "44",
        }
        _, options = self.bench(
            "trie_sst", "--benchmarks=fillrandom", *[f"--{name}={value}" for name, value in flags.items()]
        )
        self.assertIn("cairn", options["comparator"].lower())
        self.assertIn("bloomfilter:11:", options["table"])
        self.assertIn("block_size=8192;", options["table"])
        self.assertEqual(options["compression"], "kLZ4Compression")
        self.assertEqual(options["max_open_files"], "77")
        for name in [
            "write_buffer_size",
            "max_background_jobs",
            "bytes_per_sync",
            "level0_file_num_compaction_trigger",
            "level0_slowdown_writes_trigger",
            "level0_stop_writes_trigger",
        ]:
            self.assertEqual(options[name], flags[name], name)

    def test_trie_settles_compacts_and_reports(self):
        output, _ = self.bench(
            "trie_sst",
            "--benchmarks=fillrandom,flush,waitforcompaction,stats,compact,readrandom,readseq,levelstats",
            "--write_buffer_size=65536",
            "--engine_options=root_trigger=2;trigger=2",
        )
        self.assertIn("finished with status (OK)", output)
        self.assertIn("depth", output)
        self.assertRegex(output, r"readrandom .*\(12\d\d\d of 20000 found\)")
        self.assertRegex(output, r"readseq .* ops/sec")

    def test_trie_in_other_kinds_of_database(self):
        small = ["--write_buffer_size=65536"]
        self.bench("trie_sst", "--benchmarks=fillrandom,readrandom", "--num_column_families=2", *small)
        self.bench("trie_sst", "--benchmarks=fillrandom", *small)
        output, _ = self.bench("trie_sst", "--benchmarks=readrandom", "--readonly", *small)
        self.assertRegex(output, r"readrandom .* of 20000 found\)")

    def test_transactions_on_an_options_file(self):
        self.expect_refusal("db_bench", "--options_file", "--engine=trie", "--transaction_db")
        folder = os.path.join(self.folder, "options")
        self.expect_success("cairn", "options", "trie", "--into", folder)
        file = "--options_file=" + os.path.join(folder, os.listdir(folder)[0])
        # Not randomtransaction: in Release builds RocksDB's fails on any engine (its set-up stands inside assert()).
        flags = ["--transaction_db"]
        if os.environ["CAIRN_BUILD_TYPE"] != "Debug":  # where db_bench asserts that a database is gone which it keeps
            flags.append("--optimistic_transaction_db")
        for flag in flags:
            path = os.path.join(self.folder, "db" + flag)
            self.expect_success("db_bench", "--benchmarks=fillrandom,readrandom", "--num=20000", "--db=" + path, file, flag)
            self.assertIn("cairn.", self.stored_options(path)["comparator"])

    def test_silt_keeps_other_flags_and_merges(self):
        output, options = self.bench(
            "silt",
            "--benchmarks=fillrandom,flush,waitforcompaction,readrandom,compact,readrandom,readseq,stats,levelstats",
            "--write_buffer_size=65536",
            "--block_size=8192",
            "--subcompactions=3",
            "--engine_options=partitions=1;merge_trigger=4;max_hash_stores=6;group=128",
        )
        self.assertRegex(output, r"readrandom .*\(12\d\d\d of 20000 found\)")
        self.assertRegex(output, r"readseq .* ops/sec")
        self.assertEqual(options["num_levels"], "2")
        self.assertEqual(options["level0_file_num_compaction_trigger"], "6")
        self.assertEqual(options["max_subcompactions"], "3")
        self.assertIn("group=128;", options["table"])
        self.assertIn("block_size=8192;", options["table"])
        self.bench("silt", "--benchmarks=readrandom", "--readonly")

    def test_without_an_engine_it_is_rocksdbs(self):
        path = os.path.join(self.folder, "db")
        self.expect_success("db_bench", "--db=" + path, "--num=1000", "--benchmarks=fillrandom,seekrandom")
        options = self.stored_options(path)
        self.assertEqual(options["level_compaction_dynamic_level_bytes"], "false")
        self.assertEqual(options["comparator"], "leveldb.BytewiseComparator")


class EveryBenchmarkTest(ProgramTest):
    """db_bench's own benchmarks that write or read memtables, all over one database."""

    WRITES = (
        "fillseq,fillrandom,fillbatch,fill100K,overwrite,updaterandom,xorupdaterandom,appendrandom,mergerandom,deleteseq,deleterandom,"
        "filluniquerandom,fillanddeleteuniquerandom,fillrandom,randomreplacekeys"
    ).split(",")
    READS = (
        "readrandom,readmissing,readrandomfast,readrandomsmall,multireadrandom,readseq,readreverse,newiterator,seekrandom,fillseekseq,"
        "readrandomwriterandom,readrandommergerandom,randomwithverify,mixgraph,verifychecksum"
    ).split(",")
    BESIDE_A_WRITER = (
        "readwhilewriting,readwhilemerging,readwhilescanning,multireadwhilewriting,seekrandomwhilewriting,seekrandomwhilemerging,"
        "newiteratorwhilewriting"
    ).split(",")

    def expect_every_benchmark(self, *arguments):
        benchmarks = self.WRITES + self.READS + self.BESIDE_A_WRITER
        if os.environ["CAIRN_SANITIZE"] == "address":
            benchmarks.remove("randomreplacekeys")  # takes a snapshot that it never gives back
        done = self.expect_success(
            "db_bench",
            "--db=" + os.path.join(self.folder, "db"),
            "--benchmarks=" + ",".join(benchmarks),
            "--num=3000",
            "--reads=500",
            "--threads=2",
            "--write_buffer_size=65536",
            "--merge_operator=uint64add",
            *arguments,
        )
        for name in benchmarks:
            self.assertRegex(done.stdout, r"(?m)^" + name + r" +: .* ops/sec", name)

    def test_sub_memtables_below_leveled(self):
        self.expect_every_benchmark("--engine=leveled", "--memtablerep=cairn.SubMemTable")

    def test_sub_memtables_with_pipelined_writes(self):
        self.expect_every_benchmark(
            "--engine=leveled", "--memtablerep=cairn.SubMemTable:segment_size=32768", "--enable_pipelined_write"
        )

    def test_trie(self):
        self.expect_every_benchmark("--engine=trie")

    def test_silt(self):
        self.expect_every_benchmark("--engine=silt")


class EngineBenchTest(ProgramTest):
    def test_refusals(self):
        self.expect_refusal("engine_bench", "--engine is missing")
        self.expect_refusal("engine_bench", "unknown --engine=nothing", "--engine=nothing")
        self.expect_refusal("engine_bench", "--value_max", "--engine=leveled", "--value_max=65536")
        self.expect_refusal("engine_bench", "--theta", "--engine=leveled", "--theta=1")
        self.expect_refusal("engine_bench", "uniform or zipf", "--engine=leveled", "--distribution=normal")
        self.expect_refusal("engine_bench", "no_such_option", "--engine=leveled", "--db_options=no_such_option=1")
        self.expect_refusal("engine_bench", "unexpected argument x", "--engine=leveled", "x")
        self.expect_refusal("engine_bench", "/nonexistent", "--engine=leveled", "--db=/nonexistent")

    def test_each_engine(self):
        for engine in ENGINES:
            for distribution in ["uniform", "zipf"]:
                with self.subTest(engine=engine, distribution=distribution):
                    done = self.expect_success(
                        "engine_bench",
                        "--engine=" + engine,
                        "--distribution=" + distribution,
                        "--puts=60000",
                        "--keys=20000",
                        "--fill",
                        "--index_in_cache",
                        "--mixed_gets=3000",
                        "--deletes_percent=10",
                        "--write_buffer_size=262144",
                        "--gets=10000",
                        "--missing_gets=10000",
                        "--json=-",
                    )
                    result = json.loads(done.stdout)
                    self.assertEqual(result["engine"], engine)
                    self.assertGreater(result["flush_bytes"], 0)
                    self.assertGreater(result["compaction_bytes"], 0)
                    self.assertGreater(result["space_amplification"], 0.9)
                    self.assertLess(result["distinct_keys"], 20000)
                    self.assertEqual(result["mixed"]["gets"], 3000)
                    self.assertGreaterEqual(result["mixed"]["p99_micros"], result["mixed"]["p50_micros"])
                    self.assertEqual(result["first_pass"]["gets"], 10000)
        self.assertEqual(os.listdir(self.folder), [], "the scratch folders are removed")

    def test_published_mixes(self):
        """Every shape on each kind of engine; the program itself compares what it reads."""
        for engine, mixes in [
            *[(engine, "ycsb_a,ycsb_b,ycsb_c,ycsb_f,ycsb_d,ycsb_e") for engine in ENGINES],
            *[(engine, mix) for engine in ("leveled", "trie", "silt") for mix in ("etc", "app", "usr", "sys", "var")],
            *[(engine, mix) for engine in ("leveled", "universal", "ordered", "ordered_trie", "trie") for mix in ("queue", "series")],
        ]:
            with self.subTest(engine=engine, mixes=mixes):
                done = self.expect_success(
                    "engine_bench", "--engine=" + engine, "--mix=" + mixes, "--keys=5000", "--mix_operations=2000",
                    "--mix_record_bytes=100", "--write_buffer_size=65536", "--scan", "--json=-",
                    *(["--direct_io", "--index_in_cache"] if mixes == "etc" else []))
                result = json.loads(done.stdout)
                in_hash_order = engine in ("trie_sst", "trie", "trie_cached", "silt")
                for mix in mixes.split(","):
                    if in_hash_order and mix in ("ycsb_e", "queue", "series"):
                        self.assertIn(mix, result["left_out"])
                        continue
                    self.assertGreater(result[mix]["per_second"], 0)
                    self.assertEqual(result[mix]["operations"], 2000)
                    self.assertGreaterEqual(result[mix]["p99_micros"], result[mix]["p50_micros"])
                self.assertGreater(result["written_per_byte"], 0.5)
        self.assertEqual(os.listdir(self.folder), [], "the scratch folders are removed")

    def test_mixes_that_are_refused(self):
        for text, *flags in [
            ("there are ycsb_a, ycsb_b", "--mix=nothing", "--keys=5000"),
            ("of one shape", "--mix=ycsb_a,etc", "--keys=5000"),
            ("at least 1000 --keys", "--mix=ycsb_a"),
            ("at most 65536", "--mix=ycsb_a", "--keys=5000", "--mix_record_bytes=65537"),
        ]:
            self.expect_refusal("engine_bench", text, "--engine=leveled", *flags)

    def test_result_cache(self):
        for engine in ENGINES:
            with self.subTest(engine):
                path = os.path.join(self.folder, engine)
                done = self.expect_success(
                    "engine_bench",
                    "--engine=" + engine,
                    "--path=" + path,
                    "--puts=20000",
                    "--write_buffer_size=262144",
                    "--gets=20000",
                    "--missing_gets=10000",
                    "--result_cache=1000000",
                    "--json=-",
                )
                self.assertEqual(json.loads(done.stdout)["workload"]["result_cache"], 1000000)
                self.assertEqual(result_cache_bytes(os.path.join(path, "db")), 1000000)


class DemoTest(ProgramTest):
    def fake_apt_cache(self, script):
        folder = os.path.join(self.folder, "fake_bin")
        os.mkdir(folder)
        path = os.path.join(folder, "apt-cache")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        return {"PATH": folder + ":" + os.environ["PATH"]}

    def expect_demo_error(self, text, *arguments, env=None):
        self.expect_refusal("cairn_demo", text, *arguments, env=env)

    def test_refusals(self):
        env = self.fake_apt_cache("exit 0\n")
        self.expect_demo_error("apt-get update", env=env)
        self.expect_demo_error("exclude each other", "--items=5", "--file=x")
        self.expect_demo_error("unknown engine nothing", "--engines=leveled,nothing")
        self.expect_demo_error("cannot read", "--file=/nonexistent")
        tsv = os.path.join(self.folder, "x.tsv")
        with open(tsv, "w", encoding="utf-8") as file:
            file.write("a\tb\nno tab\n")
        self.expect_demo_error("line 2", "--file=" + tsv)

    def expect_table(self, *arguments, env=None, engines=DEMO_ENGINES):
        result = os.path.join(self.folder, "result.json")
        done = self.run_program("cairn_demo", "--json=" + result, "--write_buffer_size=65536", *arguments, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, " +".join(engines))
        with open(result, encoding="utf-8") as file:
            written = json.load(file)
        self.assertEqual(list(written["engines"]), engines)
        for engine in written["engines"].values():
            self.assertEqual(engine["keys_compared"] + engine["deleted_keys_absent"], written["items"])
            self.assertGreater(engine["deleted_keys_absent"], 0)
        return written

    def test_made_up_items(self):
        self.assertEqual(self.expect_table("--items=20000")["items"], 20000)
        self.expect_table("--items=20000", "--engines=leveled,silt", engines=["leveled", "silt"])

    def test_file(self):
        tsv = os.path.join(self.folder, "x.tsv")
        with open(tsv, "w", encoding="utf-8") as file:
            for i in range(5000):
                file.write(f"key{i % 4000}\tvalue {i}\n")
        self.assertEqual(self.expect_table("--file=" + tsv)["items"], 4000)

    def test_package_index(self):
        env = self.fake_apt_cache(
            "for i in $(seq 500); do printf 'Package: p%d\\nVersion: 1\\nTag: a,\\n b\\n\\n' $i; done\n"
        )
        self.assertEqual(self.expect_table(env=env)["items"], 1500)


class TrieSimulationTest(ProgramTest):
    """The command that docs/design/trie.md shows, and the figure that it gives for it."""

    PROGRAM = os.path.join(os.environ["CAIRN_BUILD_DIR"], "bench", "trie_simulation")

    def setUp(self):
        super().setUp()
        if not os.path.exists(self.PROGRAM):
            self.skipTest("built without benchmarks")

    def test_what_the_documentation_says(self):
        with open(os.path.join(SOURCE, "docs", "design", "trie.md"), encoding="utf-8") as file:
            page = file.read()
        command = re.search(r"^build/bench/trie_simulation (.*)$", page, re.MULTILINE).group(1)
        claimed = re.search(r"([\d.]+) with 16 and 15", page).group(1)
        done = subprocess.run([self.PROGRAM, *shlex.split(command)], capture_output=True, text=True, check=True)
        last = [line.split() for line in done.stdout.splitlines() if re.match(r" +\d+ ", line)][-1]
        self.assertAlmostEqual(float(last[1]), float(claimed), delta=0.02)

    def test_keeps_the_space_bound_under_updates_of_a_fixed_key_set(self):
        flags = ["--puts=1000000", "--keys=200000", "--flush=2000", "--threads=1"]
        done = subprocess.run([self.PROGRAM, *flags], capture_output=True, text=True, check=True)
        lines = [line.split() for line in done.stdout.splitlines() if re.match(r" +\d+ ", line)]
        worst = max(float(line[3]) for line in lines)
        self.assertGreater(worst, 1.3)
        self.assertLess(worst, 1.51)

    def test_refuses_what_it_cannot_do(self):
        for flag, text in (("--trie=slots=1", "slots"), ("--puts=0", "out of range")):
            done = subprocess.run([self.PROGRAM, flag], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)



class MslsRunsTest(ProgramTest):
    def run_small(self, *arguments):
        done = self.expect_success(
            "msls_runs", "--db=" + os.path.join(self.folder, "db"), "--keys=50K", "--write-buffer=512K",
            "--level-base=1M", "--file-size=512K", *arguments)
        return json.loads(done.stdout)

    def test_model_and_measurement(self):
        for engine in ["leveled", "trie"]:
            run = self.run_small("--engine=" + engine, "--requests=100K")
            self.assertGreater(run["measured"], 1, engine)
            self.assertLess(abs(run["error_percent"]), 30, run)

    def test_a_slow_device_and_the_cost_of_compactions(self):
        rate = 8 << 20
        run = self.run_small("--requests=100K", "--unpaced", "--write-rate=%d" % rate)
        written = run["measured"] * 100000 * run["item_bytes_on_disk"]
        self.assertLess(written, rate * (run["seconds"] + 1), run)
        self.assertLess(run["puts_per_second_settled"], run["puts_per_second"] * 1.001)
        cost = run["cost"]
        self.assertGreater(cost["compactions"], 0)
        self.assertGreater(cost["records_compacted_per_put"], run["measured"] - run["measured_flush"])
        self.assertGreater(cost["bytes_read_per_put"], 100)
        self.assertGreater(cost["processor_seconds"], cost["compaction_processor_seconds"])

    def test_refusals(self):
        self.expect_refusal("msls_runs", "--db")


class ScaleTest(ProgramTest):
    def scale(self, *arguments):
        return subprocess.run([os.path.join(SOURCE, "db_bench", "scale"), *arguments], capture_output=True, text=True, check=False)

    def test_a_picture(self):
        picture = os.path.join(self.folder, "scale.svg")
        done = self.scale("--draw", "--picture", picture, "--sizes", "1G", "10G", "--engines", "trie", "leveled")
        if done.returncode != 0:
            self.assertIn("matplotlib is missing: run scripts/install_packages report", done.stderr)
            return
        with open(picture, encoding="utf-8") as file:
            self.assertIn("peak space amplification", file.read())

    def test_a_database_against_the_model(self):
        results = os.path.join(self.folder, "results")
        os.mkdir(results)
        done = self.scale("--check", self.folder, "--items", "50K", "--engines", "leveled", "--results", results)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(results, "scale.json"), encoding="utf-8") as file:
            medians = json.load(file)["medians"]
        for row in ("load", "overwrites"):
            measured, model = (medians["leveled"]["50K, " + words] for words in (row, row + ", model"))
            self.assertLess(abs(model / measured - 1), 0.3, medians)


if __name__ == "__main__":
    unittest.main()
