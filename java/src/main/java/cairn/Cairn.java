package cairn;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Objects;
import java.util.TreeSet;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.Status;

/**
 * Cairn's engines for programs that use RocksDB's Java classes.
 *
 * <pre>{@code
 * try (Options options = new Options().setCreateIfMissing(true)) {
 *   Cairn.use(options, "engine=ordered");
 *   try (RocksDB db = RocksDB.open(options, path)) {
 *     ...
 *     System.out.println(Cairn.stats(db));
 *   }
 * }
 * }</pre>
 *
 * The classes of RocksDB load its native library; which one, is decided by {@code java.library.path} and the class path, and a
 * library that cannot be loaded is passed over without a word for the next one. So every method here first asks the library that was
 * loaded, and throws {@link NotCairnException} if it is not Cairn's.
 *
 * <p>Thread-safety: all methods may be called by any number of threads; an options object by one at a time.
 */
public final class Cairn {
  private static volatile boolean required = false;

  private Cairn() {}

  /**
   * Loads RocksDB's native library if nobody has, and returns if it is Cairn's.
   *
   * @throws NotCairnException if it is another; the message names the file and what to do.
   */
  public static void require() {
    if (required) {
      return;
    }
    RocksDB.loadLibrary();
    boolean found;
    try {
      found = hasCairn0();
    } catch (final UnsatisfiedLinkError e) {
      found = false;
    }
    if (!found) {
      throw new NotCairnException(
          "RocksDB's native library is not Cairn's; this JVM has loaded " + loadedLibraries() + ". Put the folder of Cairn's "
              + "librocksdbjni.so first in -Djava.library.path (which is \"" + System.getProperty("java.library.path")
              + "\"), or Cairn's jar in the place of rocksdbjni's. A library in that folder that cannot be loaded is passed over: "
              + "`ldd librocksdbjni.so` says what it lacks.");
    }
    required = true;
  }

  /**
   * Makes options those of an engine.
   *
   * <p>The engines are {@code sub_memtables} (RocksDB's tables and compaction under memtables that take more writes),
   * {@code ordered} (for programs that scan: universal compaction, sub-MemTables, seeks that do not pay for the runs),
   * {@code leveled_ordered} (ordered tables under the compaction that the options have), {@code round_robin} (leveled
   * compaction with the level sizes that write least), {@code ordered_trie} (ordered tables, small
   * compactions, a bound on space), {@code trie} and {@code trie_sst} (few bytes written, keys in hash order), {@code silt} (little memory, hash order) and {@code stock}. {@code cairn options ENGINE --help}
   * tells their options.
   *
   * @param options changed as a whole, or not at all.
   * @param text {@code "engine=NAME"} or {@code "engine=NAME;OPTION=VALUE;..."}.
   * @return options
   * @throws RocksDBException InvalidArgument that names what is wrong in the text, or NotSupported if the options do not allow it.
   * @throws IllegalArgumentException if the options are of a class of somebody's own, such as those that Kafka Streams gives to a
   *     RocksDBConfigSetter: what their native object holds is not what the database is opened with. Use
   *     {@link SubMemTableConfig}, {@link OrderedTableConfig} and {@code cairn.kafka.CairnConfigSetter} there.
   * @throws NotCairnException see {@link #require}.
   */
  public static Options use(final Options options, final String text) throws RocksDBException {
    if (options.getClass() != Options.class) {
      throw new IllegalArgumentException(
          options.getClass().getName() + " keeps its options elsewhere: set memtables and tables by SubMemTableConfig and "
              + "OrderedTableConfig, or use cairn.kafka.CairnConfigSetter");
    }
    require();
    useOptions0(options.getNativeHandle(), Objects.requireNonNull(text));
    return options;
  }

