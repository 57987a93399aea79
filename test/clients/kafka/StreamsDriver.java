import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.test.TestRecord;

/**
 * The topology in one process without a broker. The test driver flushes the stores after every record.
 *
 * <p>StreamsDriver ENGINE FOLDER STATE EVENTS: writes FOLDER/NAME for each output topic; the stores are in STATE.
 */
final class StreamsDriver {
  private StreamsDriver() {}

  public static void main(final String[] args) throws Exception {
    final String engine = args[0];
    final long start = 1_700_000_000_000L;
    final Path folder = Path.of(args[1]);
    final List<StreamsData.Input> records = StreamsData.make(Integer.parseInt(args[3]), start);
    final Path state = Files.createDirectories(Path.of(args[2]));
    final Map<String, PrintStream> outputs = new HashMap<>();
    for (final String output : StreamsTopology.OUTPUTS) {
      outputs.put(output, new PrintStream(folder.resolve(output).toFile(), StandardCharsets.UTF_8));
    }
    final long begin = System.nanoTime();
    try (TopologyTestDriver driver = new TopologyTestDriver(StreamsTopology.make(""),
             StreamsProperties.make("driver", "nowhere:1", state.toString(), engine), Instant.ofEpochMilli(start))) {
      final Map<String, TestInputTopic<String, String>> inputs = new HashMap<>();
      for (final String input : StreamsTopology.INPUTS) {
        inputs.put(input, driver.createInputTopic(input, new StringSerializer(), new StringSerializer()));
      }
      int fed = 0;
      for (final StreamsData.Input record : records) {
        inputs.get(record.topic()).pipeInput(record.key(), record.value(), record.time());
        if (++fed % 1000 == 0 || fed == records.size()) {
          for (final String output : StreamsTopology.OUTPUTS) {
            final var topic = driver.createOutputTopic(output, new StringDeserializer(), new StringDeserializer());
            while (!topic.isEmpty()) {
              final TestRecord<String, String> answer = topic.readRecord();
              outputs.get(output).println(answer.key() + "\t" + answer.value() + "\t" + answer.timestamp());
            }
          }
        }
      }
      System.out.printf("%s: %d records in %.1f s%n", engine, records.size(), (System.nanoTime() - begin) / 1e9);
      final StoreFolders stores = StoreFolders.below(state.toFile());
      System.out.println(engine + ": " + stores);
      stores.require(engine);
    }
    outputs.values().forEach(PrintStream::close);
  }
}
