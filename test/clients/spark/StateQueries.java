import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.count;
import static org.apache.spark.sql.functions.expr;
import static org.apache.spark.sql.functions.session_window;
import static org.apache.spark.sql.functions.sum;
import static org.apache.spark.sql.functions.window;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StateOperatorProgress;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryProgress;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.streaming.ValueState;

/**
 * Streaming queries of every kind that keeps state, over files. What a batch of a query answers is a function of the files alone, and is
 * written to OUT/QUERY/BATCH, sorted; a batch that is done again after a kill writes the same file again.
 *
 * <p>StateQueries input FOLDER [FILES ROWS KEYS]: makes the files.<br>
 * StateQueries run FOLDER OUT CHECKPOINTS: runs the queries from where they are to the end of the files.<br>
 * StateQueries measure FOLDER OUT CHECKPOINTS JSON: the same, then writes what Spark has counted, and waits until it is killed.<br>
 * StateQueries restore CHECKPOINTS JSON: reads back the state of the last batch, three times, and writes the median time.
 */
public final class StateQueries {
  private static final long START = 1_700_000_000L;

  private StateQueries() {}

  public static void main(final String[] args) throws Exception {
    if (args[0].equals("input")) {
      final int files = args.length > 2 ? Integer.parseInt(args[2]) : 5;
      final int rows = args.length > 2 ? Integer.parseInt(args[3]) : 1000;
      final int keys = args.length > 2 ? Integer.parseInt(args[4]) : 300;
      makeInput(new File(args[1], "left"), 1, files, rows, keys);
      makeInput(new File(args[1], "right"), 2, files, rows, keys);
      return;
    }
    // Master, libraries and environment are system properties, spark.*.
    final SparkSession spark = SparkSession.builder().appName("state").getOrCreate();
    if (args[0].equals("restore")) {
      restore(spark, args[1], Path.of(args[2]));
      spark.stop();
      return;
    }
    final long begin = System.nanoTime();
    final List<StreamingQuery> queries = new ArrayList<>();
    final Dataset<Row> left = read(spark, args[1] + "/left");
    start(queries, args, "count", "update", left.groupBy("key").agg(count("value"), sum("number")));
    start(queries, args, "dedup", "append", left.dropDuplicatesWithinWatermark("key", "value"));
    start(queries, args, "window", "append",
        left.groupBy(window(col("time"), "20 seconds", "10 seconds"), col("key")).agg(count("value"), sum("number")));
    start(queries, args, "session", "append", left.groupBy(session_window(col("time"), "3 seconds"), col("key")).agg(count("value")));
    final Dataset<Row> right = read(spark, args[1] + "/right").select(col("key").as("key2"), col("number").as("number2"), col("time").as("time2"));
    start(queries, args, "join", "append",
        left.join(right, expr("key = key2 AND time2 BETWEEN time - INTERVAL 5 SECONDS AND time + INTERVAL 5 SECONDS"), "left_outer"));
    start(queries, args, "transform", "update",
        left.groupByKey((MapFunction<Row, String>) row -> row.getString(0), Encoders.STRING())
            .transformWithState(new Totals(), TimeMode.EventTime(), OutputMode.Update(), Encoders.STRING()).toDF());
    for (final StreamingQuery query : queries) {
      query.awaitTermination();
    }
    if (args[0].equals("measure")) {
      report(queries, (System.nanoTime() - begin) / 1e9, Path.of(args[4]));
      Thread.sleep(Long.MAX_VALUE);
    }
    spark.stop();
  }

  /** What the state stores count for themselves, of all batches. */
  private static void report(final List<StreamingQuery> queries, final double seconds, final Path file) throws IOException {
    long records = 0;
    long put = 0;
    long written = 0;
    long state = 0;
    for (final StreamingQuery query : queries) {
      long last = 0;
      for (final StreamingQueryProgress progress : query.recentProgress()) {
        records += progress.numInputRows();
        last = 0;
        for (final StateOperatorProgress operator : progress.stateOperators()) {
          final Map<String, Long> metrics = operator.customMetrics();
          put += metrics.get("rocksdbTotalBytesWritten");
          written += metrics.get("rocksdbTotalBytesWrittenByFlush") + metrics.get("rocksdbTotalBytesWrittenByCompaction");
          last += metrics.get("rocksdbSstFileSize");
        }
      }
      state += last;
    }
    publish(file, String.format(Locale.ROOT, "{\"records\": %d, \"records_per_second\": %.1f, \"put_bytes\": %d, \"written_bytes\": %d, \"state_bytes\": %d}",
        records, records / seconds, put, written, state));
  }

  /** By Spark's reader of state, which opens each store from the checkpoint as an executor does after a loss. */
  private static void restore(final SparkSession spark, final String checkpoints, final Path file) throws IOException {
    final List<Double> times = new ArrayList<>();
    long rows = 0;
    for (int i = 0; i < 3; i++) {
      rows = 0;
      final long begin = System.nanoTime();
      for (final String name : List.of("count", "dedup", "window", "session")) {
        rows += spark.read().format("statestore").load(checkpoints + "/" + name).count();
      }
      times.add((System.nanoTime() - begin) / 1e9);
    }
    times.sort(null);
    publish(file, String.format(Locale.ROOT, "{\"restored_records\": %d, \"restore_seconds\": %.3f}", rows, times.get(1)));
  }

