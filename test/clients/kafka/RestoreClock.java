import java.util.HashSet;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateRestoreListener;

/** Records that an instance reads back into its stores, and the time from the first store's beginning to the last one's end. */
final class RestoreClock implements StateRestoreListener {
  private final Set<String> open = new HashSet<>();
  private long records;
  private long begin;
  private long end;

  @Override
  public synchronized void onRestoreStart(final TopicPartition partition, final String store, final long from, final long to) {
    if (begin == 0) {
      begin = System.nanoTime();
    }
    open.add(store + partition);
  }

  @Override
  public synchronized void onBatchRestored(final TopicPartition partition, final String store, final long to, final long count) {
    records += count;
  }

  @Override
  public synchronized void onRestoreEnd(final TopicPartition partition, final String store, final long total) {
    open.remove(store + partition);
    end = System.nanoTime();
  }

  @Override
  public synchronized void onRestoreSuspended(final TopicPartition partition, final String store, final long total) {
    open.remove(store + partition);
    end = System.nanoTime();
  }

  synchronized boolean atRest() {
    return open.isEmpty();
  }

  synchronized long records() {
    return records;
  }

  synchronized double seconds() {
    return begin == 0 ? 0 : (end - begin) / 1e9;
  }
}
