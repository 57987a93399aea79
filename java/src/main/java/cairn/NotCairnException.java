package cairn;

/** RocksDB's native library was loaded, and it is not Cairn's. */
public final class NotCairnException extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  NotCairnException(final String message) {
    super(message);
  }
}
