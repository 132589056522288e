import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs tools by their classes, one after the other in this process, because a JVM of its own for each costs seconds. A request is a line: the
 * class, what it reads, its arguments, each in base64, with blanks between. The answer is a line: exit code, output, errors.
 */
public final class ToolHost {
    private static final long SECONDS_MAX = 60;
    private static final List<Runnable> hooks = new CopyOnWriteArrayList<>();
    private static volatile CompletableFuture<Integer> code;

    public static void main(String[] unused) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream answers = System.out;
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        for (String request = requests.readLine(); request != null; request = requests.readLine()) {
            List<String> parts = Arrays.stream(request.split(" ", -1)).map(ToolHost::decoded).toList();
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(parts.get(1).getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(out, true));
            System.setErr(new PrintStream(err, true));
            int status = run(parts.get(0), parts.subList(2, parts.size()).toArray(String[]::new));
            System.out.flush();
            answers.println(status + " " + encoded(out) + " " + encoded(err));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(String tool, String[] arguments) throws Exception {
        CompletableFuture<Integer> ended = new CompletableFuture<>();
        code = ended;
        hooks.clear();
        Thread thread = new Thread(() -> {
            try {
                Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
                hooks.forEach(Runnable::run);
                ended.complete(0);
            } catch (Throwable error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                System.err.println("Exception in thread \"main\" " + cause);
                ended.complete(1);
            }
        }, "main");
        thread.setDaemon(true);
        thread.start();
        try {
            return ended.get(SECONDS_MAX, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            System.err.println("It did not end in time.");
            return -1;
        }
    }

    /** As in a process that exits: the hooks run, and nothing that comes after the call. */
    private static void exit(int status) {
        hooks.forEach(Runnable::run);
        code.complete(status);
        while (true) {
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException again) {
                // Nobody may return from here.
            }
        }
    }

    private static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
