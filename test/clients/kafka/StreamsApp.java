import java.io.File;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;

/**
 * One instance of the application: exactly once, with a standby replica. Ends when its standard input does.
 *
 * <p>StreamsApp SERVERS ENGINE FOLDER: the state is in FOLDER. Prints "running SECONDS" when everything it holds is restored.
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
    streams.start();
    while (System.in.read() >= 0) {
      // The parent's end closes it.
    }
    final StoreFolders stores = StoreFolders.below(new File(args[2]));
    System.out.println("stores " + stores);
    stores.require(engine);
    streams.close(Duration.ofSeconds(20));
  }
}
