package cairn;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeFalse;

import cairn.kafka.CairnConfigSetter;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.BeforeClass;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.Cache;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.CompactionStyle;
import org.rocksdb.ConfigOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.OptionsUtil;
import org.rocksdb.PlainTableConfig;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Status;
import org.rocksdb.TransactionDB;
import org.rocksdb.TransactionDBOptions;

public class CairnTest {
  private static final byte[] KEY = "key".getBytes(StandardCharsets.UTF_8);
  private static final byte[] VALUE = "value".getBytes(StandardCharsets.UTF_8);

  @Rule public final TemporaryFolder folder = new TemporaryFolder();

  @BeforeClass
  public static void load() {
    Cairn.require();
  }

  private String path() {
    return new File(folder.getRoot(), "db").getPath();
  }

  private static void writeAndRead(final RocksDB db) throws RocksDBException {
    db.put(KEY, VALUE);
    assertArrayEquals(VALUE, db.get(KEY));
    db.flush(new org.rocksdb.FlushOptions());
    assertArrayEquals(VALUE, db.get(KEY));
    try (RocksIterator it = db.newIterator()) {
      it.seekToFirst();
      assertTrue(it.isValid());
      assertArrayEquals(KEY, it.key());
    }
  }

  @Test
  public void everyEngineByItsText() throws Exception {
    for (final String engine : Arrays.asList("sub_memtables", "ordered", "leveled_ordered", "ordered_trie", "trie", "trie_sst", "silt")) {
      try (Options options = new Options().setCreateIfMissing(true)) {
        assertEquals(options, Cairn.use(options, "engine=" + engine));
        try (RocksDB db = RocksDB.open(options, path() + engine)) {
          writeAndRead(db);
          assertFalse(engine, Cairn.stats(db).isEmpty());
        }
      }
    }
  }

  @Test
  public void aWrongTextIsNamedAndChangesNothing() throws Exception {
    try (Options options = new Options()) {
      for (final String text : Arrays.asList("ordered", "engine=nonsense", "engine=ordered;run=8", "engine=sub_memtables;segment=1")) {
        final RocksDBException e = assertThrows(text, RocksDBException.class, () -> Cairn.use(options, text));
        assertEquals(text, Status.Code.InvalidArgument, e.getStatus().getCode());
        assertEquals("SkipListFactory", options.memTableFactoryName());
      }
      assertThrows(NullPointerException.class, () -> Cairn.use(options, null));
    }
  }

