import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;

/** The databases below a state folder of Kafka Streams, while they may be open. */
final class StoreFolders {
  private int databases;
  private int memtables;
  private int tables;
  private long bytes;
  private long tableBytes;

  /** Reads the newest OPTIONS file of each database. */
  static StoreFolders below(final File folder) throws IOException {
    final StoreFolders found = new StoreFolders();
    found.visit(folder);
    return found;
  }

  /** An exception if a database has another engine than that. */
  void require(final String engine) {
    final boolean ordered = engine.equals("ordered");
    final boolean cairn = ordered || engine.equals("sub_memtables");
    if (databases == 0 || memtables != (cairn ? databases : 0) || tables != (ordered ? databases : 0)) {
      throw new IllegalStateException(engine + " was asked for: " + this);
    }
  }

  long tableBytes() {
    return tableBytes;
  }

  @Override
  public String toString() {
    return String.format("%d databases, %d with sub-MemTables, %d with ordered tables, %.1f MB", databases, memtables, tables, bytes / 1e6);
  }

  private void visit(final File folder) throws IOException {
    final File[] files = folder.listFiles();
    if (files == null) {
      return;
    }
    File options = null;
    for (final File file : files) {
      if (file.isDirectory()) {
        visit(file);
        continue;
      }
      bytes += file.length();
      final String name = file.getName();
      tableBytes += name.endsWith(".sst") ? file.length() : 0;
      if (name.startsWith("OPTIONS-") && !name.endsWith(".dbtmp") && (options == null || name.compareTo(options.getName()) > 0)) {
        options = file;
      }
    }
    if (options != null) {
      read(options);
    }
  }

  // Of a database that is closed and removed meanwhile there is nothing to say.
  private void read(final File options) throws IOException {
    try {
      final String text = Files.readString(options.toPath(), StandardCharsets.UTF_8);
      databases++;
      memtables += text.contains("memtable_factory=cairn.SubMemTable") || text.contains("id=cairn.SubMemTable") ? 1 : 0;
      tables += text.contains("table_factory=cairn.OrderedTable") ? 1 : 0;
    } catch (final NoSuchFileException e) {
      // See above.
    }
  }
}