  /**
   * The same of a column family. Of a trie or a SILT store, {@link #use(DBOptions, String)} must be called for the database, too.
   *
   * @param options changed as a whole, or not at all.
   * @param text as above.
   * @return options
   * @throws RocksDBException as above.
   * @throws NotCairnException see {@link #require}.
   */
  public static ColumnFamilyOptions use(final ColumnFamilyOptions options, final String text) throws RocksDBException {
    require();
    useFamily0(options.getNativeHandle(), Objects.requireNonNull(text));
    return options;
  }

  /**
   * What an engine needs of the database as a whole: that which compacts a trie or merges a SILT store. The other engines need nothing.
   *
   * @param options changed.
   * @param text as above.
   * @return options
   * @throws RocksDBException as above.
   * @throws NotCairnException see {@link #require}.
   */
  public static DBOptions use(final DBOptions options, final String text) throws RocksDBException {
    require();
    useDatabase0(options.getNativeHandle(), Objects.requireNonNull(text));
    return options;
  }

  /**
   * What the engine of the default column family counts, as lines for people.
   *
   * @param db an open database.
   * @return empty if the column family uses no part of Cairn.
   * @throws RocksDBException if the database is closed.
   * @throws NotCairnException see {@link #require}.
   */
  public static String stats(final RocksDB db) throws RocksDBException {
    return stats(db, db.getDefaultColumnFamily());
  }

  /**
   * The same of a column family.
   *
   * @param db an open database.
   * @param family one of its column families.
   * @return empty if the column family uses no part of Cairn.
   * @throws RocksDBException if the database is closed.
   * @throws NotCairnException see {@link #require}.
   */
  public static String stats(final RocksDB db, final ColumnFamilyHandle family) throws RocksDBException {
    return property(db, family, "cairn.stats");
  }

  /**
   * The same as one JSON object; sizes in bytes. Only of tries, SILT stores and ordered tables.
   *
   * @param db an open database.
   * @param family one of its column families.
   * @return empty if the column family has no such engine.
   * @throws RocksDBException if the database is closed.
   * @throws NotCairnException see {@link #require}.
   */
  public static String statsAsJson(final RocksDB db, final ColumnFamilyHandle family) throws RocksDBException {
    return property(db, family, "cairn.stats.json");
  }

  /**
   * What the environment variables CAIRN_OPTIONS and CAIRN_OPTIONS_FILE laid over the options of a column family.
   *
   * @param db an open database.
   * @param family one of its column families.
   * @return empty if they say nothing of it.
   * @throws RocksDBException if the database is closed.
   * @throws NotCairnException see {@link #require}.
   */
  public static String environmentOptions(final RocksDB db, final ColumnFamilyHandle family) throws RocksDBException {
    return property(db, family, "cairn.environment_options");
  }

  private static String property(final RocksDB db, final ColumnFamilyHandle family, final String name)
      throws RocksDBException {
    require();
    try {
      return db.getProperty(family, name);
    } catch (final RocksDBException e) {
      if (e.getStatus() != null && e.getStatus().getCode() == Status.Code.NotFound) {
        return "";
      }
      throw e;
    }
  }

  private static String loadedLibraries() {
    final TreeSet<String> found = new TreeSet<>();
    try {
      for (final String line : new String(Files.readAllBytes(Paths.get("/proc/self/maps")), StandardCharsets.UTF_8).split("\n")) {
        final int path = line.indexOf('/');
        if (path >= 0 && line.substring(path).contains("librocksdb")) {
          found.add(line.substring(path));
        }
      }
    } catch (final IOException e) {
      return "an unknown one (" + e.getMessage() + ")";
    }
    return found.isEmpty() ? "an unknown one" : String.join(", ", found);
  }

  static native boolean hasCairn0();

  private static native void useOptions0(long options, String text) throws RocksDBException;

  private static native void useFamily0(long options, String text) throws RocksDBException;

  private static native void useDatabase0(long options, String text) throws RocksDBException;

  static native long newMemTable0(String name, String options) throws RocksDBException;

  static native long newTable0(String name, String options) throws RocksDBException;

  static native long newOrderedTable0(long blockBased, String options) throws RocksDBException;
}