  private static void publish(final Path file, final String json) throws IOException {
    final Path part = Path.of(file + ".part");
    Files.writeString(part, json + "\n");
    Files.move(part, file, StandardCopyOption.REPLACE_EXISTING);
  }

  private static Dataset<Row> read(final SparkSession spark, final String folder) {
    return spark.readStream().schema("key STRING, value STRING, number BIGINT, time TIMESTAMP").option("maxFilesPerTrigger", 1).csv(folder)
        .withWatermark("time", "10 seconds");
  }

  private static void start(final List<StreamingQuery> queries, final String[] args, final String name, final String mode,
      final Dataset<Row> answers) throws Exception {
    final Path folder = Files.createDirectories(Path.of(args[2], name));
    queries.add(answers.writeStream().queryName(name).outputMode(mode).option("checkpointLocation", args[3] + "/" + name)
        .trigger(Trigger.AvailableNow()).foreachBatch((VoidFunction2<Dataset<Row>, Long>) (batch, id) -> write(batch, folder, id)).start());
  }

  private static void write(final Dataset<Row> batch, final Path folder, final long id) throws IOException {
    final List<String> lines = new ArrayList<>();
    batch.collectAsList().forEach(row -> lines.add(row.mkString("\t")));
    lines.sort(null);
    final Path part = folder.resolve("." + id);
    Files.write(part, lines);
    Files.move(part, folder.resolve(String.valueOf(id)), StandardCopyOption.REPLACE_EXISTING);
  }

  // Times go forward, with some disorder that the watermark allows. Files are read in the order of their times.
  private static void makeInput(final File folder, final int seed, final int files, final int rows, final int keys) throws IOException {
    Files.createDirectories(folder.toPath());
    final int hotKeys = keys < 1000 ? 10 : keys / 10;
    for (int i = 0; i < files; i++) {
      final List<String> lines = new ArrayList<>();
      for (int j = 0; j < rows; j++) {
        final long random = mix(((long) seed * files + i) * rows + j);
        final int key = (int) (random % 2 == 0 ? (random >>> 8) % hotKeys : (random >>> 8) % keys);
        final long time = START + 15L * i + 15L * j / rows - (random >>> 40) % 4;
        lines.add(String.format("key%04d,value%d,%d,%s", key, (random >>> 24) % 3, random % 1000, java.time.Instant.ofEpochSecond(time)));
      }
      final File file = new File(folder, String.format("part%02d.csv", i));
      Files.write(file.toPath(), lines);
      if (!file.setLastModified(START * 1000 + 10_000L * i)) {
        throw new IOException("the time of " + file);
      }
    }
  }

  private static long mix(final long i) {
    long z = (i + 1) * 0x9e3779b97f4a7c15L;
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
    return (z ^ (z >>> 27)) * 0x94d049bb133111ebL >>> 1;
  }

  /** A value, a map and a timer for each key: several column families of one state store. */
  private static final class Totals extends StatefulProcessor<String, Row, String> {
    private static final long serialVersionUID = 1L;
    private transient ValueState<Long> total;
    private transient MapState<String, Long> perValue;

    @Override
    public void init(final OutputMode mode, final TimeMode time) {
      total = getHandle().getValueState("total", Encoders.LONG(), TTLConfig.NONE());
      perValue = getHandle().getMapState("perValue", Encoders.STRING(), Encoders.LONG(), TTLConfig.NONE());
    }

    @Override
    public scala.collection.Iterator<String> handleInputRows(
        final String key, final scala.collection.Iterator<Row> rows, final TimerValues timers) {
      long sum = total.exists() ? total.get() : 0;
      while (rows.hasNext()) {
        final Row row = rows.next();
        sum += row.getLong(2);
        final String value = row.getString(1);
        perValue.updateValue(value, row.getLong(2) + (perValue.containsKey(value) ? perValue.getValue(value) : 0L));
      }
      total.update(sum);
      final scala.collection.Iterator<Object> old = getHandle().listTimers();
      final List<Long> stale = new ArrayList<>();
      while (old.hasNext()) {
        stale.add((Long) old.next());
      }
      stale.forEach(timer -> getHandle().deleteTimer(timer));
      getHandle().registerTimer(timers.getCurrentWatermarkInMs() + 30_000);
      return one(key + " " + sum + " " + values());
    }

    @Override
    public scala.collection.Iterator<String> handleExpiredTimer(
        final String key, final TimerValues timers, final ExpiredTimerInfo expired) {
      final String answer = key + " ends with " + total.get() + " " + values();
      total.clear();
      perValue.clear();
      return one(answer);
    }

    private String values() {
      final List<String> values = new ArrayList<>();
      final scala.collection.Iterator<scala.Tuple2<String, Long>> all = perValue.iterator();
      while (all.hasNext()) {
        values.add(all.next().toString());
      }
      values.sort(null);
      return values.toString();
    }

    private static scala.collection.Iterator<String> one(final String answer) {
      return scala.jdk.javaapi.CollectionConverters.asScala(List.of(answer).iterator());
    }
  }
}
