package cairn;

import org.rocksdb.MemTableConfig;
import org.rocksdb.RocksDBException;

/**
 * Sub-MemTables in the place of the skip list: each core appends to a small memtable of its own, and indexes are built by the reads that
 * need them, and by the flush. For any comparator; not for WritePrepared and WriteUnprepared transactions, which RocksDB refuses at open.
 *
 * <pre>{@code
 * options.setMemTableConfig(new SubMemTableConfig());
 * }</pre>
 *
 * A value that cannot be is found when the object is given to the options ({@link IllegalArgumentException} that names it). So is a native
 * library that is not Cairn's ({@link NotCairnException}).
 *
 * <p>Thread-safety: none.
 */
public final class SubMemTableConfig extends MemTableConfig {
  private final OptionText text = new OptionText("");

  /**
   * The largest segment that a core takes; a memtable takes none larger than a 32nd of its write buffer.
   *
   * @param bytes a power of two, 4 KiB to 2 MiB; 1 MiB if it is not set.
   * @return this
   */
  public SubMemTableConfig setSegmentSize(final long bytes) {
    return set("segment_size", bytes);
  }

  /**
   * Free segments that stay in memory for the next memtables. Less costs page faults, more costs memory.
   *
   * @param bytes 64 MiB if it is not set.
   * @return this
   */
  public SubMemTableConfig setPoolSize(final long bytes) {
    return set("pool_size", bytes);
  }

  /**
   * Keeps the memtables in a file, so that every acknowledged write survives the death of the process without a WAL. All column families
   * of the database must have the same, and only Cairn opens the database while the file holds writes.
   *
   * @param durable false if it is not set.
   * @return this
   */
  public SubMemTableConfig setDurable(final boolean durable) {
    return set("durable", durable);
  }

  /**
   * Any option of {@code cairn::SubMemTableOptions} (cairn/memtable.h).
   *
   * @param option its name.
   * @param value as in an OPTIONS file.
   * @return this
   */
  public SubMemTableConfig set(final String option, final Object value) {
    text.set(option, value);
    return this;
  }

  @Override
  protected long newMemTableFactoryHandle() {
    Cairn.require();
    try {
      return Cairn.newMemTable0("cairn.SubMemTable", text.toString());
    } catch (final RocksDBException e) {
      throw new IllegalArgumentException("cairn.SubMemTable {" + text + "}: " + e.getMessage(), e);
    }
  }

  @Override
  public String toString() {
    return "cairn.SubMemTable {" + text + "}";
  }
}
