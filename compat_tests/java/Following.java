// Apache's Java client follows what an administrator does: a watcher tells it of new topics that match its pattern, and
// it finds new partitions. Prints a line for each thing that it sees.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageRoutingMode;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;

public class Following {
    static final String BASE = "persistent://public/default/";

    public static void main(String[] args) throws Exception {
        PulsarClient client = PulsarClient.builder().serviceUrl(args[0]).build();
        Consumer<byte[]> pattern = client.newConsumer()
                .topicsPattern(Pattern.compile(BASE + "order.*"))
                .subscriptionName("s")
                // So long that only the watcher can tell it of new topics.
                .patternAutoDiscoveryPeriod(1, TimeUnit.HOURS)
                .subscribe();
        Consumer<byte[]> parts = client.newConsumer().topic(BASE + "parts").subscriptionName("s")
                .autoUpdatePartitionsInterval(1, TimeUnit.SECONDS).subscribe();
        Producer<byte[]> producer = client.newProducer().topic(BASE + "parts")
                .autoUpdatePartitionsInterval(1, TimeUnit.SECONDS).enableBatching(false)
                .messageRoutingMode(MessageRoutingMode.RoundRobinPartition).create();
        say("ready");

        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            String[] words = line.split(" ");
            if (words[0].equals("receive")) {
                Message<byte[]> message = pattern.receive(20, TimeUnit.SECONDS);
                say(message == null ? "nothing" : new String(message.getValue()));
            } else {
                say(spread(producer, parts, Integer.parseInt(words[1])));
            }
        }
        client.close();
        System.exit(0);
    }

    /** Sends and receives until this many partitions have had a message, and returns their numbers. */
    static String spread(Producer<byte[]> producer, Consumer<byte[]> consumer, int wanted) throws Exception {
        TreeSet<Integer> seen = new TreeSet<>();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (seen.size() < wanted && System.nanoTime() < deadline) {
            producer.send("x".getBytes());
            Message<byte[]> message = consumer.receive(1, TimeUnit.SECONDS);
            if (message != null) {
                consumer.acknowledge(message);
                String topic = message.getTopicName();
                seen.add(Integer.parseInt(topic.substring(topic.lastIndexOf('-') + 1)));
            }
            Thread.sleep(20);
        }
        return seen.toString();
    }

    static void say(String text) {
        System.out.println("<<< " + text);
        System.out.flush();
    }
}
