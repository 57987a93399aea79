import java.io.File;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;

/**
 * One instance of the application: exactly once, with a standby replica. Ends when its standard input does.
 *
 * <p>StreamsApp SERVERS ENGINE FOLDER [WRITE_BUFFER]: the state is in FOLDER. Prints "running SECONDS" when everything it holds is
 * restored. With the size of a memtable it measures, and answers each line of its standard input, and its end, with a line
 * "measures NAME=NUMBER ...".
 */
final class StreamsApp {
  private StreamsApp() {}

  public static void main(final String[] args) throws Exception {
    final String engine = args[1];
    final Properties properties = StreamsProperties.make(engine, args[0], args[2], engine);
    properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    properties.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 1);
    properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
    properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
    properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6000);
    properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 1000);
    properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
    properties.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 5000);
    if (args.length > 3) {
      properties.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, MeasuredSetter.class);
      properties.put(MeasuredSetter.HOW, engine);
      properties.put(MeasuredSetter.WRITE_BUFFER, args[3]);
      // Nobody waits for a dead instance here, and a busy machine is no reason to move tasks.
      properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 15_000);
      properties.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 15_000);
    }
    final long begin = System.nanoTime();
    final KafkaStreams streams = new KafkaStreams(StreamsTopology.make(engine + "-"), properties);
    streams.setStateListener((now, before) -> {
      if (now == KafkaStreams.State.RUNNING) {
        System.out.printf("running %.1f%n", (System.nanoTime() - begin) / 1e9);
      }
    });
    streams.setUncaughtExceptionHandler(error -> {
      error.printStackTrace();
      return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    final RestoreClock clock = new RestoreClock();
    streams.setGlobalStateRestoreListener(clock);
    streams.start();
    // The parent's end closes it.
    for (int c = System.in.read(); c >= 0; c = System.in.read()) {
      if (c == '\n') {
        measure(restoredTasks(streams, clock), clock);
      }
    }
    final StoreFolders stores = StoreFolders.below(new File(args[2]));
    System.out.println("stores " + stores);
    stores.require(engine);
    streams.close(Duration.ofSeconds(60));
    if (args.length > 3) {
      // All memtables are flushed.
      measure(0, clock);
    }
  }

  private static long restoredTasks(final KafkaStreams streams, final RestoreClock clock) {
    final boolean running = streams.state() == KafkaStreams.State.RUNNING && clock.atRest();
    return running ? streams.metadataForLocalThreads().stream().mapToLong(thread -> thread.activeTasks().size()).sum() : 0;
  }

  private static void measure(final long tasks, final RestoreClock clock) {
    final var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    System.out.printf(Locale.ROOT, "measures tasks=%d restored=%d restore_seconds=%.3f written=%d put=%d processor_seconds=%.3f%n",
        tasks, clock.records(), clock.seconds(), MeasuredSetter.writtenBytes(), MeasuredSetter.putBytes(),
        system.getProcessCpuTime() / 1e9);
  }
}
