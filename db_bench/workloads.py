"""What db_bench/compare runs and db_bench/results shows: workloads, the columns that run them, the rows they report."""

import json
import os
import re

def flatten(value, prefix=""):
    """Numbers of nested dicts and lists, by dotted path."""
    if isinstance(value, bool):
        return {}
    if isinstance(value, (int, float)):
        return {prefix: float(value)}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    flat = {}
    for key, child in items:
        flat.update(flatten(child, f"{prefix}.{key}" if prefix else str(key)))
    return flat


MEMTABLES = ["skip_list", "cairn.SubMemTable", "vector"]
SUB_MEMTABLE = MEMTABLES[1]
# Writes that survive the death of the process as with a WAL, without one.
DURABLE = SUB_MEMTABLE + ":durable=true"
# Indexes and filters in the block cache, by parts. High priority and a pinned top level are RocksDB's defaults.
PARTITIONED = "index_type=kTwoLevelIndexSearch;partition_filters=true;cache_index_and_filter_blocks=true"


class Column:
    """What a column of a table runs: an engine, and what is set on top of the engine's own choice.

    memtable: RocksDB's name of one. runs: sorted runs that universal compaction keeps. options: the engine's own. blocks:
    RocksDB's of its block-based table.
    """

    def __init__(self, label, engine, memtable=None, runs=None, options=None, blocks=None):
        self.label = label
        self.engine = engine
        self.memtable = memtable
        self.runs = runs
        self.options = options
        self.blocks = blocks

    def flags(self, memtable_flag, runs_flag):
        flags = ["--engine=" + self.engine]
        flags += [f"--{memtable_flag}={self.memtable}"] if self.memtable else []
        flags += ["--engine_options=" + self.options] if self.options else []
        flags += ["--block_options=" + self.blocks] if self.blocks else []
        return flags + ([f"--{runs_flag}={self.runs}"] if self.runs else [])


# Rivals with what they can take of ours, so that a table says what each part brings by itself. Every other engine of
# db_bench/engines.h is a column of its own name.
COLUMNS = {
    "leveled": Column("leveled", "leveled"),
    "leveled_sub": Column("leveled, sub-MemTables", "leveled", SUB_MEMTABLE),
    "universal": Column("universal 8", "universal"),
    "universal_8_sub": Column("universal 8, sub-MemTables", "universal", SUB_MEMTABLE),
    "universal_16": Column("universal 16", "universal", runs=16),
    "universal_16_sub": Column("universal 16, sub-MemTables", "universal", SUB_MEMTABLE, 16),
    "leveled_ordered": Column("leveled, order filter", "leveled_ordered"),
    "leveled_ordered_sub": Column("leveled, order filter, sub-MemTables", "leveled_ordered", SUB_MEMTABLE),
    "leveled_durable": Column("leveled, durable sub-MemTables", "leveled", DURABLE),
    "trie_durable": Column("`trie`, durable sub-MemTables", "trie", DURABLE),
    "trie_skip_list": Column("`trie`, skip list", "trie", "skip_list"),
    "silt_1": Column("`silt`, partitions=1", "silt", options="partitions=1"),
    "silt_filter": Column("`silt`, last_level_filter_bits=4", "silt", options="last_level_filter_bits=4"),
    # Of db_bench/frontier: no more space, runs and bytes written than universal at 16 runs under Zipf-distributed updates.
    "universal_16_partitioned": Column("universal 16, partitioned", "universal", runs=16, blocks=PARTITIONED),
    "ordered_trie_partitioned": Column("`ordered_trie`, partitioned", "ordered_trie", blocks=PARTITIONED),
    "trie_space_2": Column("`trie`, space_bound=2", "trie", options="root_trigger=12;trigger=4;space_bound=2"),
}
ENGINES = ["leveled", "leveled_sub", "universal_16_sub", "ordered", "trie"]


def column(name):
    """Of ENGINE@BUILD, which db_bench/compare --bin BUILD=DIR runs, that of the engine with the build's name in its label."""
    engine, at, build = name.rpartition("@")
    if at:
        ours = column(engine)
        return Column(f"{ours.label}, {build}", ours.engine, ours.memtable, ours.runs, ours.options, ours.blocks)
    return COLUMNS.get(name) or Column(f"`{name}`", name)


