import static java.util.concurrent.TimeUnit.HOURS;
import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.MINUTES;
import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.BatchReceivePolicy;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageRoutingMode;
import org.apache.pulsar.client.api.Messages;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionMode;
import org.apache.pulsar.client.api.SubscriptionType;

/** Checks of what clients have had since 2.8. */
public class Later extends Checks {
    public static void list() {
        add("batch_receive", Later::batchReceive);
        add("chunks", Later::chunks);
        add("access_modes", Later::accessModes);
        add("sticky_keys", Later::stickyKeys);
        add("retry_letters", Later::retryLetters);
        add("answered_acks", Later::answeredAcks);
        add("batch_index_acks", Later::batchIndexAcks);
        add("pattern_of_seconds", Later::patternOfSeconds);
        add("partitions_of_seconds", Later::partitionsOfSeconds);
        add("rollback", Later::rollback);
        add("reader_of_partitions", Later::readerOfPartitions);
        add("seek_by_partition", Later::seekByPartition);
        add("non_durable", Later::nonDurable);
        add("transactions", Later::transactions);
        add("null_value", Later::nullValue);
        add("memory_limit", Later::memoryLimit);
    }

    private static void batchReceive(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic)
                .batchReceivePolicy(BatchReceivePolicy.builder().maxNumMessages(10).timeout(5, SECONDS).build())
                .subscribe();
        send(producer(topic).create(), 0, 10);
        Messages<byte[]> messages = consumer.batchReceive();
        same(10, messages.size());
        consumer.acknowledge(messages);
        consumer.close();
        nothingComes(consumer(topic).subscribe());
    }

    private static void chunks(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).maxPendingChunkedMessage(5).subscribe();
        Producer<byte[]> producer = producer(topic).enableBatching(false).enableChunking(true).create();
        byte[] large = new byte[12_000_000];
        for (int at = 0; at < large.length; at++) {
            large[at] = (byte) (at * 31 >> 3);
        }
        MessageId id = producer.newMessage().key("k").value(large).send();
        producer.send("small".getBytes());
        Message<byte[]> got = next(consumer);
        holds(Arrays.equals(large, got.getData()), "the same bytes");
        same(id.toString(), got.getMessageId().toString());
        consumer.acknowledge(got);
        same("small", text(next(consumer)));
        consumer.seek(MessageId.earliest);
        holds(Arrays.equals(large, next(consumer).getData()), "again, after the seek");
    }

    private static void accessModes(String topic) throws Exception {
        Producer<byte[]> first = producer(topic).accessMode(ProducerAccessMode.Exclusive).create();
        same("ProducerFencedException",
                failure(() -> producer(topic).accessMode(ProducerAccessMode.Exclusive).create()));
        same("ProducerBusyException", failure(() -> producer(topic).create()));
        CompletableFuture<Producer<byte[]>> waiting =
                producer(topic).accessMode(ProducerAccessMode.WaitForExclusive).createAsync();
        Thread.sleep(200);
        holds(!waiting.isDone(), "it waits");
        first.close();
        waiting.get(10, SECONDS).send("m0".getBytes());
        waiting.get().close();
        producer(topic).create().send("m1".getBytes());
    }

    private static void stickyKeys(String topic) throws Exception {
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        for (Range range : Arrays.asList(Range.of(0, 30_000), Range.of(30_001, 65_535))) {
            consumers.add(consumer(topic).subscriptionType(SubscriptionType.Key_Shared)
                    .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(range)).subscribe());
        }
        holds(failure(() -> consumer(topic).subscriptionType(SubscriptionType.Key_Shared)
                .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(5, 6))).subscribe())
                .equals("ConsumerAssignException"), "overlapping ranges are refused");
        same("ConsumerBusyException", failure(() -> consumer(topic).subscriptionType(SubscriptionType.Key_Shared)
                .keySharedPolicy(KeySharedPolicy.autoSplitHashRange()).subscribe()));
        Producer<byte[]> producer = producer(topic).enableBatching(false).create();
        for (int at = 0; at < 20; at++) {
            producer.newMessage().key("key" + at).value(("" + at).getBytes()).send();
        }
        TreeSet<String> all = new TreeSet<>();
        for (Consumer<byte[]> each : consumers) {
            int count = 0;
            for (Message<byte[]> message; (message = each.receive(300, MILLISECONDS)) != null; count++) {
                all.add(message.getKey());
            }
            holds(count > 0 && count < 20, "each has a part: " + count);
        }
        same(20, all.size());
    }

    private static void retryLetters(String topic) throws Exception {
        Consumer<byte[]> dead = client.newConsumer().topic(topic + "-dead").subscriptionName("d").subscribe();
        Consumer<byte[]> consumer = consumer(topic).subscriptionType(SubscriptionType.Shared).enableRetry(true)
                .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2).deadLetterTopic(topic + "-dead")
                        .retryLetterTopic(topic + "-again").build()).subscribe();
        producer(topic).create().newMessage().key("k").property("p", "1").value("m0".getBytes()).send();
        for (int round = 0; round < 3; round++) {
            Message<byte[]> message = next(consumer);
            same("m0", text(message));
            same(round == 0 ? null : "" + round, message.getProperty("RECONSUMETIMES"));
            consumer.reconsumeLater(message, 100, MILLISECONDS);
        }
        Message<byte[]> buried = next(dead);
        same("1", buried.getProperty("p"));
        same(topic, buried.getProperty("REAL_TOPIC"));
    }

    private static void answeredAcks(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscriptionType(SubscriptionType.Shared).isAckReceiptEnabled(true)
                .acknowledgmentGroupTime(10, MILLISECONDS).subscribe();
        send(producer(topic).enableBatching(false).create(), 0, 4);
        List<CompletableFuture<Void>> done = new ArrayList<>();
        for (int at = 0; at < 4; at++) {
            done.add(consumer.acknowledgeAsync(next(consumer)));
        }
        for (CompletableFuture<Void> each : done) {
            each.get(10, SECONDS);
        }
        consumer.close();
        consumer = consumer(topic).isAckReceiptEnabled(true).subscribe();
        nothingComes(consumer);
        send(producer(topic).create(), 4, 6);
        texts(consumer, 1);
        consumer.acknowledgeCumulativeAsync(next(consumer)).get(10, SECONDS);
    }

    private static void batchIndexAcks(String topic) throws Exception {
        for (SubscriptionType type : Arrays.asList(SubscriptionType.Shared, SubscriptionType.Exclusive)) {
            Consumer<byte[]> consumer = consumer(topic + type).subscriptionType(type)
                    .enableBatchIndexAcknowledgment(true).subscribe();
            send(producer(topic + type).batchingMaxPublishDelay(1, HOURS).create(), 0, 5);
            for (int at = 0; at < 5; at++) {
                Message<byte[]> message = next(consumer);
                if (at == 1 || at == 3) {
                    consumer.acknowledge(message);
                }
            }
            consumer.close();
            consumer = consumer(topic + type).subscriptionType(type).enableBatchIndexAcknowledgment(true).subscribe();
            List<String> got = texts(consumer, 3);
            same(Arrays.asList("m0", "m2", "m4"), got);
            nothingComes(consumer);
            consumer.close();
        }
    }

    private static void patternOfSeconds(String topic) throws Exception {
        producer(topic + "-1").create().send("m0".getBytes());
        Consumer<byte[]> consumer = client.newConsumer().topicsPattern(Pattern.compile(topic + "-.*"))
                .subscriptionName("s").patternAutoDiscoveryPeriod(1, SECONDS)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
        same("m0", text(next(consumer)));
        producer(topic + "-2").create().send("m1".getBytes());
        same("m1", text(next(consumer)));
        rest("PUT", path(topic) + "-3/partitions", "2");
        roundRobin(topic + "-3").send("m2".getBytes());
        same("m2", text(next(consumer)));
    }

    private static void partitionsOfSeconds(String topic) throws Exception {
        rest("PUT", path(topic) + "/partitions", "1");
        Consumer<byte[]> consumer = consumer(topic).autoUpdatePartitionsInterval(1, SECONDS).subscribe();
        Producer<byte[]> producer = producer(topic).autoUpdatePartitionsInterval(1, SECONDS).enableBatching(false)
                .messageRoutingMode(MessageRoutingMode.RoundRobinPartition).create();
        rest("POST", path(topic) + "/partitions", "3");
        TreeSet<String> used = new TreeSet<>();
        until("all three are used", () -> {
            producer.send("m".getBytes());
            used.add(next(consumer).getTopicName());
            return used.size() == 3;
        });
    }

    private static Producer<byte[]> roundRobin(String topic) throws Exception {
        return producer(topic).enableBatching(false).messageRoutingMode(MessageRoutingMode.RoundRobinPartition)
                .create();
    }

    private static void rollback(String topic) throws Exception {
        send(producer(topic).create(), 0, 3);
        Reader<byte[]> back = client.newReader().topic(topic).startMessageFromRollbackDuration(1, HOURS).create();
        same("m0", text(back.readNext(10, SECONDS)));
        back.seek(System.currentTimeMillis() + 60_000);
        same(null, back.readNext(300, MILLISECONDS));
    }

    private static void readerOfPartitions(String topic) throws Exception {
        rest("PUT", path(topic) + "/partitions", "3");
        send(roundRobin(topic), 0, 9);
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.earliest).create()) {
            TreeSet<String> got = new TreeSet<>();
            while (reader.hasMessageAvailable()) {
                got.add(text(reader.readNext(10, SECONDS)));
            }
            same(new TreeSet<>(numbered(0, 9)), got);
        }
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.latest).create()) {
            holds(!reader.hasMessageAvailable(), "none at the end");
        }
    }

    private static void seekByPartition(String topic) throws Exception {
        rest("PUT", path(topic) + "/partitions", "2");
        Consumer<byte[]> consumer = consumer(topic).subscribe();
        send(roundRobin(topic), 0, 6);
        texts(consumer, 6);
        consumer.seek(name -> name.endsWith("0") ? MessageId.earliest : MessageId.latest);
        same(3, new TreeSet<>(texts(consumer, 3)).size());
        nothingComes(consumer);
    }

    private static void nonDurable(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscriptionMode(SubscriptionMode.NonDurable).subscribe();
        send(producer(topic).create(), 0, 3);
        same(numbered(0, 3), texts(consumer, 3));
        same("NotAllowedException",
                failure(() -> consumer(topic).subscriptionType(SubscriptionType.Shared).subscribe()));
        consumer.close();
        until("it goes", () -> rest("GET", path(topic) + "/subscriptions", null).equals("[]"));
    }

    private static void transactions(String topic) throws Exception {
        // Clients since 2.10 ask for a coordinator again and again; they ask Apache's broker so too.
        holds(!failure(() -> CompletableFuture.supplyAsync(Later::transaction).get(2, SECONDS)).equals("nothing"),
                "there are none");
        producer(topic).create().send("goes on".getBytes());
    }

    private static Object transaction() {
        try {
            return PulsarClient.builder().serviceUrl(url).enableTransaction(true).build().newTransaction()
                    .withTransactionTimeout(1, MINUTES).build().get();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static void nullValue(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscribe();
        for (boolean batched : new boolean[] {true, false}) {
            producer(topic).enableBatching(batched).create().newMessage().key("k").value(null).send();
            same(null, next(consumer).getValue());
        }
    }

    private static void memoryLimit(String topic) throws Exception {
        PulsarClient other = PulsarClient.builder().serviceUrl(url)
                .memoryLimit(100_000, org.apache.pulsar.client.api.SizeUnit.BYTES).build();
        Producer<byte[]> producer = other.newProducer().topic(topic).blockIfQueueFull(true).create();
        for (int at = 0; at < 50; at++) {
            producer.sendAsync(new byte[10_000]);
        }
        producer.flush();
        texts(consumer(topic).subscribe(), 50);
        other.close();
    }
}
