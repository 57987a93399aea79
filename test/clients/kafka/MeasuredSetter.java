import java.util.Map;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.Options;
import org.rocksdb.Statistics;
import org.rocksdb.TickerType;

/** The engine's options, and statistics of all stores of the process. */
public final class MeasuredSetter implements RocksDBConfigSetter {
  /** Property: stock, cairn, sub_memtables or ordered. */
  static final String HOW = "measured.how";
  /** Property: the size of a memtable in bytes. Without it Kafka Streams' own, 16 MiB. */
  static final String WRITE_BUFFER = "measured.write_buffer";
  private static final Statistics STATISTICS = new Statistics();

  /** What flushes and compactions wrote. */
  static long writtenBytes() {
    return STATISTICS.getTickerCount(TickerType.COMPACT_WRITE_BYTES) + STATISTICS.getTickerCount(TickerType.FLUSH_WRITE_BYTES);
  }

  /** What was put: keys and values. */
  static long putBytes() {
    return STATISTICS.getTickerCount(TickerType.BYTES_WRITTEN);
  }

  @Override
  public void setConfig(final String store, final Options options, final Map<String, Object> configs) {
    final String how = configs.get(HOW).toString();
    if (!how.equals("stock") && !how.equals("cairn")) {
      cairn.kafka.CairnConfigSetter.use(store, options, how);
    }
    final Object buffer = configs.get(WRITE_BUFFER);
    if (buffer != null) {
      options.setWriteBufferSize(Long.parseLong(buffer.toString()));
    }
    options.setStatistics(STATISTICS);
  }

  @Override
  public void close(final String store, final Options options) {
    // The process ends.
  }
}
