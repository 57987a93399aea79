package cairn;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Objects;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.RocksDBException;
import org.rocksdb.TableFormatConfig;

/**
 * RocksDB's block-based table with an order filter, so that a seek reads the tables that hold what it returns, and not a block of every
 * sorted run. RocksDB without Cairn reads its files.
 *
 * <pre>{@code
 * options.setTableFormatConfig(new OrderedTableConfig(new BlockBasedTableConfig().setBlockCache(cache)));
 * }</pre>
 *
 * Values that cannot be are found when the object is given to options ({@link IllegalArgumentException}). So is a native library that is
 * not Cairn's ({@link NotCairnException}).
 *
 * <p>Thread-safety: none.
 */
public final class OrderedTableConfig extends TableFormatConfig {
  private final BlockBasedTableConfig table;
  private final OptionText text = new OptionText("");

  /** Over a block-based table with RocksDB's defaults. */
  public OrderedTableConfig() {
    this(new BlockBasedTableConfig());
  }

  /**
   * Over a block-based table: its blocks, cache, Bloom filters and all else.
   *
   * @param table read when this object is given to options.
   */
  public OrderedTableConfig(final BlockBasedTableConfig table) {
    super();
    this.table = Objects.requireNonNull(table);
  }

  /**
   * The order filters of tables with nothing older below them. Each bit halves the share of seeks that read a table in vain.
   *
   * @param bits per key, 2.5 to 20; 0: no order filters; 6 if it is not set.
   * @return this
   */
  public OrderedTableConfig setOrderBits(final double bits) {
    text.set("order_bits", bits);
    return this;
  }

  /**
   * What the tables above those have in addition.
   *
   * @param bits per key, 0 to 17; 3 if it is not set.
   * @return this
   */
  public OrderedTableConfig setExtraOrderBits(final double bits) {
    text.set("extra_order_bits", bits);
    return this;
  }

  /**
   * The block-based table underneath.
   *
   * @return what was given.
   */
  public BlockBasedTableConfig table() {
    return table;
  }

  @Override
  protected long newTableFactoryHandle() {
    Cairn.require();
    try {
      return Cairn.newOrderedTable0(blockBased(), text.toString());
    } catch (final RocksDBException e) {
      throw new IllegalArgumentException("cairn.OrderedTable {" + text + "}: " + e.getMessage(), e);
    }
  }

  // RocksDB gives the factory to its own package only.
  private long blockBased() {
    try {
      final Method make = TableFormatConfig.class.getDeclaredMethod("newTableFactoryHandle");
      make.setAccessible(true);
      return (long) make.invoke(table);
    } catch (final InvocationTargetException e) {
      throw new IllegalArgumentException("the block-based table under cairn.OrderedTable", e.getCause());
    } catch (final ReflectiveOperationException e) {
      throw new IllegalStateException("org.rocksdb.TableFormatConfig of this version is not known to cairn-java", e);
    }
  }

  @Override
  public String toString() {
    return "cairn.OrderedTable {" + text + "} over " + table;
  }
}
