import static java.util.concurrent.TimeUnit.HOURS;
import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.ReaderBuilder;

/** Checks of readers, seeks and last message ids, for any client since 2.4. */
public class Reading extends Checks {
    public static void list() {
        add("seek", Reading::seek);
        add("seek_partitions", Reading::seekPartitions);
        add("reader", Reading::reader);
        add("reader_of_a_batch", Reading::readerOfBatch);
        add("last_message_id", Reading::lastMessageId);
        add("compacted", Reading::compacted);
    }

    private static void seek(String topic) throws Exception {
        for (boolean batched : new boolean[] {false, true}) {
            String each = topic + batched;
            Consumer<byte[]> consumer = consumer(each).subscribe();
            Producer<byte[]> producer = producer(each).enableBatching(batched).create();
            send(producer, 0, 4);
            Thread.sleep(20);
            long between = System.currentTimeMillis();
            Thread.sleep(20);
            send(producer, 4, 8);
            List<MessageId> ids = new ArrayList<>();
            for (int at = 0; at < 8; at++) {
                ids.add(next(consumer).getMessageId());
            }
            consumer.acknowledgeCumulative(ids.get(7));
            consumer.seek(ids.get(2));
            Message<byte[]> first = next(consumer);
            // Clients since 2.7 begin behind the message that they sought.
            same(MINOR >= 7 ? "m3" : "m2", text(first));
            consumer.seek(between);
            same("m4", text(next(consumer)));
            consumer.seek(MessageId.earliest);
            same(numbered(0, 8), texts(consumer, 8));
            consumer.seek(MessageId.latest);
            nothingComes(consumer);
            consumer.seek(1L);
            same(numbered(0, 8), texts(consumer, 8));
            send(producer, 8, 9);
            same("m8", text(next(consumer)));
        }
    }

    private static void seekPartitions(String topic) throws Exception {
        rest("PUT", path(topic) + "/partitions", "2");
        Consumer<byte[]> consumer = consumer(topic).subscribe();
        send(producer(topic).enableBatching(false).create(), 0, 6);
        texts(consumer, 6);
        consumer.seek(0L);
        same(new TreeSet<>(numbered(0, 6)), new TreeSet<>(texts(consumer, 6)));
    }

    private static void reader(String topic) throws Exception {
        Producer<byte[]> producer = producer(topic).enableBatching(false).create();
        List<MessageId> ids = new ArrayList<>();
        for (int at = 0; at < 5; at++) {
            ids.add(producer.send(("m" + at).getBytes()));
        }
        same(numbered(0, 5), read(MessageId.earliest, topic, false));
        same(numbered(3, 5), read(ids.get(2), topic, false));
        same(numbered(2, 5), read(ids.get(2), topic, true));
        same(numbered(5, 5), read(ids.get(4), topic, false));
        same(MINOR < 8 ? 0 : 1, MINOR < 8 ? 0 : read(MessageId.latest, topic, true).size());
        Reader<byte[]> latest = client.newReader().topic(topic).startMessageId(MessageId.latest).create();
        holds(!latest.hasMessageAvailable(), "none at the end");
        producer.send("m5".getBytes());
        until("one came", latest::hasMessageAvailable);
        same("m5", text(latest.readNext(10, SECONDS)));
        latest.seek(ids.get(1));
        holds(latest.hasMessageAvailable(), "after the seek");
        Reader<byte[]> stored = client.newReader().topic(topic)
                .startMessageId(MessageId.fromByteArray(ids.get(3).toByteArray())).create();
        same("m4", text(stored.readNext(10, SECONDS)));
        for (Reader<byte[]> each : Arrays.asList(latest, stored)) {
            each.close();
        }
        until("readers' subscriptions go", () -> rest("GET", path(topic) + "/subscriptions", null).equals("[]"));
    }

    private static List<String> read(MessageId from, String topic, boolean inclusive) throws Exception {
        List<String> got = new ArrayList<>();
        ReaderBuilder<byte[]> builder = client.newReader().topic(topic).startMessageId(from);
        try (Reader<byte[]> reader = (inclusive ? builder.startMessageIdInclusive() : builder).create()) {
            while (reader.hasMessageAvailable()) {
                got.add(text(reader.readNext(10, SECONDS)));
            }
        }
        return got;
    }

    private static void readerOfBatch(String topic) throws Exception {
        Producer<byte[]> producer = producer(topic).batchingMaxPublishDelay(1, HOURS).create();
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        for (int at = 0; at < 5; at++) {
            sent.add(producer.sendAsync(("m" + at).getBytes()));
        }
        producer.flush();
        for (int at = 0; at < 5 && MINOR >= 7; at++) {
            same(numbered(at + 1, 5), read(sent.get(at).get(), topic, false));
            same(numbered(at, 5), read(sent.get(at).get(), topic, true));
        }
        same(MINOR < 8 ? 0 : 1, MINOR < 8 ? 0 : read(MessageId.latest, topic, true).size());
    }

    private static void lastMessageId(String topic) throws Exception {
        for (boolean batched : new boolean[] {false, true}) {
            Consumer<byte[]> consumer = consumer(topic + batched).subscribe();
            holds(consumer.getLastMessageId().toString().startsWith("-1:-1"), "none: " + consumer.getLastMessageId());
            Producer<byte[]> producer = producer(topic + batched).enableBatching(batched).create();
            send(producer, 0, 3);
            MessageId last = null;
            for (int at = 0; at < 3; at++) {
                last = next(consumer).getMessageId();
            }
            same(last, consumer.getLastMessageId());
        }
    }

    private static void compacted(String topic) throws Exception {
        Producer<byte[]> producer = producer(topic).create();
        for (int at = 0; at < 6; at++) {
            producer.newMessage().key("k" + at % 2).value(("m" + at).getBytes()).sendAsync();
        }
        producer.newMessage().key("k0").value(new byte[0]).send();
        rest("PUT", path(topic) + "/compaction", null);
        until("compacted", () -> rest("GET", path(topic) + "/compaction", null).contains("SUCCESS"));
        try (Reader<byte[]> reader = client.newReader().topic(topic).readCompacted(true)
                .startMessageId(MessageId.earliest).create()) {
            holds(reader.hasMessageAvailable(), "something is left");
            same("m5", text(reader.readNext(10, SECONDS)));
            holds(!reader.hasMessageAvailable(), "nothing else is");
        }
    }
}
