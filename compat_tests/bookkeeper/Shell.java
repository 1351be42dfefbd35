import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URL;
import java.nio.file.Path;
import org.apache.bookkeeper.bookie.BookieShell;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.util.EntryFormatter;
import org.apache.bookkeeper.util.LedgerIdFormatter;

/** Runs Apache's BookieShell commands in one JVM, one for each line of input. A line "EXIT n" ends each output. */
public class Shell {
    public static void main(String[] words) throws Exception {
        URL conf = Path.of(words[0]).toUri().toURL();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int code = 1;
            try {
                ServerConfiguration configuration = new ServerConfiguration();
                configuration.loadConf(conf);
                BookieShell shell = new BookieShell(
                    LedgerIdFormatter.newLedgerIdFormatter(configuration),
                    EntryFormatter.newEntryFormatter(configuration));
                shell.setConf(configuration);
                code = shell.run(line.trim().split("\\s+"));
            } catch (Exception error) {
                error.printStackTrace(System.out);
            }
            System.out.println("\nEXIT " + code);
            System.out.flush();
        }
        System.exit(0);
    }
}
