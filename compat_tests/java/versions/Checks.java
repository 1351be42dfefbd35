import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/**
 * Runs the checks of the classes that it is given, sixteen beside each other, and prints a line "name=ok" or "name=what
 * went wrong" for each. Arguments: broker URL, web URL, a word for topics' names, classes; "class:check" runs one.
 */
public class Checks {
    interface Check {
        /** Runs the check on a topic that no other check uses. */
        void run(String topic) throws Exception;
    }

    static final String NAMESPACE = "persistent://public/default/";
    static final int CHECK_SECONDS = 60;
    /** The client's minor version: 10 for 2.10.6. Versions from 3.0 on continue the count behind 2.11: 3.0 is 12. */
    static final int MINOR = minor(System.getProperty("client").split("\\."));
    static final Map<String, Check> CHECKS = new LinkedHashMap<>();
    static PulsarClient client;
    static String url;
    static String web;

    public static void main(String[] args) throws Exception {
        url = args[0];
        web = args[1];
        client = PulsarClient.builder().serviceUrl(url).ioThreads(2).operationTimeout(10, TimeUnit.SECONDS).build();
        for (String each : Arrays.asList(args).subList(3, args.length)) {
            String[] words = each.split(":");
            Class.forName(words[0]).getMethod("list").invoke(null);
            if (words.length > 1) {
                CHECKS.keySet().retainAll(Arrays.asList(words[1]));
            }
        }
        ExecutorService beside = Executors.newFixedThreadPool(16);
        Map<String, Future<?>> running = new LinkedHashMap<>();
        CHECKS.forEach((name, check) -> running.put(name, beside.submit(() -> {
            check.run(NAMESPACE + args[2] + "-" + name);
            return null;
        })));
        for (Map.Entry<String, Future<?>> each : running.entrySet()) {
            System.out.println(each.getKey() + "=" + outcome(each.getValue()));
            System.out.flush();
        }
        System.exit(0);
    }

    private static int minor(String[] version) {
        return Integer.parseInt(version[1]) + (version[0].equals("2") ? 0 : 12);
    }

    private static String outcome(Future<?> done) throws Exception {
        try {
            done.get(CHECK_SECONDS, TimeUnit.SECONDS);
            return "ok";
        } catch (TimeoutException error) {
            return "not done within " + CHECK_SECONDS + " s";
        } catch (ExecutionException error) {
            StringWriter trace = new StringWriter();
            error.getCause().printStackTrace(new PrintWriter(trace));
            return String.join(" | ", Arrays.asList(trace.toString().split("\\s*\n\\s*")).subList(0, 8))
                    .replaceAll("at [a-z.]*pulsar[^|]*\\| ", "");
        }
    }

    static void add(String name, Check check) {
        CHECKS.put(name, check);
    }

    static void same(Object wanted, Object got) {
        if (!Objects.equals(wanted, got)) {
            throw new AssertionError("wanted " + wanted + ", got " + got);
        }
    }

    static void holds(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError("not so: " + what);
        }
    }

    /** Returns the simple name of the class of the error with which a call fails. */
    static String failure(Callable<?> call) throws Exception {
        try {
            call.call();
            return "nothing";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            return error.getClass().getSimpleName();
        }
    }

    static ProducerBuilder<byte[]> producer(String topic) {
        return client.newProducer().topic(topic);
    }

    /** Returns a builder of a consumer that begins at the topic's beginning. */
    static ConsumerBuilder<byte[]> consumer(String topic) {
        return client.newConsumer().topic(topic).subscriptionName("s")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
    }

    static void send(Producer<byte[]> producer, int from, int to) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        for (int at = from; at < to; at++) {
            sent.add(producer.newMessage().value(("m" + at).getBytes()).sendAsync());
        }
        producer.flush();
        for (Future<?> each : sent) {
            each.get(10, TimeUnit.SECONDS);
        }
    }

    static List<String> numbered(int from, int to) {
        List<String> all = new ArrayList<>();
        for (int at = from; at < to; at++) {
            all.add("m" + at);
        }
        return all;
    }

    static <T> Message<T> next(Consumer<T> consumer) throws PulsarClientException {
        Message<T> message = consumer.receive(10, TimeUnit.SECONDS);
        holds(message != null, "a message comes within ten seconds");
        return message;
    }

    static String text(Message<byte[]> message) {
        return message == null ? null : new String(message.getData(), StandardCharsets.UTF_8);
    }

    /** Returns the texts of the next messages without acknowledging them. */
    static List<String> texts(Consumer<byte[]> consumer, int count) throws PulsarClientException {
        List<String> got = new ArrayList<>();
        for (int at = 0; at < count; at++) {
            got.add(text(next(consumer)));
        }
        return got;
    }

    static void nothingComes(Consumer<?> consumer) throws PulsarClientException {
        same(null, consumer.receive(300, TimeUnit.MILLISECONDS));
    }

    static void until(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (!condition.call()) {
            holds(System.nanoTime() < deadline, what);
            Thread.sleep(20);
        }
    }

    /** Makes a call below /admin/v2/, which has to succeed, and returns its answer. */
    static String rest(String method, String path, String body) throws Exception {
        HttpURLConnection call = (HttpURLConnection) new URL(web + "/admin/v2/" + path).openConnection();
        call.setRequestMethod(method);
        if (body != null) {
            call.setDoOutput(true);
            call.setRequestProperty("Content-Type", "application/json");
            call.getOutputStream().write(body.getBytes(StandardCharsets.UTF_8));
        }
        holds(call.getResponseCode() < 300, method + " " + path + " succeeds: " + call.getResponseCode());
        byte[] answer = new byte[1 << 20];
        int length = Math.max(0, call.getInputStream().readNBytes(answer, 0, answer.length));
        return new String(answer, 0, length, StandardCharsets.UTF_8);
    }

    static String path(String topic) {
        return topic.replace("://", "/");
    }
}
