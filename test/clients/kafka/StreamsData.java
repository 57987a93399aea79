import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/** The records that the topology is fed with: the same at every call but for the time that they begin at, in order of time. */
final class StreamsData {
  private static final int HOT_KEYS = 20;

  private StreamsData() {}

  record Input(String topic, String key, String value, long time) {}

  /** Of n events, half as many clicks and prices, over a key for each 30 events, values as short as they may be. */
  static List<Input> make(final int n, final long start) {
    return make(n, start, 30, 0);
  }

  /** Over a key for each so many events; values have at least so many bytes. */
  static List<Input> make(final int n, final long start, final int perKey, final int bytes) {
    final List<Input> all = new ArrayList<>();
    final int keys = Math.max(n / perKey, 2 * HOT_KEYS);
    for (int i = 0; i < n; i++) {
      all.add(new Input(StreamsTopology.EVENTS, key(i, keys), pad("event " + i, bytes), start + 50L * i));
    }
    for (int i = 0; i < n / 2; i++) {
      all.add(new Input(StreamsTopology.CLICKS, key(i + 7919, keys), pad("click " + i, bytes), start + 100L * i + 25));
    }
    for (int i = 0; i < n / 2; i++) {
      all.add(new Input(StreamsTopology.PRICES, name(i % keys), pad("price " + i, bytes), start - keys + 100L * i + 1));
    }
    // Stable, so that records of one time stay in one order.
    all.sort(Comparator.comparingLong(Input::time));
    return all;
  }

  private static String pad(final String value, final int bytes) {
    if (value.length() >= bytes) {
      return value;
    }
    final StringBuilder padded = new StringBuilder(value).append(' ');
    for (long i = value.hashCode(); padded.length() < bytes; i += 0x1_0000_0000L) {
      padded.append(Long.toHexString(mix(i)));
    }
    padded.setLength(bytes);
    return padded.toString();
  }

  // Every second record is one of few keys.
  private static String key(final int i, final int keys) {
    final long random = mix(i);
    return name((int) (random % 2 == 0 ? (random >>> 8) % HOT_KEYS : (random >>> 8) % keys));
  }

  private static String name(final int i) {
    return String.format("key%05d", i);
  }

  private static long mix(final long i) {
    long z = (i + 1) * 0x9e3779b97f4a7c15L;
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
    return (z ^ (z >>> 27)) * 0x94d049bb133111ebL >>> 1;
  }
}
