import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.*;

/** Runs steps, tells their results, and what steps assert with. */
final class Check {
    private static final long STEP_SECONDS_MAX = 90;
    private static PrintStream results;

    interface Step {
        void run() throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    /** Results go to this file, one line a step. */
    static void tellTo(String file) throws Exception {
        results = new PrintStream(Files.newOutputStream(Path.of(file)), true);
    }

    static void step(String name, Step step) {
        long started = System.nanoTime();
        ExecutorService thread = Executors.newSingleThreadExecutor(work -> {
            Thread made = new Thread(work, name);
            made.setDaemon(true);
            return made;
        });
        String verdict = "PASS";
        String why = "";
        try {
            thread.submit(() -> {
                step.run();
                return null;
            }).get(STEP_SECONDS_MAX, TimeUnit.SECONDS);
        } catch (Exception error) {
            verdict = "FAIL";
            Throwable cause = error;
            while (cause instanceof ExecutionException && cause.getCause() != null) {
                cause = cause.getCause();
            }
            why = ": " + cause;
        }
        thread.shutdownNow();
        System.out.printf("%s %s %.1f s%s%n", verdict, name, (System.nanoTime() - started) / 1e9, why);
        results.println(verdict + " " + name);
    }

    static void equal(Object expected, Object got, String what) {
        if (!expected.equals(got)) {
            throw new AssertionError(what + ": wanted " + expected + ", got " + got);
        }
    }

    static void holds(boolean condition, String what) {
        equal(true, condition, what);
    }

    /** The step must fail with just this exception, its own or that of a future. */
    static void refused(Class<? extends Exception> expected, Step step) throws Exception {
        Throwable got;
        try {
            step.run();
            got = null;
        } catch (ExecutionException error) {
            got = error.getCause();
        } catch (Exception error) {
            got = error;
        }
        if (got == null || got.getClass() != expected) {
            throw new AssertionError("wanted " + expected.getSimpleName() + ", got " + (got == null ? "success" : got));
        }
    }

    /** Waits up to 40 seconds; the condition does its own waiting. */
    static void eventually(String what, Condition condition) throws Exception {
        long deadline = System.nanoTime() + 40_000_000_000L;
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("never happened: " + what);
            }
        }
    }
}
