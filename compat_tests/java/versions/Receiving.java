import static java.util.concurrent.TimeUnit.HOURS;
import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.ConsumerEventListener;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.RegexSubscriptionMode;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/** Checks of consuming and reading, for any client since 2.4. */
public class Receiving extends Checks {
    public static void list() {
        add("exclusive", Receiving::exclusive);
        add("failover", Receiving::failover);
        add("shared", Receiving::shared);
        add("key_shared", Receiving::keyShared);
        add("negative_ack", Receiving::negativeAck);
        add("ack_timeout", Receiving::ackTimeout);
        add("dead_letters", Receiving::deadLetters);
        add("cumulative_ack", Receiving::cumulativeAck);
        add("zero_queue", Receiving::zeroQueue);
        add("listener", Receiving::listener);
        add("delayed", Receiving::delayed);
        add("several_topics", Receiving::severalTopics);
        add("pattern", Receiving::pattern);
        add("unsubscribe", Receiving::unsubscribe);
        add("pause", Receiving::pause);
    }

    private static void exclusive(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscribe();
        same("ConsumerBusyException", failure(() -> consumer(topic).subscribe()));
        same("ConsumerBusyException",
                failure(() -> consumer(topic).subscriptionType(SubscriptionType.Shared).subscribe()));
        send(producer(topic).create(), 0, 5);
        same(numbered(0, 5), texts(consumer, 5));
        consumer.close();
        same(numbered(0, 5), texts(consumer(topic).subscribe(), 5));
    }

    private static void failover(String topic) throws Exception {
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        for (String name : Arrays.asList("a", "b")) {
            consumers.add(consumer(topic).subscriptionType(SubscriptionType.Failover).consumerName(name)
                    .priorityLevel(name.equals("a") ? 0 : 1).consumerEventListener(new ConsumerEventListener() {
                        @Override
                        public void becameActive(Consumer<?> consumer, int partition) {
                            events.add(name + "+");
                        }

                        @Override
                        public void becameInactive(Consumer<?> consumer, int partition) {
                            events.add(name + "-");
                        }
                    }).subscribe());
        }
        same("a+", events.poll(10, SECONDS));
        same("b-", events.poll(10, SECONDS));
        Producer<byte[]> producer = producer(topic).create();
        send(producer, 0, 4);
        same(numbered(0, 4), texts(consumers.get(0), 4));
        nothingComes(consumers.get(1));
        consumers.get(0).close();
        same("b+", events.poll(10, SECONDS));
        same(numbered(0, 4), texts(consumers.get(1), 4));
    }

    private static void shared(String topic) throws Exception {
        ConsumerBuilder<byte[]> builder =
                consumer(topic).subscriptionType(SubscriptionType.Shared).receiverQueueSize(5);
        Consumer<byte[]> one = builder.subscribe();
        Consumer<byte[]> two = builder.subscribe();
        send(producer(topic).enableBatching(false).create(), 0, 10);
        TreeSet<String> all = new TreeSet<>(texts(one, 5));
        all.addAll(texts(two, 5));
        same(new TreeSet<>(numbered(0, 10)), all);
        one.close();
        same(5, new TreeSet<>(texts(two, 5)).size());
        same("InvalidConfigurationException", failure(() -> {
            two.acknowledgeCumulative(MessageId.latest);
            return null;
        }));
    }

    private static void keyShared(String topic) throws Exception {
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        for (int at = 0; at < 3; at++) {
            consumers.add(consumer(topic).subscriptionType(SubscriptionType.Key_Shared).subscribe());
        }
        Producer<byte[]> producer = producer(topic).enableBatching(false).create();
        Map<String, Integer> owners = new HashMap<>();
        int[] last = new int[20];
        for (int at = 0; at < 200; at++) {
            producer.newMessage().key("k" + at % 20).value(("" + (at + 1)).getBytes()).sendAsync();
        }
        producer.flush();
        int count = 0;
        while (count < 200) {
            int before = count;
            for (int which = 0; which < 3; which++) {
                Message<byte[]> message;
                for (; (message = consumers.get(which).receive(100, MILLISECONDS)) != null; count++) {
                    owners.putIfAbsent(message.getKey(), which);
                    same(which, owners.get(message.getKey()));
                    int key = Integer.parseInt(message.getKey().substring(1));
                    holds(Integer.parseInt(text(message)) > last[key], "keys keep their order");
                    last[key] = Integer.parseInt(text(message));
                    consumers.get(which).acknowledge(message);
                }
            }
            holds(count > before, "all come");
        }
        same(3, new TreeSet<>(owners.values()).size());
    }

    private static void negativeAck(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscriptionType(SubscriptionType.Shared)
                .negativeAckRedeliveryDelay(100, MILLISECONDS).subscribe();
        send(producer(topic).enableBatching(false).create(), 0, 3);
        for (int count = 0; count < 3; count++) {
            Message<byte[]> message = next(consumer);
            same(0, redeliveries(message));
            if (count == 1) {
                consumer.negativeAcknowledge(message);
            } else {
                consumer.acknowledge(message);
            }
        }
        Message<byte[]> again = next(consumer);
        same("m1", text(again));
        same(1, redeliveries(again));
        nothingComes(consumer);
        consumer.redeliverUnacknowledgedMessages();
        same("m1", text(next(consumer)));
    }

    static int redeliveries(Message<?> message) throws Exception {
        return (Integer) message.getClass().getMethod("getRedeliveryCount").invoke(message);
    }

