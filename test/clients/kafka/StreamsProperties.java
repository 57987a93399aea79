import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;

/** What both ways to run the topology set. */
final class StreamsProperties {
  private StreamsProperties() {}

  /** engine: stock and cairn (nothing is set: the library decides), sub_memtables, ordered. */
  static Properties make(final String application, final String servers, final String folder, final String engine) {
    // RocksDB's loader takes the jar's own library, without a word, if ours cannot be loaded.
    if (!engine.equals("stock")) {
      cairn.Cairn.require();
    }
    final Properties properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
    properties.put(StreamsConfig.STATE_DIR_CONFIG, folder);
    properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    // Each update is a record, and reaches RocksDB.
    properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
    if (!engine.equals("stock") && !engine.equals("cairn")) {
      properties.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, cairn.kafka.CairnConfigSetter.class);
      properties.put(cairn.kafka.CairnConfigSetter.ENGINE, engine);
    }
    return properties;
  }
}
