import java.time.Duration;
import java.util.List;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A topology with a store of every kind that Kafka Streams keeps in RocksDB. What it answers is a function of the records of its three
 * topics alone, in whatever order these reach it, so that runs may be compared record by record.
 */
final class StreamsTopology {
  static final String EVENTS = "events";
  static final String CLICKS = "clicks";
  static final String PRICES = "prices";
  static final List<String> INPUTS = List.of(EVENTS, CLICKS, PRICES);
  static final List<String> OUTPUTS = List.of("counts", "windows", "sessions", "priced", "joined", "ranges");

  private StreamsTopology() {}

  /** Output topics are prefix + a name of OUTPUTS. */
  static Topology make(final String prefix) {
    final StreamsBuilder builder = new StreamsBuilder();
    final Consumed<String, String> text = Consumed.with(Serdes.String(), Serdes.String());
    final Produced<String, String> out = Produced.with(Serdes.String(), Serdes.String());
    final KStream<String, String> events = builder.stream(EVENTS, text);
    final KStream<String, String> clicks = builder.stream(CLICKS, text);

    // Overwrites: a timestamped key-value store.
    events.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .aggregate(() -> "", (key, value, last) -> fold(last, value),
            Materialized.<String, String>as(Stores.persistentTimestampedKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()))
        .toStream().to(prefix + "counts", out);

    // Segments that are made and dropped as time goes on; range scans over key and time.
    events.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(20), Duration.ofSeconds(10)).advanceBy(Duration.ofSeconds(10)))
        .count(Materialized.as("windows"))
        .toStream((window, count) -> window.key() + "@" + window.window().start()).mapValues(String::valueOf)
        .to(prefix + "windows", out);

    // Merges of sessions: scans and deletions.
    events.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofSeconds(3)))
        .count(Materialized.as("sessions"))
        .toStream((window, count) -> window.key() + "@" + window.window().start() + "-" + window.window().end())
        .mapValues(String::valueOf).to(prefix + "sessions", out);

    // The value that a key had at the event's time: a versioned store. Its segments are ranges of one database, dropped by DeleteRange.
    final KTable<String, String> prices = builder.table(PRICES, text,
        Materialized.<String, String>as(Stores.persistentVersionedKeyValueStore("prices", Duration.ofSeconds(120)))
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
    events.join(prices, (event, price) -> event + " at " + price).to(prefix + "priced", out);

    // Two window stores that keep duplicates.
    events.join(clicks, (event, click) -> event + " with " + click,
            JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(2), Duration.ofHours(2)),
            StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()).withStoreName("joined"))
        .to(prefix + "joined", out);

    builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("ranges"), Serdes.String(), Serdes.String()));
    events.process(Ranges::new, "ranges").to(prefix + "ranges", out);
    return builder.build();
  }

  /** As long as its input is, no longer. */
  private static String fold(final String last, final String value) {
    final int space = last.indexOf(' ');
    final long number = space < 0 ? 0 : Long.parseLong(last.substring(0, space));
    return (number + 1) + " " + Integer.toHexString(31 * last.hashCode() + value.hashCode());
  }

  /** Puts, deletions, and scans in both directions of what was put. */
  private static final class Ranges implements Processor<String, String, String, String> {
    private ProcessorContext<String, String> context;
    private KeyValueStore<String, String> store;

    @Override
    public void init(final ProcessorContext<String, String> processor) {
      context = processor;
      store = context.getStateStore("ranges");
    }

    @Override
    public void process(final Record<String, String> event) {
      final int hash = event.value().hashCode();
      final String key = event.key() + ":" + Math.floorMod(hash, 16);
      if (hash % 5 == 0) {
        store.delete(key);
      } else {
        store.put(key, event.value());
      }
      final String answer;
      switch (Math.floorMod(hash / 16, 4)) {
        case 0:
          answer = describe(store.prefixScan(event.key() + ":", new StringSerializer()));
          break;
        case 1:
          answer = describe(store.range(event.key() + ":3", event.key() + ":7"));
          break;
        case 2:
          answer = describe(store.reverseRange(event.key() + ":", event.key() + ":\uffff"));
          break;
        default:
          answer = String.valueOf(store.get(key));
      }
      context.forward(event.withValue(answer));
    }

    private static String describe(final KeyValueIterator<String, String> iterator) {
      int count = 0;
      int hash = 0;
      try (iterator) {
        while (iterator.hasNext()) {
          hash = 31 * hash + iterator.next().hashCode();
          count++;
        }
      }
      return count + " " + Integer.toHexString(hash);
    }
  }
}