class Metric:
    """A row of the table. `key` is where parse() puts it, `scale` divides it for people.

    better: "more" or "less" of it is better, or None.
    """

    def __init__(self, key, label, digits=2, scale=1.0, better=""):
        self.key = key
        self.label = label
        self.digits = digits
        self.scale = scale
        self.better = better if better != "" else self.better_by_name(key)

    @staticmethod
    def better_by_name(key):
        """Rates are better when there is more of them, costs when there is less."""
        if "per_second" in key:
            return "more"
        return None if key in ("files", "sorted_runs") else "less"

    def text(self, value):
        return "-" if value is None else f"{value / self.scale:.{self.digits}f}"


LOAD_METRICS = [
    Metric("written_per_byte", "write amplification"),
    Metric("written_per_byte_of_updates", "write amplification of the updates"),
    Metric("flush_bytes", "  by flush, GB", 2, 1e9),
    Metric("compaction_bytes", "  by compaction, GB", 2, 1e9),
    Metric("puts_per_second", "load rate, thousand puts/s", 0, 1e3),
    Metric("puts_per_second_by_tenth.0", "  first tenth", 0, 1e3),
    Metric("puts_per_second_by_tenth.4", "  fifth tenth", 0, 1e3),
    Metric("puts_per_second_by_tenth.9", "  last tenth", 0, 1e3),
    Metric("puts_per_second_until_settled", "load and settle, thousand puts/s", 0, 1e3),
    Metric("put_p50_micros", "Put p50, us", 1),
    Metric("put_p99_micros", "Put p99, us", 1),
    Metric("put_p999_micros", "Put p99.9, us", 1),
    Metric("put_max_micros", "longest Put, ms", 1, 1e3),
    Metric("stall_seconds", "write stalls, s", 1),
    Metric("settle_seconds", "settle after the load, s", 1),
    Metric("writer_cpu_seconds", "CPU time, writer, s", 1),
    Metric("background_cpu_seconds", "CPU time, background, s", 1),
    Metric("table_bytes", "bytes on disk, GB", 2, 1e9),
    Metric("space_amplification", "space amplification at the end"),
    Metric("max_space_amplification", "peak space amplification, live tables"),
    Metric("max_space_amplification_on_disk", "peak space amplification"),
    Metric("files", "files", 0),
    Metric("sorted_runs", "sorted runs", 0),
    Metric("index_filter_memory_bytes", "indexes and filters in memory, MB", 1, 1e6),
    Metric("index_filter_block_bytes", "indexes and filters, MB", 1, 1e6),
    Metric("first_pass.per_second", "Get, first pass, thousand/s", 0, 1e3),
    Metric("first_pass.blocks_read_per_get", "blocks read per Get, first pass", 3),
    Metric("second_pass.per_second", "Get, thousand/s", 0, 1e3),
    Metric("second_pass.blocks_read_per_get", "blocks read per Get", 3),
    Metric("second_pass.filters_asked_per_get", "filters asked per Get", 2),
    Metric("missing.per_second", "Get of absent keys, thousand/s", 0, 1e3),
    Metric("missing.blocks_read_per_get", "blocks read per absent key", 4),
    Metric("mixed.per_second", "Get during overwrites, thousand/s", 0, 1e3),
    Metric("mixed.p50_micros", "Get during overwrites p50, us", 1),
    Metric("mixed.p99_micros", "Get during overwrites p99, us", 1),
    Metric("mixed.p999_micros", "Get during overwrites p99.9, us", 1),
    Metric("mixed.puts_per_second", "overwrites meanwhile, thousand/s", 0, 1e3),
]


