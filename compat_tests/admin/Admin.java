// Apache's pulsar-admin, many commands in one JVM: a line of stdin is a command, its words parted by tabs. After what a
// command prints comes a line with its verdict.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Properties;
import org.apache.pulsar.admin.cli.PulsarAdminTool;

public class Admin extends PulsarAdminTool {
    Admin(Properties properties) throws Exception {
        super(properties);
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("webServiceUrl", args[0]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            boolean done = new Admin(properties).run(line.split("\t", -1));
            System.err.flush();
            System.out.println();
            System.out.println("<<< " + (done ? "ok" : "failed"));
            System.out.flush();
        }
        System.exit(0);
    }
}
