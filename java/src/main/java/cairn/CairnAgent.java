package cairn;

/**
 * Ends a JVM that runs on RocksDB without Cairn, for programs that have no place for a call: {@code java -javaagent:cairn-java.jar ...}.
 * With it, a library that was not found is an error at the start and not a program that silently runs on RocksDB.
 */
public final class CairnAgent {
  private CairnAgent() {}

  /**
   * Called by the JVM before main.
   *
   * @param arguments none.
   * @throws NotCairnException see {@link Cairn#require}; the JVM prints it and ends.
   */
  public static void premain(final String arguments) {
    Cairn.require();
  }
}