    private static void ackTimeout(String topic) throws Exception {
        for (SubscriptionType type : Arrays.asList(SubscriptionType.Shared, SubscriptionType.Exclusive)) {
            Consumer<byte[]> consumer = consumer(topic + type).subscriptionType(type).ackTimeout(1, SECONDS)
                    .ackTimeoutTickTime(100, MILLISECONDS).subscribe();
            send(producer(topic + type).enableBatching(false).create(), 0, 3);
            consumer.acknowledge(next(consumer));
            same(Arrays.asList("m1", "m2"), texts(consumer, 2));
            TreeSet<String> again = new TreeSet<>(texts(consumer, 2));
            holds(again.containsAll(Arrays.asList("m1", "m2")), "the two come again: " + again);
            consumer.close();
        }
    }

    private static void deadLetters(String topic) throws Exception {
        Consumer<byte[]> dead = client.newConsumer().topic(topic + "-s-DLQ").subscriptionName("d").subscribe();
        Consumer<byte[]> consumer = consumer(topic).subscriptionType(SubscriptionType.Shared)
                .negativeAckRedeliveryDelay(50, MILLISECONDS)
                .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2).build()).subscribe();
        producer(topic).create().newMessage().key("k").property("p", "1").value("m0".getBytes()).send();
        for (int round = 0; round < 3; round++) {
            consumer.negativeAcknowledge(next(consumer));
        }
        Message<byte[]> buried = next(dead);
        same("m0", text(buried));
        nothingComes(consumer);
        until("it is acknowledged", () -> rest("GET", path(topic) + "/stats", null).contains("\"msgBacklog\":0"));
    }

    private static void cumulativeAck(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscribe();
        Producer<byte[]> producer = producer(topic).batchingMaxPublishDelay(1, HOURS).create();
        for (int at = 0; at < 21; at += 7) {
            send(producer, at, at + 7);
        }
        Message<byte[]> last = null;
        for (int count = 0; count < 14; count++) {
            last = next(consumer);
        }
        consumer.acknowledgeCumulative(last);
        consumer.close();
        consumer = consumer(topic).subscribe();
        same("m14", text(next(consumer)));
    }

    private static void zeroQueue(String topic) throws Exception {
        Consumer<byte[]> consumer =
                consumer(topic).subscriptionType(SubscriptionType.Shared).receiverQueueSize(0).subscribe();
        Consumer<byte[]> other = consumer(topic).subscriptionType(SubscriptionType.Shared).subscribe();
        other.close();
        send(producer(topic).enableBatching(false).create(), 0, 3);
        same("m0", text(consumer.receive()));
        same("m1", text(consumer.receiveAsync().get(10, SECONDS)));
    }

    private static void listener(String topic) throws Exception {
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        consumer(topic).messageListener((consumer, message) -> {
            got.add(text(message));
            consumer.acknowledgeAsync(message);
        }).subscribe();
        send(producer(topic).create(), 0, 3);
        for (int at = 0; at < 3; at++) {
            same("m" + at, got.poll(10, SECONDS));
        }
    }

    private static void delayed(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscriptionType(SubscriptionType.Shared).subscribe();
        Producer<byte[]> producer = producer(topic).create();
        long began = System.currentTimeMillis();
        producer.newMessage().value("after".getBytes()).deliverAfter(1500, MILLISECONDS).sendAsync();
        producer.newMessage().value("at".getBytes()).deliverAt(began + 800).sendAsync();
        producer.newMessage().value("now".getBytes()).send();
        same(Arrays.asList("now", "at", "after"), texts(consumer, 3));
        holds(System.currentTimeMillis() - began >= 1400, "not too early");
    }

    private static void severalTopics(String topic) throws Exception {
        rest("PUT", path(topic) + "-2/partitions", "2");
        Consumer<byte[]> consumer = client.newConsumer().topics(Arrays.asList(topic + "-1", topic + "-2"))
                .subscriptionName("s").subscribe();
        TreeSet<String> got = new TreeSet<>();
        for (String each : Arrays.asList("-1", "-2")) {
            Producer<byte[]> producer = producer(topic + each).create();
            for (int at = 0; at < 4; at++) {
                producer.newMessage().value((each + at).getBytes()).key("k" + at).send();
                Message<byte[]> message = next(consumer);
                holds(message.getTopicName().startsWith(topic + each), message.getTopicName());
                got.add(text(message));
                consumer.acknowledge(message);
            }
        }
        same(8, got.size());
        consumer.unsubscribe();
        same("[]", rest("GET", path(topic) + "-1/subscriptions", null));
    }

    private static void pattern(String topic) throws Exception {
        producer(topic + "-1").create();
        Consumer<byte[]> consumer = client.newConsumer().topicsPattern(Pattern.compile(topic + "-.*"))
                .subscriptionName("s").patternAutoDiscoveryPeriod(1)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
        client.newConsumer().topicsPattern(Pattern.compile(topic.replace("persistent:", "non-persistent:") + "-.*"))
                .subscriptionName("s").subscriptionTopicsMode(RegexSubscriptionMode.NonPersistentOnly).subscribe();
        producer(topic + "-1").create().send("m0".getBytes());
        same("m0", text(next(consumer)));
    }

    private static void unsubscribe(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscriptionType(SubscriptionType.Shared).subscribe();
        Consumer<byte[]> other = consumer(topic).subscriptionType(SubscriptionType.Shared).subscribe();
        same("BrokerMetadataException", failure(() -> {
            consumer.unsubscribe();
            return null;
        }));
        other.close();
        consumer.unsubscribe();
        same("[]", rest("GET", path(topic) + "/subscriptions", null));
    }

    /** With a queue of one, clients before 2.8 then grant zero permits, for which Apache closes the connection too. */
    private static void pause(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).receiverQueueSize(MINOR < 8 ? 2 : 1).subscribe();
        Producer<byte[]> producer = producer(topic).enableBatching(false).create();
        consumer.pause();
        send(producer, 0, 5);
        consumer.resume();
        same(numbered(0, 5), texts(consumer, 5));
    }
}
