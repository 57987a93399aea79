package cairn;

import java.util.Objects;
import org.rocksdb.RocksDBException;
import org.rocksdb.TableFormatConfig;

/**
 * A table format of Cairn's by its name and options, as OPTIONS files have them. {@code OptionsUtil} of RocksJava gives an object of this
 * class for a column family of such a format. For ordered tables see {@link OrderedTableConfig}.
 *
 * <p>Names and values that cannot be are found when the object is given to options ({@link IllegalArgumentException}). So is a native
 * library that is not Cairn's ({@link NotCairnException}).
 *
 * <p>Thread-safety: immutable.
 */
public final class CairnTableConfig extends TableFormatConfig {
  private final String name;
  private final String options;

  /**
   * @param name {@code cairn.OrderedTable}, {@code cairn.HashOrderTable}, {@code cairn.HTable},
   *     {@code cairn.SiltTable} or {@code cairn.EctTable}.
   * @param options {@code "OPTION=VALUE;..."}; empty: all defaults.
   */
  public CairnTableConfig(final String name, final String options) {
    super();
    this.name = Objects.requireNonNull(name);
    this.options = Objects.requireNonNull(options);
  }

  /**
   * The format's name.
   *
   * @return as in an OPTIONS file.
   */
  public String name() {
    return name;
  }

  /**
   * Its options.
   *
   * @return as in an OPTIONS file, separated by semicolons.
   */
  public String options() {
    return options;
  }

  @Override
  protected long newTableFactoryHandle() {
    Cairn.require();
    try {
      return Cairn.newTable0(name, options);
    } catch (final RocksDBException e) {
      throw new IllegalArgumentException(name + " {" + options + "}: " + e.getMessage(), e);
    }
  }

  @Override
  public String toString() {
    return name + " {" + options + "}";
  }
}
