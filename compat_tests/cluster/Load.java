// Publishes and consumes while brokers are replaced, and keeps account. Each topic has one publisher of numbers and a
// subscription of each kind, whose consumer acknowledges with receipts, batch index by batch index. One message in fifty
// is acknowledged a phase later, so that some batches are half acknowledged at any time. Reads commands from stdin:
//   phase NAME   says what happens from now on; the answer is a line of JSON about the phase that ends with it
//   end          stops publishing, receives what is left, and answers with a line of JSON about everything

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;

public class Load {
    static final int ONE_LATE_IN = 50;
    static final int KEYS = 7;
    static final int SEND_EVERY_MS = 20;
    static final long CATCH_UP_SECONDS = 120;
    static volatile String phase = "the beginning";
    static volatile boolean ended;

    /** One topic's publisher. The lock of the object guards its fields. */
    static class Publisher implements Runnable {
        final Producer<byte[]> producer;
        final Set<Integer> confirmed = new HashSet<>();
        final List<String> failures = new ArrayList<>();
        long lastNanos = System.nanoTime();
        long gapNanos;

        Publisher(PulsarClient client, String topic) throws Exception {
            producer = client.newProducer().topic(topic).sendTimeout(0, TimeUnit.SECONDS).blockIfQueueFull(true)
                    .batchingMaxMessages(20).batchingMaxPublishDelay(200, TimeUnit.MILLISECONDS).create();
        }

        @Override
        public void run() {
            try {
                for (int number = 0; !ended; number++) {
                    int sent = number;
                    producer.newMessage().key("k" + number % KEYS).value(String.valueOf(number).getBytes()).sendAsync()
                            .whenComplete((id, error) -> done(sent, error));
                    Thread.sleep(SEND_EVERY_MS);
                }
                producer.flush();
            } catch (Exception error) {
                done(-1, error);
            }
        }

        synchronized void done(int number, Throwable error) {
            long now = System.nanoTime();
            gapNanos = Math.max(gapNanos, now - lastNanos);
            lastNanos = now;
            if (error == null) {
                confirmed.add(number);
            } else {
                failures.add(error.toString());
            }
        }

        synchronized int confirmedCount() {
            return confirmed.size();
        }

        synchronized double takeGap() {
            double seconds = gapNanos / 1e9;
            gapNanos = 0;
            return seconds;
        }
    }

    /** One subscription's consumer. The lock of the object guards its fields. */
    static class Subscriber implements Runnable {
        final Consumer<byte[]> consumer;
        final SubscriptionType kind;
        final Set<Integer> seen = new HashSet<>();
        final Set<MessageId> settled = new HashSet<>();
        final Map<Integer, MessageId> late = new HashMap<>();
        final Map<String, Integer> repeats = new TreeMap<>();
        final Map<Integer, Integer> newest = new HashMap<>();
        final List<String> disorder = new ArrayList<>();
        int unanswered;

        Subscriber(PulsarClient client, String topic, SubscriptionType kind) throws Exception {
            this.kind = kind;
            consumer = client.newConsumer().topic(topic).subscriptionName(kind.name()).subscriptionType(kind)
                    .isAckReceiptEnabled(true).enableBatchIndexAcknowledgment(true).subscribe();
        }

        @Override
        public void run() {
            try {
                while (!Thread.currentThread().isInterrupted()) {
                    Message<byte[]> message = consumer.receive(200, TimeUnit.MILLISECONDS);
                    if (message != null) {
                        note(message, Integer.parseInt(new String(message.getValue())));
                    }
                }
            } catch (Exception error) {
                synchronized (this) {
                    disorder.add(error.toString());
                }
            }
        }

        synchronized void note(Message<byte[]> message, int number) {
            // A publisher that lost a receipt stores a message twice: what comes again is told by its id.
            if (settled.contains(message.getMessageId())) {
                repeats.merge(phase, 1, Integer::sum);
                System.err.println(message.getTopicName() + " " + kind + ": " + message.getMessageId() + ", number "
                        + number + ", came again in phase " + phase);
            }
            int stream = kind == SubscriptionType.Key_Shared ? number % KEYS : 0;
            if (seen.add(number) && newest.merge(stream, number, Math::max) != number
                    && kind != SubscriptionType.Shared) {
                disorder.add(number + " after " + newest.get(stream) + " in " + phase);
            }
            if (number % ONE_LATE_IN == 0) {
                late.put(number, message.getMessageId());
            } else {
                acknowledge(message.getMessageId());
            }
        }

        void acknowledge(MessageId id) {
            consumer.acknowledgeAsync(id).whenComplete((nothing, error) -> answered(id, error));
        }

