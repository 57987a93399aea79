import io.camunda.zeebe.db.AccessMetricsConfiguration;
import io.camunda.zeebe.db.ColumnFamily;
import io.camunda.zeebe.db.ConsistencyChecksSettings;
import io.camunda.zeebe.db.TransactionContext;
import io.camunda.zeebe.db.ZeebeDb;
import io.camunda.zeebe.db.impl.DbCompositeKey;
import io.camunda.zeebe.db.impl.DbLong;
import io.camunda.zeebe.db.impl.DbString;
import io.camunda.zeebe.db.impl.rocksdb.RocksDbConfiguration;
import io.camunda.zeebe.db.impl.rocksdb.ZeebeRocksDbFactory;
import io.camunda.zeebe.protocol.ZbColumnFamilies;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;

/**
 * What a broker does with its state, on the broker's own state store: process instances with variables and jobs come and go in
 * transactions, some of which are rolled back; every now and then a snapshot is taken, and the broker goes on from it.
 *
 * <p>ZeebeState STATE OUTPUT INSTANCES [OPTION=VALUE ...]: the options are those of the broker's configuration
 * (zeebe.broker.experimental.rocksdb.columnFamilyOptions). Writes what the state answers to OUTPUT, in order.
 */
public final class ZeebeState {
  private static final int SNAPSHOTS = 4;

  private final ZeebeDb<ZbColumnFamilies> db;
  private final TransactionContext context;
  private final DbLong instance = new DbLong();
  private final DbLong element = new DbLong();
  private final DbString text = new DbString();
  private final ColumnFamily<DbLong, DbString> instances;
  private final ColumnFamily<DbCompositeKey<DbLong, DbLong>, DbString> variables;
  private final ColumnFamily<DbLong, DbLong> jobs;
  private final DbCompositeKey<DbLong, DbLong> variable = new DbCompositeKey<>(instance, element);

  private ZeebeState(final File folder, final Properties options) {
    db = new ZeebeRocksDbFactory<ZbColumnFamilies>(new RocksDbConfiguration().setColumnFamilyOptions(options),
        new ConsistencyChecksSettings(true, true), new AccessMetricsConfiguration(AccessMetricsConfiguration.Kind.NONE, 1),
        SimpleMeterRegistry::new).createDb(folder);
    context = db.createContext();
    instances = db.createColumnFamily(ZbColumnFamilies.ELEMENT_INSTANCE_KEY, context, new DbLong(), new DbString());
    variables = db.createColumnFamily(ZbColumnFamilies.VARIABLES, context, new DbCompositeKey<>(new DbLong(), new DbLong()), new DbString());
    jobs = db.createColumnFamily(ZbColumnFamilies.JOBS, context, new DbLong(), new DbLong());
  }

  public static void main(final String[] args) throws Exception {
    final Properties options = new Properties();
    for (int i = 3; i < args.length; i++) {
      options.setProperty(args[i].substring(0, args[i].indexOf('=')), args[i].substring(args[i].indexOf('=') + 1));
    }
    final int count = Integer.parseInt(args[2]);
    File folder = new File(args[0], "runtime0");
    try (PrintStream out = new PrintStream(args[1], StandardCharsets.UTF_8)) {
      for (int round = 0; round < SNAPSHOTS; round++) {
        final File snapshot = new File(args[0], "runtime" + (round + 1));
        final ZeebeState state = new ZeebeState(folder, options);
        try (state.db) {
          for (int i = round * count / SNAPSHOTS; i < (round + 1) * count / SNAPSHOTS; i++) {
            state.work(i, out);
          }
          state.print(out);
          state.db.createSnapshot(snapshot);
        }
        folder = snapshot;
      }
      final ZeebeState last = new ZeebeState(folder, options);
      try (last.db) {
        last.print(out);
      }
    }
  }

  private void work(final int i, final PrintStream out) throws Exception {
    context.runInTransaction(() -> {
      instance.wrapLong(i);
      text.wrapString("instance " + i);
      instances.insert(instance, text);
      for (int j = 0; j < 5; j++) {
        element.wrapLong(j);
        text.wrapString("variable " + j + " of " + i + " ".repeat(i % 50));
        variables.insert(variable, text);
      }
      jobs.insert(instance, element);
    });
    // A command that is refused leaves nothing.
    if (i % 7 == 0) {
      try {
        context.runInTransaction(() -> {
          instance.wrapLong(1_000_000L + i);
          instances.insert(instance, text);
          throw new IllegalStateException("refused");
        });
        throw new AssertionError("the exception is lost");
      } catch (final RuntimeException e) {
        // As it should be.
      }
    }
    // An older instance changes a variable, another ends.
    context.runInTransaction(() -> {
      instance.wrapLong(i / 2);
      element.wrapLong(i % 5);
      if (variables.exists(variable)) {
        text.wrapString("changed by " + i);
        variables.update(variable, text);
      }
    });
    if (i % 3 == 2) {
      context.runInTransaction(() -> {
        instance.wrapLong(i / 3);
        final StringBuilder line = new StringBuilder("ends " + i / 3);
        variables.whileEqualPrefix(instance, (key, value) -> {
          line.append(' ').append(key.second().getValue()).append(':').append(value);
          element.wrapLong(key.second().getValue());
          variables.deleteExisting(variable);
        });
        out.println(line);
        instances.deleteExisting(instance);
        jobs.deleteExisting(instance);
      });
    }
  }

  private void print(final PrintStream out) throws Exception {
    context.runInTransaction(() -> {
      out.println("instances " + instances.count() + " variables " + variables.count() + " jobs " + jobs.count());
      instances.forEach((key, value) -> out.println(key.getValue() + " " + value));
      variables.forEach((key, value) -> out.println(key.first().getValue() + " " + key.second().getValue() + " " + value));
      jobs.forEach((key, value) -> out.println(key.getValue() + " " + value.getValue()));
    });
  }
}
