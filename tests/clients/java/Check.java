import java.util.concurrent.ExecutionException;

/** What the session asserts with, and how it tells. */
final class Check {
    private static int failed = 0;

    interface Step {
        void run() throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static void step(String name, Step step) {
        long started = System.nanoTime();
        String outcome = "ok";
        try {
            step.run();
        } catch (Exception | AssertionError error) {
            failed++;
            outcome = "FAILED: " + (error instanceof ExecutionException ? error.getCause() : error);
        }
        System.out.printf("%6d ms  %s: %s%n", (System.nanoTime() - started) / 1_000_000, name, outcome);
    }

    static int failures() {
        return failed;
    }

    static void equal(Object expected, Object got, String what) {
        if (!expected.equals(got)) {
            throw new AssertionError(what + ": wanted " + expected + ", got " + got);
        }
    }

    static void refused(Class<? extends Exception> expected, Step step) throws Exception {
        try {
            step.run();
        } catch (ExecutionException error) {
            equal(expected, error.getCause().getClass(), "the refusal");
            return;
        }
        throw new AssertionError("accepted where " + expected.getSimpleName() + " was wanted");
    }

    /** Waits up to 30 seconds; the condition does its own waiting. */
    static void eventually(String what, Condition condition) throws Exception {
        long deadline = System.nanoTime() + 30_000_000_000L;
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("never happened: " + what);
            }
        }
    }
}
