import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;

/** Sends and receives while the server is killed and started again. Prints "sending" when the kill may come. */
public class Surviving extends Checks {
    static final int COUNT = 2000;

    public static void list() {
        add("survives_a_kill", Surviving::survives);
    }

    private static void survives(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscribe();
        Producer<byte[]> producer = producer(topic).sendTimeout(0, SECONDS).maxPendingMessages(COUNT).create();
        Set<Integer> acknowledged = new ConcurrentSkipListSet<>();
        CompletableFuture<MessageId> last = null;
        for (int at = 0; at < COUNT; at++) {
            int number = at;
            last = producer.sendAsync(("" + at).getBytes());
            last.thenRun(() -> acknowledged.add(number));
            if (at == COUNT / 4) {
                System.out.println("sending");
                System.out.flush();
            }
            Thread.sleep(1);
        }
        last.get(30, SECONDS);
        until("all have their receipts", () -> acknowledged.size() == COUNT);
        Set<Integer> got = new LinkedHashSet<>();
        while (got.size() < COUNT) {
            Message<byte[]> message = next(consumer);
            int number = Integer.parseInt(text(message));
            // Messages that were sent again come twice. Their first appearances are in order.
            holds(got.contains(number) || got.size() == number, number + " after " + got.size());
            got.add(number);
            consumer.acknowledge(message);
        }
    }
}