def memory_metrics(sizes):
    """Rows of lookups with a block cache of each of these sizes, bytes."""
    rows = []
    for i, size in enumerate(sizes):
        lookups = f"memory.{i}."
        for threads in (4, 16):
            present = f"{lookups}threads_{threads}.present"
            rows += [
                Metric(present + ".per_second", f"{size / 1e6:g} MB: Get by {threads} threads, thousand/s", 1, 1e3),
                Metric(present + "_device_share", f"{size / 1e6:g} MB: {threads} threads, share of the device", 2, better="more"),
            ]
        rows += [
            Metric(lookups + "present_p99_micros", f"{size / 1e6:g} MB: Get, p99, µs", 0),
            Metric(lookups + "present.cpu_micros", f"{size / 1e6:g} MB: CPU per Get, µs", 1),
            Metric(lookups + "batches_device_share", f"{size / 1e6:g} MB: MultiGet of 32, share of the device", 2, better="more"),
            Metric(lookups + "missing.filter_blocks_read_per_get", f"{size / 1e6:g} MB: filter blocks read per absent key", 2),
            Metric(lookups + "present.index_blocks_read_per_get", f"{size / 1e6:g} MB: index blocks read per Get", 2),
            Metric(lookups + "present.per_second", f"{size / 1e6:g} MB: Get, thousand/s", 1, 1e3),
            Metric(lookups + "present.blocks_read_per_get", f"{size / 1e6:g} MB: blocks read per Get", 2),
            Metric(lookups + "present.data_blocks_read_per_get", f"{size / 1e6:g} MB: data blocks read per Get", 2),
            Metric(lookups + "present.filter_blocks_read_per_get", f"{size / 1e6:g} MB: filter blocks read per Get", 2),
            Metric(lookups + "missing.per_second", f"{size / 1e6:g} MB: Get of absent keys, thousand/s", 1, 1e3),
            Metric(lookups + "missing.blocks_read_per_get", f"{size / 1e6:g} MB: blocks read per absent key", 2),
            Metric(lookups + "missing.data_blocks_read_per_get", f"{size / 1e6:g} MB: data blocks read per absent key", 2),
            Metric(lookups + "batches.per_second", f"{size / 1e6:g} MB: MultiGet of 32, thousand keys/s", 1, 1e3),
        ]
    return rows


CACHED_METRICS = [
    Metric("threads_present.per_second", "Get, two threads, thousand/s", 0, 1e3),
    Metric("threads_missing.per_second", "Get of absent keys, two threads, thousand/s", 0, 1e3),
    Metric("scan.per_second", "scan, thousand entries/s", 0, 1e3),
]


LOOKUPS = [
    ("second_pass", "Get"), ("missing", "Get of an absent key"), ("seek", "Seek"), ("seek_absent", "Seek of an absent key"),
    ("seek_10", "Seek and 10 steps"), ("seek_50", "Seek and 50 steps"), ("scan", "scan, an entry"),
]
READ_METRICS = [
    Metric(f"{name}.{key}", f"{label}, {words}", digits)
    for name, label in LOOKUPS
    for key, words, digits in [("blocks_read_per_get", "blocks read", 3), ("blocks_cached_per_get", "blocks cached", 3),
                               ("cpu_micros", "us of CPU", 2)]
]


class EngineBench:
    """A workload of build/bin/engine_bench, which writes its results as JSON."""

    program = "engine_bench"

    def __init__(self, summary, *flags, more_metrics=(), engines=tuple(ENGINES)):
        self.engines = list(engines)
        self.summary = summary
        self.flags = list(flags)
        self.metrics = LOAD_METRICS + list(more_metrics)

    def command(self, engine, folder):
        return column(engine).flags("memtable", "level0_trigger") + ["--db=" + folder, "--json=-"] + self.flags

    @staticmethod
    def parse(text):
        return flatten(json.loads(text))


class DbBench:
    """A workload of build/bin/db_bench: the rates of its benchmarks, and the counters of --statistics."""

    program = "db_bench"
    engines = ENGINES

    def __init__(self, summary, benchmarks, *flags):
        self.summary = summary
        self.benchmarks = benchmarks.split(",")
        self.flags = ["--benchmarks=" + benchmarks, "--statistics"] + list(flags)
        self.metrics = [
            Metric(name + ".ops_per_second", name + ", thousand/s", 1, 1e3)
            for name in self.benchmarks
            if name not in ("stats", "waitforcompaction")
        ] + [
            Metric("written_per_byte", "write amplification"),
            Metric("flush_bytes", "  by flush, GB", 2, 1e9),
            Metric("compaction_bytes", "  by compaction, GB", 2, 1e9),
        ]

    def command(self, engine, folder):
        chosen = column(engine).flags("memtablerep", "level0_file_num_compaction_trigger")
        return chosen + ["--db=" + os.path.join(folder, "db")] + self.flags

    # "fillrandom   :       2.108 micros/op 474297 ops/sec 0.422 seconds 200000 operations;   52.5 MB/s"
    RATE = re.compile(r"^(\w[\w\[\]-]*)\s*:\s+([\d.]+) micros/op (\d+) ops/sec ([\d.]+) seconds (\d+) operations;")
    # "rocksdb.flush.write.bytes COUNT : 17825792"
    COUNTER = re.compile(r"^rocksdb\.([\w.-]+) COUNT : (\d+)$")
    # "Microseconds per read:", some lines later "Percentiles: P50: 1.63 P75: 2.21 P99: 9.87 P99.9: 21.10 P99.99: 48.00"
    HISTOGRAM = re.compile(r"^Microseconds per (\w+):$")
    PERCENTILE = re.compile(r"(P[\d.]+): ([\d.]+)")
    COUNTERS = {
        "flush.write.bytes": "flush_bytes",
        "compact.write.bytes": "compaction_bytes",
        "bytes.written": "put_bytes",
        "stall.micros": "stall_micros",
    }

    @staticmethod
    def parse(text):
        metrics = {}
        name = operation = None
        for line in text.splitlines():
            histogram = DbBench.HISTOGRAM.match(line)
            if histogram:
                operation = histogram.group(1)
            elif line.startswith("Percentiles: ") and name and operation:
                for percentile, micros in DbBench.PERCENTILE.findall(line):
                    metrics[f"{name}.{operation}.{percentile.lower()}_micros"] = float(micros)
            rate = DbBench.RATE.match(line)
            if rate:
                name = rate.group(1)
                operation = None
                metrics[name + ".micros"] = float(rate.group(2))
                metrics[name + ".ops_per_second"] = float(rate.group(3))
                metrics[name + ".seconds"] = float(rate.group(4))
            counter = DbBench.COUNTER.match(line)
            if counter and counter.group(1) in DbBench.COUNTERS:
                metrics[DbBench.COUNTERS[counter.group(1)]] = float(counter.group(2))
        if metrics.get("put_bytes"):
            written = metrics.get("flush_bytes", 0) + metrics.get("compaction_bytes", 0)
            metrics["written_per_byte"] = written / metrics["put_bytes"]
        if not any(key.endswith(".ops_per_second") for key in metrics):
            raise ValueError("no benchmark reported a rate")
        return metrics


