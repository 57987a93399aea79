package cairn;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Settings with which Spark Structured Streaming keeps its state in RocksDB over Cairn's library. Spark fixes RocksDB's options in its code,
 * so the engine is named by the environment ({@code CAIRN_OPTIONS}), and an agent ends an executor that has loaded another library.
 *
 * <pre>{@code
 * SparkSettings.of("/opt/cairn/lib", "/opt/cairn/java/cairn-java.jar", "memtable_factory=cairn.SubMemTable").forEach(conf::set);
 * }</pre>
 *
 * The same lines may stand in {@code spark-defaults.conf}. They must be set before the executors start. In local mode the executor is the
 * driver: give {@code CAIRN_OPTIONS} and {@code java.library.path} to that JVM itself.
 */
public final class SparkSettings {
  private SparkSettings() {}

  /**
   * The settings.
   *
   * @param libraries the folder of librocksdbjni.so on every executor.
   * @param agent the file cairn-java.jar on every executor; null: an executor with another library is no error.
   * @param options as CAIRN_OPTIONS has them.
   * @return names and values.
   */
  public static Map<String, String> of(final String libraries, final String agent, final String options) {
    final Map<String, String> settings = new LinkedHashMap<>();
    settings.put("spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider");
    settings.put("spark.executor.extraLibraryPath", libraries);
    settings.put("spark.executorEnv.CAIRN_OPTIONS", options);
    if (agent != null) {
      settings.put("spark.executor.extraJavaOptions", "-javaagent:" + agent);
    }
    return settings;
  }
}
