package cairn.kafka;

import cairn.Cairn;
import cairn.OrderedTableConfig;
import cairn.SubMemTableConfig;
import java.util.Map;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.CompactionStyle;
import org.rocksdb.Options;

/**
 * Puts Cairn under the RocksDB stores of Kafka Streams:
 *
 * <pre>{@code
 * properties.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, CairnConfigSetter.class);
 * properties.put(CairnConfigSetter.ENGINE, "ordered");
 * }</pre>
 *
 * Kafka Streams calls it for each store after its own defaults, so what is set here holds. Stores may be switched at any restart, in both
 * directions: RocksDB reads the files of both engines. Every store of a process without Cairn's library fails to open
 * ({@link cairn.NotCairnException}). For settings of your own extend the class, or call {@link #use} from your setter.
 */
public class CairnConfigSetter implements RocksDBConfigSetter {
  /**
   * The property that names the engine: {@code sub_memtables} (the default) or {@code ordered}, which adds universal compaction at 16
   * runs and ordered tables, over the block cache and filters that Kafka Streams has set.
   */
  public static final String ENGINE = "cairn.engine";

  private static final int RUNS = 16;

  @Override
  public void setConfig(final String store, final Options options, final Map<String, Object> configs) {
    final Object engine = configs.get(ENGINE);
    use(store, options, engine == null ? "sub_memtables" : engine.toString());
  }

  /**
   * Sets the options of one store.
   *
   * @param store its name, for messages.
   * @param options as a RocksDBConfigSetter gets them.
   * @param engine as {@link #ENGINE}.
   * @throws IllegalArgumentException that names the store, if there is no such engine here or its tables are not block-based.
   * @throws cairn.NotCairnException if RocksDB's native library is not Cairn's.
   */
  public static void use(final String store, final Options options, final String engine) {
    Cairn.require();
    switch (engine) {
      case "sub_memtables":
        break;
      case "ordered":
        if (!(options.tableFormatConfig() instanceof BlockBasedTableConfig)) {
          throw new IllegalArgumentException(
              "store " + store + ": ordered tables are made of block-based ones, and its tables are "
                  + options.tableFormatConfig());
        }
        options.setTableFormatConfig(new OrderedTableConfig((BlockBasedTableConfig) options.tableFormatConfig()));
        options.setCompactionStyle(CompactionStyle.UNIVERSAL);
        options.setLevel0FileNumCompactionTrigger(RUNS);
        options.setLevel0SlowdownWritesTrigger(Math.max(options.level0SlowdownWritesTrigger(), 2 * RUNS));
        options.setLevel0StopWritesTrigger(Math.max(options.level0StopWritesTrigger(), 3 * RUNS));
        break;
      default:
        throw new IllegalArgumentException(
            "store " + store + ": " + ENGINE + " is \"" + engine + "\"; it may be sub_memtables or ordered");
    }
    options.setMemTableConfig(new SubMemTableConfig());
  }

  @Override
  public void close(final String store, final Options options) {
    // Nothing is held here.
  }
}