class KnownMixes(EngineBench):
    """Published mixes of operations (db_bench/mixes.h) on one load, by build/bin/engine_bench --mix."""

    ENGINES = ("leveled_sub", "universal_16_sub", "ordered_trie", "trie")
    KEY_ORDER = ENGINES[:3]

    def __init__(self, summary, mixes, *flags, engines=ENGINES):
        super().__init__(summary, "--mix=" + ",".join(mixes), *flags, engines=engines)
        name = mixes[0].split("_")[0]
        self.metrics = [
            row
            for mix in mixes
            for row in (
                Metric(mix + ".per_second", mix + ", K/s", 1, 1e3),
                Metric(mix + ".p99_micros", mix + ", p99, us", 1),
                Metric(mix + ".blocks_read_per_operation", mix + ", blocks read", 2),
                Metric(mix + ".cpu_micros", mix + ", us of CPU", 2),
            )
        ] + [
            Metric("load.per_second_until_settled", name + ", load and settle, thousand items/s", 0, 1e3),
            Metric("written_per_byte", name + ", write amplification"),
            Metric("max_space_amplification_on_disk", name + ", peak space amplification"),
        ]


class MixGraph(DbBench):
    """RocksDB's own model of ZippyDB, with the parameters that its authors published; scans, so engines in key order only.

    Cao et al., "Characterizing, Modeling, and Benchmarking RocksDB Key-Value Workloads at Facebook", FAST 2020, and RocksDB's
    wiki on workload generation ("prefix_dist"). Left out: the sine wave that paces the requests, and the page cache's absence
    (use_direct_*) where the flags here do not ask for it.
    """

    PUBLISHED = [
        "--key_size=48", "--value_size=43", "--key_dist_a=0.002312", "--key_dist_b=0.3467", "--keyrange_dist_a=14.18",
        "--keyrange_dist_b=-2.917", "--keyrange_dist_c=0.0164", "--keyrange_dist_d=-0.08082", "--keyrange_num=30",
        "--value_k=0.2615", "--value_sigma=25.45", "--iter_k=2.517", "--iter_sigma=14.236", "--mix_get_ratio=0.83",
        "--mix_put_ratio=0.14", "--mix_seek_ratio=0.03",
    ]

    def __init__(self, summary, *flags):
        super().__init__(summary, "fillrandom,waitforcompaction,mixgraph", "--histogram", "--compression_type=none",
                         "--max_background_jobs=2", "--seed=1", *self.PUBLISHED, *flags)
        self.engines = list(KnownMixes.KEY_ORDER)
        self.metrics = [
            Metric("mixgraph.ops_per_second", "mixgraph, K/s", 1, 1e3),
            Metric("mixgraph.read.p99_micros", "mixgraph, Get p99, us", 1),
            Metric("mixgraph.write.p99_micros", "mixgraph, Put p99, us", 1),
            Metric("mixgraph.seek.p99_micros", "mixgraph, scan p99, us", 1),
            Metric("fillrandom.ops_per_second", "mixgraph, load, thousand items/s", 0, 1e3),
            Metric("mixgraph_written_per_byte", "mixgraph, write amplification"),
        ]

    @staticmethod
    def parse(text):
        metrics = DbBench.parse(text)
        if "written_per_byte" in metrics:
            metrics["mixgraph_written_per_byte"] = metrics.pop("written_per_byte")
        return metrics


