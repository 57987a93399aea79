/**
 * Loads a JNI library that links librocksdb into a JVM, as RocksJava's own does.
 *
 * <p>java DlopenProgram.java TLS_USER_LIBRARY JNI_LIBRARY OPTION_STRING DB_DIR
 */
public class DlopenProgram {
  /** Writes and reads keys; null, or what went wrong. */
  static native String run(String optionString, String path);

  public static void main(String[] args) {
    System.load(args[0]);
    System.load(args[1]);
    String error = run(args[2], args[3]);
    if (error != null) {
      System.err.println(error);
      System.exit(1);
    }
    System.out.println("5000 keys read back");
  }
}
