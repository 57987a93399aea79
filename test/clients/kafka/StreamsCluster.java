import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Two instances of StreamsApp work through the input; one is killed (SIGKILL), the other goes on with its state, the first comes back.
 *
 * <p>StreamsCluster feed SERVERS EVENTS: makes the input topics and fills them.<br>
 * StreamsCluster run SERVERS EVENTS ENGINE FOLDER STATE JAVA ...: JAVA is the command of an instance's JVM up to the main class. Writes
 * FOLDER/NAME for each output topic, what was committed only, in the order of key and offset.<br>
 * StreamsCluster feed SERVERS EVENTS PER_KEY BYTES: more keys, longer values.<br>
 * StreamsCluster measure SERVERS EVENTS ENGINE FOLDER STATE BUFFER JAVA ...: no kill until the input is worked off; then one is killed
 * (SIGKILL), the other ends, and a third instance with an empty folder restores everything. BUFFER: the size of a memtable. Writes FOLDER/measures.json, too, and deletes the
 * topics that it has made.
 */
final class StreamsCluster {
  private static final int PARTITIONS = 4;
  private static final long PATIENCE_SECONDS = Long.parseLong(System.getenv().getOrDefault("CLIENT_PATIENCE", "240"));
  private final String servers;
  private final Admin admin;

  private StreamsCluster(final String servers) {
    this.servers = servers;
    final Properties properties = new Properties();
    properties.put("bootstrap.servers", servers);
    admin = Admin.create(properties);
  }

  public static void main(final String[] args) throws Exception {
    final StreamsCluster cluster = new StreamsCluster(args[1]);
    final int events = Integer.parseInt(args[2]);
    if (args[0].equals("feed")) {
      // A broker deletes what is older than a topic's retention by the time that stands in it.
      final long start = System.currentTimeMillis() - 50L * events;
      cluster.feed(args.length < 5 ? StreamsData.make(events, start)
                                   : StreamsData.make(events, start, Integer.parseInt(args[3]), Integer.parseInt(args[4])));
    } else if (args[0].equals("measure")) {
      final List<String> java = List.of(args).subList(7, args.length);
      cluster.measure(args[3], Path.of(args[4]), Path.of(args[5]), args[6], java);
    } else {
      cluster.run(args[3], Path.of(args[4]), Path.of(args[5]), List.of(args).subList(6, args.length));
    }
    System.exit(0);
  }

  private void make(final List<String> names) throws Exception {
    final List<NewTopic> topics = new ArrayList<>();
    for (final String name : names) {
      topics.add(new NewTopic(name, PARTITIONS, (short) 1));
    }
    admin.createTopics(topics).all().get();
  }

