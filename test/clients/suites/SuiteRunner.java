import java.util.HashSet;
import java.util.Set;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs classes of JUnit 4 and prints a line for each case: SuiteRunner CLASS ... */
public final class SuiteRunner extends RunListener {
  private final Set<Description> failed = new HashSet<>();
  private final Set<Description> skipped = new HashSet<>();

  public static void main(final String[] classes) throws ClassNotFoundException {
    final JUnitCore core = new JUnitCore();
    core.addListener(new SuiteRunner());
    final Class<?>[] tests = new Class<?>[classes.length];
    for (int i = 0; i < classes.length; i++) {
      tests[i] = Class.forName(classes[i]);
    }
    System.exit(core.run(tests).wasSuccessful() ? 0 : 1);
  }

  @Override
  public void testFailure(final Failure failure) {
    failed.add(failure.getDescription());
    System.out.println("\n" + failure.getTrace());
  }

  // The machine lacks what the case takes: memory, most often.
  @Override
  public void testAssumptionFailure(final Failure failure) {
    skipped.add(failure.getDescription());
  }

  @Override
  public void testStarted(final Description test) {
    System.out.println("\n=== started " + name(test));
  }

  @Override
  public void testFinished(final Description test) {
    System.out.println("\n=== " + (failed.contains(test) ? "failed " : skipped.contains(test) ? "skipped " : "passed ") + name(test));
  }

  private static String name(final Description test) {
    return test.getClassName() + "." + test.getMethodName().replace(' ', '_');
  }
}
