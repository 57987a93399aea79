import cairn.Cairn;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;

/** Stores and finds a key in ordered tables, by RocksDB's own classes and Cairn's. */
public class Program {
  public static void main(String[] args) throws Exception {
    RocksDB.loadLibrary();
    try (Options options = new Options().setCreateIfMissing(true)) {
      Cairn.use(options, "engine=ordered");
      try (RocksDB db = RocksDB.open(options, "/tmp/java")) {
        db.put("key".getBytes(), "value".getBytes());
        System.out.println(new String(db.get("key".getBytes())));
      }
    }
  }
}
