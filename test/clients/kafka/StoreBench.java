import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A key-value store of Kafka Streams alone, by one thread: puts of random keys (three for each key, values of 100 bytes), gets of present
 * and of absent keys, range scans of 50.
 *
 * <p>StoreBench ENGINE FOLDER PUTS JSON: operations for each second of the thread's processor, printed in thousands and written to JSON.
 */
public final class StoreBench {
  private StoreBench() {}

  public static void main(final String[] args) throws IOException {
    final String engine = args[0];
    final int puts = Integer.parseInt(args[2]);
    final File folder = new File(args[1], "bench");
    final Properties properties = StreamsProperties.make("bench", "nowhere:1", folder.toString(), engine);
    properties.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, MeasuredSetter.class);
    properties.put(MeasuredSetter.HOW, engine);
    final MockProcessorContext<Void, Void> context =
        new MockProcessorContext<>(properties, new org.apache.kafka.streams.processor.TaskId(0, 0), folder);
    final KeyValueStore<Bytes, byte[]> store =
        Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("store"), Serdes.Bytes(), Serdes.ByteArray())
            .withLoggingDisabled().withCachingDisabled().build();
    store.init(context.getStateStoreContext(), store);
    final int keys = Math.max(1, puts / 3);
    final byte[] value = new byte[100];
    final StringBuilder line = new StringBuilder(String.format("%-14s", engine));
    final StringBuilder json = new StringBuilder("{\"records\": " + puts);
    long begin = now();
    for (int i = 0; i < puts; i++) {
      final long random = mix(i);
      for (int j = 0; j < 50; j++) {
        value[j] = (byte) (random >>> (j % 8 * 8));
      }
      store.put(key(2 * (random >>> 1) % (2L * keys) & ~1L), value.clone());
    }
    rate(line, json, "put", puts, begin);
    store.flush();
    final int gets = puts / 4;
    int found = 0;
    begin = now();
    for (int i = 0; i < gets; i++) {
      final long random = mix(i);
      found += store.get(key(2 * (random >>> 1) % (2L * keys) & ~1L)) == null ? 0 : 1;
    }
    rate(line, json, "get", gets, begin);
    begin = now();
    for (int i = 0; i < gets; i++) {
      found += store.get(key(2 * (mix(i) >>> 1) % (2L * keys) | 1L)) == null ? 0 : 1;
    }
    rate(line, json, "absent", gets, begin);
    final int scans = puts / 100;
    long scanned = 0;
    begin = now();
    for (int i = 0; i < scans; i++) {
      final long from = (mix(i) >>> 1) % (2L * keys);
      try (KeyValueIterator<Bytes, byte[]> iterator = store.range(key(from), key(from + 100))) {
        while (iterator.hasNext()) {
          scanned += iterator.next().value.length;
        }
      }
    }
    rate(line, json, "scan", scans, begin);
    // All memtables are flushed.
    store.close();
    remove(folder);
    line.append(String.format("  written %.2f  found %d  scanned %d", MeasuredSetter.writtenBytes() / (double) MeasuredSetter.putBytes(), found, scanned));
    System.out.println(line);
    json.append(String.format(Locale.ROOT, ", \"put_bytes\": %d, \"written_bytes\": %d}%n", MeasuredSetter.putBytes(), MeasuredSetter.writtenBytes()));
    Files.writeString(Path.of(args[3]), json);
  }

  private static void rate(final StringBuilder line, final StringBuilder json, final String what, final int count, final long begin) {
    final double rate = count / ((now() - begin) / 1e9);
    line.append(String.format("  %s %.1f", what, rate / 1000));
    json.append(String.format(Locale.ROOT, ", \"%s_per_second\": %.0f", what, rate));
  }

  // Of this thread's processor, so that what else runs on the machine is no part of it. Flushes and compactions are other threads'.
  private static long now() {
    return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
  }

  private static Bytes key(final long i) {
    return Bytes.wrap(String.format("key%013d", i).getBytes(StandardCharsets.US_ASCII));
  }

  private static long mix(final long i) {
    long z = (i + 1) * 0x9e3779b97f4a7c15L;
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
    return z ^ (z >>> 27);
  }

  private static void remove(final File file) {
    final File[] below = file.listFiles();
    for (final File one : below == null ? new File[0] : below) {
      remove(one);
    }
    file.delete();
  }
}