        synchronized void answered(MessageId id, Throwable error) {
            if (error == null) {
                settled.add(id);
            } else {
                unanswered++;
            }
        }

        synchronized void acknowledgeLate() {
            late.values().forEach(this::acknowledge);
            late.clear();
        }

        synchronized int seenOf(Set<Integer> wanted) {
            int count = 0;
            for (int number : wanted) {
                count += seen.contains(number) ? 1 : 0;
            }
            return count;
        }
    }

    static final List<Publisher> publishers = new ArrayList<>();
    static final List<Subscriber> subscribers = new ArrayList<>();
    static final Map<Subscriber, Publisher> sources = new HashMap<>();
    static final List<Thread> threads = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        PulsarClient client = PulsarClient.builder().serviceUrl(args[0]).build();
        for (int at = 0; at < Integer.parseInt(args[2]); at++) {
            String topic = args[1] + at;
            List<Subscriber> added = new ArrayList<>();
            for (SubscriptionType kind : SubscriptionType.values()) {
                added.add(new Subscriber(client, topic, kind));
            }
            Publisher publisher = new Publisher(client, topic);
            publishers.add(publisher);
            for (Subscriber each : added) {
                subscribers.add(each);
                sources.put(each, publisher);
            }
        }
        subscribers.forEach(Load::start);
        publishers.forEach(Load::start);
        say("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            if (line.equals("end")) {
                say(end());
            } else {
                say(next(line.substring("phase ".length())));
            }
        }
        System.exit(0);
    }

    static void start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
        threads.add(thread);
    }

    /** Waits until every publisher and every subscriber goes on, so that the phase that ends has shown its effects. */
    static String next(String name) throws Exception {
        boolean went = true;
        Map<Publisher, Integer> before = new HashMap<>();
        publishers.forEach(each -> before.put(each, each.confirmedCount() + 50));
        for (Publisher each : publishers) {
            went &= until(() -> each.confirmedCount() >= before.get(each));
        }
        for (Subscriber each : subscribers) {
            Set<Integer> wanted = confirmedNow(sources.get(each));
            went &= until(() -> each.seenOf(wanted) == wanted.size());
        }
        double gap = 0;
        for (Publisher each : publishers) {
            gap = Math.max(gap, each.takeGap());
        }
        String ending = phase;
        phase = name;
        subscribers.forEach(Subscriber::acknowledgeLate);
        return "{\"phase\": \"" + ending + "\", \"goes_on\": " + went + ", \"gap_seconds\": " + gap + "}";
    }

    static Set<Integer> confirmedNow(Publisher publisher) {
        synchronized (publisher) {
            return new HashSet<>(publisher.confirmed);
        }
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static boolean until(Condition condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(CATCH_UP_SECONDS);
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                return false;
            }
            Thread.sleep(20);
        }
        return true;
    }

    static String end() throws Exception {
        ended = true;
        for (Thread thread : threads.subList(subscribers.size(), threads.size())) {
            thread.join(TimeUnit.SECONDS.toMillis(CATCH_UP_SECONDS));
        }
        int published = 0;
        int lost = 0;
        int unanswered = 0;
        List<String> faults = new ArrayList<>();
        Map<String, Integer> repeats = new TreeMap<>();
        for (Publisher each : publishers) {
            published += each.confirmedCount();
            faults.addAll(each.failures);
        }
        for (Subscriber each : subscribers) {
            Set<Integer> wanted = confirmedNow(sources.get(each));
            until(() -> each.seenOf(wanted) == wanted.size());
            synchronized (each) {
                lost += wanted.size() - each.seenOf(wanted);
                unanswered += each.unanswered;
                each.disorder.forEach(text -> faults.add(each.kind + " " + text));
                each.repeats.forEach((name, count) -> repeats.merge(name, count, Integer::sum));
            }
        }
        StringBuilder counts = new StringBuilder();
        repeats.forEach((name, count) ->
                counts.append(counts.length() == 0 ? "" : ", ").append("\"" + name + "\": " + count));
        StringBuilder texts = new StringBuilder();
        faults.forEach(text -> texts.append(texts.length() == 0 ? "" : ", ")
                .append("\"" + text.replaceAll("[^\\w .:-]", " ") + "\""));
        return "{\"published\": " + published + ", \"lost\": " + lost + ", \"unanswered_acks\": " + unanswered
                + ", \"repeats\": {" + counts + "}, \"faults\": [" + texts + "]}";
    }

    static synchronized void say(String text) {
        System.out.println("<<< " + text);
        System.out.flush();
    }
}