  private void feed(final List<StreamsData.Input> records) throws Exception {
    make(StreamsTopology.INPUTS);
    final Properties properties = new Properties();
    properties.put("bootstrap.servers", servers);
    properties.put("linger.ms", 20);
    // One record after the other, also after a failure.
    properties.put("enable.idempotence", true);
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
      for (final StreamsData.Input record : records) {
        producer.send(new ProducerRecord<>(record.topic(), null, record.time(), record.key(), record.value()), (sent, error) -> {
          if (error != null) {
            error.printStackTrace();
            System.exit(1);
          }
        });
      }
    }
  }

  private void run(final String engine, final Path folder, final Path state, final List<String> java) throws Exception {
    final List<String> outputs = new ArrayList<>();
    StreamsTopology.OUTPUTS.forEach(name -> outputs.add(engine + "-" + name));
    make(outputs);
    final long begin = System.nanoTime();
    final Process first = start(engine, folder, state, "first", java);
    final Process second = start(engine, folder, state, "second", java);
    await(engine, 0.3);
    first.destroyForcibly().waitFor(); // SIGKILL
    final long killed = System.nanoTime();
    final double done = progress(engine);
    await(engine, Math.min(1, done + 0.05));
    System.out.printf("%s: killed at %.0f %%; the other instance goes on after %.1f s%n", engine, 100 * done, seconds(killed));
    final Process back = start(engine, folder, state, "first", java);
    await(engine, 1);
    System.out.printf("%s: all done after %.1f s%n", engine, seconds(begin));
    end(back, folder);
    end(second, folder);
    for (final String name : StreamsTopology.OUTPUTS) {
      write(engine + "-" + name, folder.resolve(name));
    }
  }

  private void measure(final String engine, final Path folder, final Path state, final String buffer, final List<String> java)
      throws Exception {
    final List<String> outputs = new ArrayList<>();
    StreamsTopology.OUTPUTS.forEach(name -> outputs.add(engine + "-" + name));
    make(outputs);
    final List<Process> instances = new ArrayList<>();
    for (final String name : List.of("first", "second")) {
      instances.add(start(engine, folder, state, name, java, buffer));
    }
    // From the first commit on: a JVM's start is no part of it.
    await(engine, Double.MIN_VALUE);
    final long begin = System.nanoTime();
    final double before = progress(engine);
    await(engine, 1);
    final double seconds = seconds(begin);
    final long records = inputRecords();
    // The standbys come after.
    final Process first = instances.get(0);
    final Process second = instances.get(1);
    double put = -1;
    for (double now = stored(instances, folder); now != put; now = stored(instances, folder)) {
      put = now;
      Thread.sleep(1000);
    }
    final double processor = ask(first, folder.resolve("first.log")).get("processor_seconds")
        + ask(second, folder.resolve("second.log")).get("processor_seconds");
    first.destroyForcibly().waitFor(); // SIGKILL
    // Each instance has every store, as its own or as a standby, so the bytes of one say what the engine does. They are counted when its
    // memtables are flushed: what happens to be in these differs more than engines do.
    end(second, folder);
    final Map<String, Double> worked = lastAnswer(folder.resolve("second.log"));
    final Process third = start(engine, folder, state, "third", java, buffer);
    Map<String, Double> restored = Map.of("tasks", 0.0);
    final long patience = System.nanoTime();
    while (restored.get("tasks") < PARTITIONS) {
      if (seconds(patience) > PATIENCE_SECONDS || !third.isAlive()) {
        throw new IllegalStateException("the third instance does not restore: see its log in " + folder);
      }
      Thread.sleep(200);
      restored = ask(third, folder.resolve("third.log"));
    }
    end(third, folder);
    final String json = String.format(Locale.ROOT, "{\"records\": %d, \"records_per_second\": %.1f, \"processor_seconds\": %.2f, \"put_bytes\": %.0f, "
            + "\"written_bytes\": %.0f, \"restore_seconds\": %.3f, \"restored_records\": %.0f, \"restore_written_bytes\": %.0f, "
            + "\"state_bytes\": %d}%n", records, (1 - before) * records / seconds, processor, worked.get("put"), worked.get("written"),
        restored.get("restore_seconds"), restored.get("restored"), lastAnswer(folder.resolve("third.log")).get("written"),
        StoreFolders.below(state.resolve("third").toFile()).tableBytes());
    System.out.print(engine + ": " + json);
    for (final String name : StreamsTopology.OUTPUTS) {
      write(engine + "-" + name, folder.resolve(name));
    }
    Files.writeString(folder.resolve("measures.json"), json);
    final List<String> made = new ArrayList<>(admin.listTopics().names().get());
    made.removeIf(name -> !name.startsWith(engine + "-"));
    admin.deleteTopics(made).all().get();
  }

  private static void end(final Process instance, final Path folder) throws Exception {
    instance.getOutputStream().close();
    if (!instance.waitFor(60, TimeUnit.SECONDS) || instance.exitValue() != 0) {
      instance.destroyForcibly();
      throw new IllegalStateException("an instance did not end well: see its log in " + folder);
    }
  }

  /** Bytes that the instances have put into their stores. */
  private static double stored(final List<Process> instances, final Path folder) throws Exception {
    return ask(instances.get(0), folder.resolve("first.log")).get("put") + ask(instances.get(1), folder.resolve("second.log")).get("put");
  }

  /** The answer of an instance to a line of its standard input; it stands in the instance's log. */
  private static Map<String, Double> ask(final Process instance, final Path log) throws Exception {
    final long before = answers(log).size();
    instance.getOutputStream().write('\n');
    instance.getOutputStream().flush();
    for (final long begin = System.nanoTime(); answers(log).size() == before;) {
      if (seconds(begin) > PATIENCE_SECONDS || !instance.isAlive()) {
        throw new IllegalStateException("an instance does not answer: " + log);
      }
      Thread.sleep(50);
    }
    return lastAnswer(log);
  }

  private static Map<String, Double> lastAnswer(final Path log) throws Exception {
    final Map<String, Double> measures = new TreeMap<>();
    final List<String> all = answers(log);
    for (final String part : all.get(all.size() - 1).split(" ")) {
      if (part.contains("=")) {
        measures.put(part.substring(0, part.indexOf('=')), Double.valueOf(part.substring(part.indexOf('=') + 1)));
      }
    }
    return measures;
  }

  private static List<String> answers(final Path log) throws Exception {
    // A line without its end is still being written.
    final String text = Files.exists(log) ? Files.readString(log) : "";
    return text.substring(0, text.lastIndexOf('\n') + 1).lines().filter(line -> line.startsWith("measures ")).toList();
  }

  private Process start(final String engine, final Path folder, final Path state, final String name, final List<String> java,
      final String... more) throws Exception {
    final List<String> command = new ArrayList<>(java);
    command.addAll(List.of("StreamsApp", servers, engine, state.resolve(name).toString()));
    command.addAll(List.of(more));
    final File log = folder.resolve(name + ".log").toFile();
    return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log)).start();
  }

  private static double seconds(final long since) {
    return (System.nanoTime() - since) / 1e9;
  }

  private void await(final String application, final double share) throws Exception {
    final long begin = System.nanoTime();
    while (progress(application) < share) {
      if (seconds(begin) > PATIENCE_SECONDS) {
        throw new IllegalStateException(application + " stays at " + progress(application));
      }
      Thread.sleep(50);
    }
  }

  private Map<TopicPartition, Long> inputEnds() throws Exception {
    final Map<TopicPartition, OffsetSpec> wanted = new TreeMap<>((a, b) -> a.toString().compareTo(b.toString()));
    for (final String input : StreamsTopology.INPUTS) {
      for (int i = 0; i < PARTITIONS; i++) {
        wanted.put(new TopicPartition(input, i), OffsetSpec.latest());
      }
    }
    final Map<TopicPartition, Long> ends = new HashMap<>();
    admin.listOffsets(wanted).all().get().forEach((partition, end) -> ends.put(partition, end.offset()));
    return ends;
  }

  private long inputRecords() throws Exception {
    return inputEnds().values().stream().mapToLong(Long::longValue).sum();
  }

  /** The part of the input whose answers are committed. */
  private double progress(final String application) throws Exception {
    final Map<TopicPartition, Long> ends = inputEnds();
    final var committed = admin.listConsumerGroupOffsets(application).partitionsToOffsetAndMetadata().get();
    long all = 0;
    long done = 0;
    for (final TopicPartition partition : ends.keySet()) {
      all += ends.get(partition);
      final var offset = committed.get(partition);
      done += offset == null ? 0 : offset.offset();
    }
    return (double) done / all;
  }

  private void write(final String topic, final Path file) throws Exception {
    final Properties properties = new Properties();
    properties.put("bootstrap.servers", servers);
    properties.put("isolation.level", "read_committed");
    final List<TopicPartition> partitions = new ArrayList<>();
    for (int i = 0; i < PARTITIONS; i++) {
      partitions.add(new TopicPartition(topic, i));
    }
    final Map<String, List<String>> lines = new TreeMap<>();
    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      final Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
        for (final ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
          lines.computeIfAbsent(record.key(), key -> new ArrayList<>()).add(record.key() + "\t" + record.value() + "\t" + record.timestamp());
        }
      }
    }
    // Which of two joined streams comes first is a matter of their fetches.
    if (topic.endsWith("-joined")) {
      lines.values().forEach(list -> list.sort(null));
    }
    try (PrintStream out = new PrintStream(file.toFile(), StandardCharsets.UTF_8)) {
      lines.values().forEach(list -> list.forEach(out::println));
    }
    System.out.printf("%s: %d records%n", topic, Files.readAllLines(file).size());
  }
}