YCSB = ["ycsb_a", "ycsb_b", "ycsb_c", "ycsb_f", "ycsb_d", "ycsb_e"]  # the order that YCSB prescribes for one load
# Bytes of keys and values, of an item in the mean.
KNOWN = [
    ("ycsb", YCSB, 123, "YCSB's core workloads, Zipf 0.99, records of 100 bytes (published: 1,000)"),
    ("etc", ["etc"], 229, "Facebook's ETC: Gets, a quarter deletes, values up to 64 KiB"),
    ("app", ["app"], 301, "Facebook's APP: Gets, a tenth deletes, values of 270 bytes"),
    ("usr", ["usr"], 20, "Facebook's USR: Gets alone, values of 2 bytes"),
    ("sys", ["sys"], 430, "Facebook's SYS: half updates, values of 100 to 700 bytes (chosen here)"),
    ("var", ["var"], 116, "Facebook's VAR: updates alone, values of 20 to 150 bytes (chosen here)"),
    ("queue", ["queue"], 116, "a queue: inserts at the end, deletes and scans at the front"),
    ("series", ["series"], 32, "1,000 time series: appends, deletes of the oldest, scans of the latest"),
]
KNOWN_SIZES = [
    # name, items, write buffer, operations of each mix, on the disk
    ("200k", 200000, 1 << 20, 50000, False),
    ("200k_disk", 200000, 1 << 20, 20000, True),
    ("1m", 1000000, 4 << 20, 500000, False),
    ("1m_disk", 1000000, 4 << 20, 100000, True),
    ("20m", 20000000, 64 << 20, 1000000, False),
    ("20m_disk", 20000000, 64 << 20, 200000, True),
]


