import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Prints what several of Kafka's tools say to {@code --help}, in one JVM, because each start of one takes a second or two.
 * An argument is the words of a command line, beginning with the class of the tool. Before each tool's text stands a line
 * of {@code ## } and the argument. integration/tool_flags.py is the other end.
 */
public final class ToolHelp {
    public static void main(String[] lines) throws Exception {
        PrintStream out = System.out;
        Exit.setExitProcedure((code, message) -> {
            throw new Ended();
        });
        for (String line : lines) {
            String[] words = line.split(" ");
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(said, true, "UTF-8");
            System.setOut(stream);
            System.setErr(stream);
            try {
                String[] arguments = Arrays.copyOfRange(words, 1, words.length);
                Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException error) {
                if (!(error.getCause() instanceof Ended)) {
                    throw error;
                }
            }
            out.println("## " + line);
            out.print(new String(said.toByteArray(), StandardCharsets.UTF_8));
        }
        out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static final class Ended extends Error {
        private static final long serialVersionUID = 1L;
    }
}
