import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/** The records that the topology is fed with: the same at every call but for the time that they begin at, in order of time. */
final class StreamsData {
  private static final int HOT_KEYS = 20;

  private StreamsData() {}

  record Input(String topic, String key, String value, long time) {}

  /** Of n events, half as many clicks and prices, over a key for each 30 events. */
  static List<Input> make(final int n, final long start) {
    final List<Input> all = new ArrayList<>();
    final int keys = Math.max(n / 30, 2 * HOT_KEYS);
    for (int i = 0; i < n; i++) {
      all.add(new Input(StreamsTopology.EVENTS, key(i, keys), "event " + i, start + 50L * i));
    }
    for (int i = 0; i < n / 2; i++) {
      all.add(new Input(StreamsTopology.CLICKS, key(i + 7919, keys), "click " + i, start + 100L * i + 25));
    }
    for (int i = 0; i < n / 2; i++) {
      all.add(new Input(StreamsTopology.PRICES, name(i % keys), "price " + i, start - keys + 100L * i + 1));
    }
    // Stable, so that records of one time stay in one order.
    all.sort(Comparator.comparingLong(Input::time));
    return all;
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