def known_workloads():
    """{size: {workload: ...}}: in memory, or with a block cache of a tenth of the data, all else of it read from the disk."""
    sizes = {}
    for size, items, buffer, operations, disk in KNOWN_SIZES:
        words = f", {items:,} items" + (", a block cache of a tenth of the data, direct I/O" if disk else "")

        def flags(item_bytes, items=items, disk=disk):
            cache = max(items * item_bytes // 10, 1 << 20) if disk else 4 << 30
            return [f"--write_buffer_size={buffer}", f"--cache_size={cache}"]

        sizes[size] = {
            f"{name}_{size}": KnownMixes(
                summary + words, mixes, f"--keys={items}", f"--mix_operations={operations}", *flags(item_bytes),
                *(["--mix_record_bytes=100"] if name == "ycsb" else []), *(["--direct_io", "--index_in_cache"] if disk else []),
                *(["--scan"] if items <= 1000000 else []),
                engines=KnownMixes.KEY_ORDER if name in ("queue", "series") else KnownMixes.ENGINES,
            )
            for name, mixes, item_bytes, summary in KNOWN
        }
        direct = ["--use_direct_reads", "--use_direct_io_for_flush_and_compaction", "--cache_index_and_filter_blocks"]
        sizes[size][f"mixgraph_{size}"] = MixGraph(
            "RocksDB's mixgraph, prefix_dist as published" + words, f"--num={items}", f"--reads={operations}", *flags(91),
            *(direct if disk else []),
        )
    return sizes


KNOWN_WORKLOADS = known_workloads()


class MemtableDbBench(DbBench):
    """A workload of build/bin/db_bench on memtables: no compaction, so that flushes alone are in the background."""

    COMMON = [
        "--key_size=16", "--compression_type=none", "--disable_auto_compactions", "--max_background_jobs=2",
        "--max_write_buffer_number=3", "--level0_slowdown_writes_trigger=1000000",
        "--level0_stop_writes_trigger=1000000", "--seed=1",
    ]

    def __init__(self, summary, benchmarks, flags, metrics=None, engines=None):
        super().__init__(summary, benchmarks)
        self.flags = ["--benchmarks=" + benchmarks] + self.COMMON + flags
        last = self.benchmarks[-1]
        self.metrics = metrics or [Metric(last + ".ops_per_second", summary + ", thousand/s", 0, 1e3)]
        self.engines = engines or MEMTABLES

    def command(self, engine, folder):
        # RocksDB's vector takes no concurrent writers.
        concurrent = ["--noallow_concurrent_memtable_write"] if engine == "vector" else []
        return ["--memtablerep=" + engine, "--db=" + os.path.join(folder, "db")] + self.flags + concurrent


class MemtableRepBench:
    """A workload of build/bin/memtablerep_bench, without a database around the memtable."""

    program = "memtablerep_bench"
    engines = MEMTABLES[:2]  # a read of the vector copies and sorts it

    METRICS = [
        Metric("fillrandom.per_second", "random inserts, thousand/s", 0, 1e3),
        Metric("flushable_per_second", "the same with one pass in order, thousand/s", 0, 1e3),
        Metric("readrandom.per_second", "random reads, thousand/s", 0, 1e3),
        Metric("readwrite.per_second", "reads beside one writer, thousand/s", 0, 1e3),
        Metric("readwrite.written_mib_per_second", "what the writer writes, MiB/s", 0),
        Metric("fillseq.per_second", "inserts in order, thousand/s", 0, 1e3),
    ]

    def __init__(self, summary, entries, *flags):
        self.summary = summary
        self.entries = entries
        self.flags = list(flags) + [f"--num_operations={entries}", "--num_scans=1"]
        self.metrics = self.METRICS

    def command(self, engine, folder):
        return ["--memtablerep=" + {"skip_list": "skiplist"}.get(engine, engine)] + self.flags

    def parse(self, text):
        metrics = {}
        name = None
        for line in text.splitlines():
            word, _, value = line.rpartition(" ")
            if word == "Running":
                name = value
            elif line.startswith("Elapsed time: "):
                metrics[name + ".seconds"] = float(line.split()[2]) / 1e6
                metrics[name + ".per_second"] = self.entries / metrics[name + ".seconds"]
            elif line.startswith("Write throughput: "):
                metrics[name + ".written_mib_per_second"] = float(line.split()[2])
        if not metrics:
            raise ValueError("no benchmark reported a time")
        if "fillrandom.seconds" in metrics and "readseq.seconds" in metrics:
            seconds = metrics["fillrandom.seconds"] + metrics["readseq.seconds"]
            metrics["flushable_per_second"] = self.entries / seconds
        return metrics


class OperationCounts:
    """A workload of build/bench/operation_counts_bench: instructions of user code, which no other work disturbs."""

    program = os.path.join("..", "bench", "operation_counts_bench")
    engines = ["leveled", "leveled_sub", "ordered", "ordered_trie", "trie", "trie_durable", "silt"]

    METRICS = [
        Metric("put", "Put", 0),
        Metric("update", "Get, then Put of the key", 0),
        Metric("present", "Get", 0),
        Metric("absent", "Get of an absent key", 0),
        Metric("batch", "MultiGet of 32, for each key", 0),
        Metric("absent_batch", "MultiGet of 32 absent keys, for each key", 0),
        Metric("compact", "16 tables compacted, for each key", 0),
    ]

    def __init__(self, summary, count, millions, write_buffer_mib):
        self.summary = summary
        self.flags = [str(count), str(millions), str(write_buffer_mib)]
        self.metrics = self.METRICS

    def command(self, engine, folder):
        chosen = column(engine)
        engine = {"leveled": "stock"}.get(chosen.engine, chosen.engine)
        engine += ";" + chosen.options if chosen.options else ""
        engine += "," + chosen.memtable if chosen.memtable else ""
        return ["--steps", engine, folder, "all"] + self.flags

    # "present: 4988 instructions per operation"
    COUNT = re.compile(r"^(\w+): (\d+) instructions per operation$", re.MULTILINE)

    @staticmethod
    def parse(text):
        metrics = {name: float(count) for name, count in OperationCounts.COUNT.findall(text)}
        if not metrics:
            raise ValueError("no operation was counted")
        return metrics


def memtable_workloads():
    """Memtables in a database, values of 100 bytes."""
    workloads = {}
    for wal, wal_words in [(False, "no WAL"), (True, "WAL")]:
        for threads, writers in [(1, "1 writer"), (2, "2 writers")]:
            workloads[f"memtable_fillrandom_{'wal' if wal else 'nowal'}_{threads}"] = MemtableDbBench(
                f"fillrandom, {wal_words}, {writers}", "fillrandom",
                ["--value_size=100", f"--num={1500000 // threads}", f"--threads={threads}", f"--disable_wal={int(not wal)}"],
            )
    workloads["memtable_overwrite"] = MemtableDbBench(
        "overwrite, WAL, 1 writer", "fillrandom,overwrite", ["--value_size=100", "--num=1500000"]
    )
    workloads["memtable_fillseq"] = MemtableDbBench(
        "fillseq, WAL, 1 writer", "fillseq", ["--value_size=100", "--num=1500000"]
    )
    workloads["memtable_batches"] = MemtableDbBench(
        "fillrandom in batches of 50, WAL, 1 writer", "fillrandom",
        ["--value_size=100", "--num=3000000", "--batch_size=50"],
    )
    workloads["memtable_read_while_writing"] = MemtableDbBench(
        "reads while another thread overwrites, WAL, all in one memtable or more", "fillrandom,readwhilewriting",
        ["--value_size=100", "--num=500000", "--duration=10", "--histogram", "--write_buffer_size=268435456"],
        [
            Metric("readwhilewriting.ops_per_second", "readwhilewriting, reads, thousand/s", 0, 1e3),
            Metric("readwhilewriting.read.p50_micros", "readwhilewriting p50, us", 2),
            Metric("readwhilewriting.read.p99_micros", "readwhilewriting p99, us", 2),
        ],
        MEMTABLES[:2],
    )
    return workloads


MEMTABLE_WORKLOADS = memtable_workloads()

# What docs/results.md quotes, and small ones to try things with. 16-byte keys, values uniform 1-200 bytes, no
# compression, 64 MiB write buffer, 2 background jobs, WAL on: the defaults of engine_bench.
WORKLOADS = {
    "uniform_2m": EngineBench(
        "2 M puts, uniform over 2 M keys, 8 MiB write buffer: half a minute a run",
        "--puts=2000000", "--write_buffer_size=8388608", "--gets=300000",
    ),
    "uniform_20m": EngineBench(
        "20 M puts, uniform over 20 M keys",
        "--puts=20000000", "--cache_size=4294967296", "--gets=1000000",
    ),
    **{
        f"releases_{words}m": EngineBench(
            f"{millions} M puts, uniform over as many keys, with each of several builds (--bin)",
            f"--puts={millions * 1000000}", f"--write_buffer_size={buffer}", "--cache_size=4294967296",
            f"--gets={gets}", f"--mixed_gets={gets // 2}",
        )
        for words, millions, buffer, gets in [("2", 2, 8 << 20, 300000), ("20", 20, 64 << 20, 1000000)]
    },
    "uniform_100m": EngineBench(
        "100 M puts, uniform over 100 M keys",
        "--puts=100000000", "--cache_size=4294967296", "--gets=1000000",
    ),
    "cached_5m": EngineBench(
        "5 M items stored once, then read and scanned with everything in memory, by one and by two threads",
        "--puts=5000000", "--keys=5000000", "--fill", "--write_buffer_size=16777216", "--cache_size=4294967296",
        "--hyper_clock_cache", "--gets=1000000", "--missing_gets=1000000", "--threads=2", "--scan",
        more_metrics=CACHED_METRICS,
        engines=["leveled", "leveled_sub", "universal_16_sub", "ordered", "trie_sst", "trie"],
    ),
    **{
        f"reads_{millions}m{name}": EngineBench(
            f"{millions} M puts, settle, then reads of all kinds with all files in the page cache{words}",
            f"--puts={millions * 1000000}", "--write_buffer_size=8388608", f"--cache_size={cache}", f"--gets={gets}",
            f"--missing_gets={gets}", f"--seeks={gets // 2}", "--scan", *flags,
            more_metrics=READ_METRICS, engines=["leveled", "leveled_ordered", "ordered", "ordered_trie", "trie"],
        )
        for millions, gets in [(2, 100000), (5, 300000), (20, 300000)]
        for name, words, cache, flags in [
            ("", ", block cache of 128 MiB", 128 << 20, ()),
            ("_mapped", ", mapped", 128 << 20, ("--db_options=allow_mmap_reads=true",)),
            ("_cached", ", and in the block cache", 8 << 30, ("--hyper_clock_cache", "--warm")),
        ]
    },
    **{
        name: EngineBench(
            f"{items // 1000000} M items stored once, then read with direct I/O and little memory",
            f"--puts={items}", f"--keys={items}", "--fill", f"--write_buffer_size={buffer}", f"--cache_size={memory[0]}",
            "--gets=0", "--missing_gets=0", "--memory=" + ",".join(str(size) for size in memory), f"--memory_gets={gets}",
            "--memory_threads=4,16", "--device", more_metrics=memory_metrics(memory),
            engines=["partitioned", "universal_16_partitioned", "trie_cached", "ordered_trie_partitioned", "silt"],
        )
        # All, a quarter and an eighth of what filters of 16 bits per key take, and two fixed sizes.
        for name, items, buffer, memory, gets in [
            ("memory_5m", 5000000, 4 << 20, [10000000, 2500000, 1250000], 40000),
            ("memory_50m", 50000000, 32 << 20, [100000000, 25000000, 12500000], 40000),
            ("memory_250m", 250000000, 64 << 20, [1 << 30, 256 << 20], 100000),
        ]
    },
    "zipf_2m": EngineBench(
        "10 M puts, Zipf 0.99 over 2 M keys, 8 MiB write buffer",
        "--puts=10000000", "--keys=2000000", "--distribution=zipf", "--write_buffer_size=8388608", "--gets=300000",
    ),
    **{
        f"{name}_{distribution}": EngineBench(
            f"{items} stored once, then as many updates, {words}; memory for indexes, filters and blocks: {cache >> 20} MiB",
            f"--keys={keys}", f"--puts={2 * keys}", "--fill", f"--distribution={distribution}",
            f"--value_min={value}", f"--value_max={value}", f"--write_buffer_size={buffer}", f"--cache_size={cache}",
            "--index_in_cache", "--gets=300000", "--missing_gets=300000", "--mixed_gets=3000000",
        )
        for name, items, keys, value, buffer, cache in [
            ("small_2m", "2 M items of 64 bytes", 2000000, 48, 8 << 20, 8 << 20),
            ("small_50m", "50 M items of 64 bytes", 50000000, 48, 64 << 20, 128 << 20),
            ("kilobyte_200k", "200 thousand items of 1 KiB", 200000, 1008, 8 << 20, 8 << 20),
            ("kilobyte_1m", "1 M items of 1 KiB", 1000000, 1008, 16 << 20, 16 << 20),
        ]
        for distribution, words in [("uniform", "uniform"), ("zipf", "Zipf 0.99")]
    },
    **{name: workload for of_size in KNOWN_WORKLOADS.values() for name, workload in of_size.items()},
    "fill_read": DbBench(
        "db_bench: 2 M random puts of 100 bytes, settle, 200 thousand random gets, present and missing",
        "fillrandom,waitforcompaction,readrandom,readmissing",
        "--num=2000000", "--reads=200000", "--compression_type=none", "--write_buffer_size=8388608",
        "--cache_size=1073741824", "--seed=1",
    ),
    "read_while_writing": DbBench(
        "db_bench: random gets of one thread while another overwrites, 20 s, after a load of 2 M puts of 100 bytes",
        "fillrandom,waitforcompaction,readwhilewriting",
        "--num=2000000", "--duration=20", "--compression_type=none", "--write_buffer_size=8388608",
        "--cache_size=1073741824", "--seed=1",
    ),
    "operation_counts": OperationCounts(
        "instructions of each operation on 1.5 M keys, each put twice, everything in the block cache: three minutes a run",
        50, 1.5, 4,
    ),
    **MEMTABLE_WORKLOADS,
    **{
        f"memtablerep_{words}": MemtableRepBench(
            f"memtablerep_bench, {millions} M entries of 100 bytes",
            millions * 1000000, "--num_threads=1", "--benchmarks=fillrandom,readseq,readrandom,fillseq",
        )
        for millions, words in [(1, "1m"), (10, "10m")]
    },
    **{
        f"memtablerep_readwrite_{words}": MemtableRepBench(
            f"memtablerep_bench, {millions} M reads while one thread writes",
            millions * 1000000, "--num_threads=2", "--benchmarks=readwrite",
        )
        for millions, words in [(1, "1m"), (10, "10m")]
    },
}

GROUPS = {
    **{
        f"known_{size}": (f"workloads that others publish: all *_{size}; those that scan without engines in hash order", list(of_size))
        for size, of_size in KNOWN_WORKLOADS.items()
    },
    "memtables": (
        "memtables in databases, no compaction: all workloads memtable_*",
        list(MEMTABLE_WORKLOADS),
    ),
    "memtablereps_1m": ("memtables alone, 1 M entries", ["memtablerep_1m", "memtablerep_readwrite_1m"]),
    "memtablereps_10m": ("memtables alone, 10 M entries", ["memtablerep_10m", "memtablerep_readwrite_10m"]),
}