  @Test
  public void columnFamiliesOfSeveralEngines() throws Exception {
    try (DBOptions db = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true);
         ColumnFamilyOptions stock = new ColumnFamilyOptions();
         ColumnFamilyOptions trie = Cairn.use(new ColumnFamilyOptions(), "engine=trie");
         ColumnFamilyOptions ordered = Cairn.use(new ColumnFamilyOptions(), "engine=ordered;runs=8")) {
      Cairn.use(db, "engine=trie");
      final List<ColumnFamilyHandle> handles = new ArrayList<>();
      final List<ColumnFamilyDescriptor> families = Arrays.asList(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, stock),
          new ColumnFamilyDescriptor("trie".getBytes(StandardCharsets.UTF_8), trie),
          new ColumnFamilyDescriptor("ordered".getBytes(StandardCharsets.UTF_8), ordered));
      try (RocksDB opened = RocksDB.open(db, path(), families, handles)) {
        for (final ColumnFamilyHandle handle : handles) {
          opened.put(handle, KEY, VALUE);
          assertArrayEquals(VALUE, opened.get(handle, KEY));
        }
        assertEquals("", Cairn.stats(opened, handles.get(0)));
        assertTrue(Cairn.stats(opened, handles.get(1)).contains("trie"));
        assertTrue(Cairn.statsAsJson(opened, handles.get(2)).startsWith("{"));
        assertEquals("", Cairn.environmentOptions(opened, handles.get(0)));
        handles.forEach(ColumnFamilyHandle::close);
      }
    }
  }

  @Test
  public void memtablesAndTablesAsObjects() throws Exception {
    try (Cache cache = new LRUCache(1 << 20);
         BloomFilter filter = new BloomFilter(10);
         Options options = new Options().setCreateIfMissing(true)) {
      options.setMemTableConfig(new SubMemTableConfig().setSegmentSize(64 << 10).setPoolSize(1 << 20));
      options.setTableFormatConfig(
          new OrderedTableConfig(new BlockBasedTableConfig().setBlockCache(cache).setFilterPolicy(filter)).setOrderBits(8));
      assertEquals("cairn.SubMemTable", options.memTableFactoryName());
      assertEquals("cairn.OrderedTable", options.tableFactoryName());
      try (RocksDB db = RocksDB.open(options, path())) {
        for (int i = 0; i < 1000; i++) {
          db.put(("key" + i).getBytes(StandardCharsets.UTF_8), VALUE);
        }
        writeAndRead(db);
        assertEquals("the cache is the one that was given", 1 << 20, db.getLongProperty("rocksdb.block-cache-capacity"));
        assertTrue(Cairn.stats(db), Cairn.stats(db).contains("order filters: 1001 keys"));
        assertTrue(Cairn.stats(db), Cairn.stats(db).contains("memtables: "));
      }
    }
  }

  @Test
  public void aWrongValueIsNamed() {
    try (Options options = new Options()) {
      final IllegalArgumentException memtables = assertThrows(IllegalArgumentException.class,
          () -> options.setMemTableConfig(new SubMemTableConfig().set("no_such_option", 1)));
      assertTrue(memtables.getMessage(), memtables.getMessage().contains("no_such_option"));
      final IllegalArgumentException tables =
          assertThrows(IllegalArgumentException.class, () -> options.setTableFormatConfig(new CairnTableConfig("cairn.NoTable", "")));
      assertTrue(tables.getMessage(), tables.getMessage().contains("cairn.NoTable"));
    }
  }

  @Test
  public void optionsAreLoadedFromADatabase() throws Exception {
    for (final String engine : Arrays.asList("trie", "silt", "ordered", "ordered_trie")) {
      try (Options options = Cairn.use(new Options().setCreateIfMissing(true), "engine=" + engine)) {
        try (RocksDB db = RocksDB.open(options, path() + engine)) {
          db.put(KEY, VALUE);
        }
      }
      final List<ColumnFamilyDescriptor> families = new ArrayList<>();
      final List<ColumnFamilyHandle> handles = new ArrayList<>();
      try (ConfigOptions config = new ConfigOptions(); DBOptions options = new DBOptions()) {
        OptionsUtil.loadLatestOptions(config, path() + engine, options, families);
        final ColumnFamilyOptions family = families.get(0).getOptions();
        assertTrue(engine, family.tableFormatConfig() instanceof CairnTableConfig);
        final CairnTableConfig table = (CairnTableConfig) family.tableFormatConfig();
        assertEquals(family.tableFactoryName(), table.name());
        // What was read makes the same tables.
        family.setTableFormatConfig(new CairnTableConfig(table.name(), table.options()));
        try (RocksDB db = RocksDB.open(options, path() + engine, families, handles)) {
          assertArrayEquals(VALUE, db.get(KEY));
          handles.forEach(ColumnFamilyHandle::close);
        }
      }
    }
  }

  @Test
  public void transactions() throws Exception {
    try (Options options = Cairn.use(new Options().setCreateIfMissing(true), "engine=ordered");
         TransactionDBOptions transactions = new TransactionDBOptions();
         TransactionDB db = TransactionDB.open(options, transactions, path())) {
      writeAndRead(db);
      assertTrue(Cairn.stats(db).contains("ordered tables"));
    }
  }

  @Test
  public void kafkaStreamsSetsItsOwnTablesFirst() throws Exception {
    final CairnConfigSetter setter = new CairnConfigSetter();
    try (Cache cache = new LRUCache(1 << 20); Options options = new Options().setCreateIfMissing(true)) {
      options.setTableFormatConfig(new BlockBasedTableConfig().setBlockCache(cache));
      setter.setConfig("store", options, Collections.emptyMap());
      assertEquals("cairn.SubMemTable", options.memTableFactoryName());
      assertEquals("BlockBasedTable", options.tableFactoryName());
      setter.setConfig("store", options, Collections.singletonMap(CairnConfigSetter.ENGINE, "ordered"));
      assertEquals("cairn.OrderedTable", options.tableFactoryName());
      assertEquals(CompactionStyle.UNIVERSAL, options.compactionStyle());
      try (RocksDB db = RocksDB.open(options, path())) {
        writeAndRead(db);
        assertEquals(1 << 20, db.getLongProperty("rocksdb.block-cache-capacity"));
      }
      final IllegalArgumentException unknown = assertThrows(IllegalArgumentException.class,
          () -> setter.setConfig("store", options, Collections.singletonMap(CairnConfigSetter.ENGINE, "trie")));
      assertTrue(unknown.getMessage(), unknown.getMessage().contains("store store: cairn.engine is \"trie\""));
      options.setTableFormatConfig(new PlainTableConfig());
      assertThrows(IllegalArgumentException.class, () -> CairnConfigSetter.use("store", options, "ordered"));
    }
  }

  // The options that Kafka Streams hands out are of a class that passes everything on to other objects.
  @Test
  public void optionsOfAnotherClassAreRefused() {
    try (Options options = new Options() {}) {
      final IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> Cairn.use(options, "engine=ordered"));
      assertTrue(e.getMessage(), e.getMessage().contains("CairnConfigSetter"));
    }
  }

  // ---- Other processes: with another library, with the agent, with options from the environment.

  /** Opens a database and prints the name of its memtables. */
  public static final class Program {
    public static void main(final String[] arguments) throws RocksDBException {
      try (Options options = new Options().setCreateIfMissing(true); RocksDB db = RocksDB.open(options, arguments[0])) {
        System.out.println("opened; " + Cairn.environmentOptions(db, db.getDefaultColumnFamily()));
      }
    }
  }

  /** Knows nothing of Cairn. */
  public static final class StockProgram {
    public static void main(final String[] arguments) throws RocksDBException {
      try (Options options = new Options().setCreateIfMissing(true); RocksDB db = RocksDB.open(options, arguments[0])) {
        System.out.println("opened");
      }
    }
  }

  private String run(final Class<?> program, final Map<String, String> environment, final String... jvmOptions)
      throws IOException, InterruptedException {
    return runOn(System.getProperty("java.class.path"), program, environment, jvmOptions);
  }

  private String runOn(final String classPath, final Class<?> program, final Map<String, String> environment, final String... jvmOptions)
      throws IOException, InterruptedException {
    final List<String> command = new ArrayList<>();
    command.add(System.getProperty("java.home") + "/bin/java");
    command.addAll(Arrays.asList(jvmOptions));
    command.addAll(Arrays.asList("-cp", classPath, program.getName(), path()));
    final ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().putAll(environment);
    final Process process = builder.start();
    final StringBuilder output = new StringBuilder();
    try (BufferedReader reader = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = reader.readLine(); line != null; line = reader.readLine()) {
        output.append(line).append('\n');
      }
    }
    return output + "exit " + process.waitFor();
  }

  private static String libraries() {
    return "-Djava.library.path=" + System.getProperty("cairn.libraries");
  }

  @Test
  public void theEnvironmentNamesAnEngine() throws Exception {
    final Map<String, String> sub = Collections.singletonMap("CAIRN_OPTIONS", "memtable_factory=cairn.SubMemTable");
    final String output = run(Program.class, sub, libraries());
    assertTrue(output, output.contains("opened; column family default: memtable_factory=cairn.SubMemTable"));
    final String refused = run(Program.class, Collections.singletonMap("CAIRN_OPTIONS", "nonsense"), libraries());
    assertTrue(refused, refused.contains("RocksDBException") && refused.contains("nonsense"));
  }

  @Test
  public void theStockLibraryIsAnErrorThatNamesIt() throws Exception {
    final String output = run(Program.class, Collections.emptyMap(), "-Djava.library.path=/nonexistent");
    assertTrue(output, output.contains("NotCairnException") && output.contains("librocksdbjni") && output.contains("/nonexistent"));
    assertTrue(output, output.endsWith("exit 1"));
  }

  @Test
  public void theAgentEndsAJvmWithTheStockLibrary() throws Exception {
    final String agent = "-javaagent:" + agentJar();
    final String without = run(StockProgram.class, Collections.emptyMap(), "-Djava.library.path=/nonexistent");
    assertTrue(without, without.contains("opened"));
    final String refused = run(StockProgram.class, Collections.emptyMap(), "-Djava.library.path=/nonexistent", agent);
    assertTrue(refused, refused.contains("NotCairnException") && !refused.contains("opened") && !refused.endsWith("exit 0"));
    final String taken = run(StockProgram.class, Collections.emptyMap(), libraries(), agent);
    assertTrue(taken, taken.contains("opened") && taken.endsWith("exit 0"));
  }

  // A jar with the manifest alone: the classes are on the class path.
  private String agentJar() throws IOException {
    final File file = folder.newFile("agent.jar");
    final java.util.jar.Manifest manifest = new java.util.jar.Manifest();
    manifest.getMainAttributes().put(java.util.jar.Attributes.Name.MANIFEST_VERSION, "1.0");
    manifest.getMainAttributes().putValue("Premain-Class", "cairn.CairnAgent");
    try (java.util.jar.JarOutputStream jar = new java.util.jar.JarOutputStream(new java.io.FileOutputStream(file), manifest)) {
      jar.finish();
    }
    return file.getPath();
  }

  @Test
  public void theJarTakesThePlaceOfTheRegistrysOne() throws Exception {
    final String jar = System.getProperty("cairn.jar", "");
    assumeFalse("the jar was not built", jar.isEmpty());
    final List<String> classPath = new ArrayList<>();
    for (final String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
      classPath.add(new File(entry).getName().startsWith("rocksdbjni-") ? jar : entry);
    }
    assertTrue(classPath.contains(jar));
    final Map<String, String> sub = Collections.singletonMap("CAIRN_OPTIONS", "memtable_factory=cairn.SubMemTable");
    final String output =
        runOn(String.join(File.pathSeparator, classPath), Program.class, sub, "-Djava.library.path=/nonexistent");
    assertTrue(output, output.contains("opened; column family default: memtable_factory=cairn.SubMemTable"));
  }

  @Test
  public void sparkSettings() {
    final Map<String, String> settings = SparkSettings.of("/lib", "/cairn-java.jar", "memtable_factory=cairn.SubMemTable");
    assertEquals("/lib", settings.get("spark.executor.extraLibraryPath"));
    assertEquals("memtable_factory=cairn.SubMemTable", settings.get("spark.executorEnv.CAIRN_OPTIONS"));
    assertEquals("-javaagent:/cairn-java.jar", settings.get("spark.executor.extraJavaOptions"));
  }
}
