import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerCryptoFailureAction;
import org.apache.pulsar.client.api.CryptoKeyReader;
import org.apache.pulsar.client.api.EncryptionKeyInfo;
import org.apache.pulsar.client.api.HashingScheme;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageRouter;
import org.apache.pulsar.client.api.MessageRoutingMode;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TopicMetadata;

/** Checks of producing, for any client since 2.4. */
public class Sending extends Checks {
    public static void list() {
        for (CompressionType type : CompressionType.values()) {
            add("batched_" + type, topic -> compressed(topic, type, true));
            add("unbatched_" + type, topic -> compressed(topic, type, false));
        }
        add("fields", Sending::fields);
        add("key_batches", Sending::keyBatches);
        add("deduplication", Sending::deduplication);
        add("producer_names", Sending::producerNames);
        add("queue_full", Sending::queueFull);
        add("too_large", Sending::tooLarge);
        add("encryption", Sending::encryption);
        add("partition_routing", Sending::partitionRouting);
        add("custom_router", Sending::customRouter);
        add("more_partitions", Sending::morePartitions);
        add("non_persistent", topic -> nonPersistent(topic.replace("persistent:", "non-persistent:")));
        add("http_lookup", Sending::httpLookup);
        add("bad_names", Sending::badNames);
        add("no_creation", Sending::noCreation);
        add("stats", Sending::stats);
        add("terminated", Sending::terminated);
    }

    private static void compressed(String topic, CompressionType type, boolean batched) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscribe();
        Producer<byte[]> producer = producer(topic).enableBatching(batched).compressionType(type).create();
        send(producer, 0, 50);
        same(numbered(0, 50), texts(consumer, 50));
        MessageId sync = producer.send(new byte[100_000]);
        Message<byte[]> got = next(consumer);
        same(100_000, got.getData().length);
        same(sync, got.getMessageId());
    }

    private static void fields(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscribe();
        for (boolean batched : new boolean[] {true, false}) {
            Producer<byte[]> producer = producer(topic).enableBatching(batched).producerName("named-" + batched)
                    .property("of", "producer").initialSequenceId(40).create();
            producer.newMessage().key("k").value("a".getBytes()).property("p", "1").property("", "").eventTime(77)
                    .orderingKey("o".getBytes()).replicationClusters(Arrays.asList("standalone")).send();
            producer.newMessage().keyBytes(new byte[] {0, (byte) 255}).value(new byte[0]).sequenceId(100).send();
            producer.newMessage().value("last".getBytes()).disableReplication().send();
            Message<byte[]> first = next(consumer);
            same("k", first.getKey());
            same("o", new String(first.getOrderingKey()));
            same("1", first.getProperty("p"));
            same(2, first.getProperties().size());
            same(77L, first.getEventTime());
            same("named-" + batched, first.getProducerName());
            same(41L, first.getSequenceId());
            same(topic, first.getTopicName());
            holds(Math.abs(first.getPublishTime() - System.currentTimeMillis()) < 60_000, "published now");
            Message<byte[]> second = next(consumer);
            same(Base64.getEncoder().encodeToString(new byte[] {0, (byte) 255}), second.getKey());
            holds(second.hasBase64EncodedKey(), "the key is bytes");
            same(100L, second.getSequenceId());
            same(0, second.getData().length);
            same(100L, producer.getLastSequenceId());
            Message<byte[]> third = next(consumer);
            same(42L, third.getSequenceId());
            consumer.acknowledgeCumulative(third);
        }
    }

    private static void keyBatches(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscriptionType(SubscriptionType.Key_Shared).subscribe();
        Producer<byte[]> producer = producer(topic).batcherBuilder(BatcherBuilder.KEY_BASED)
                .batchingMaxPublishDelay(50, MILLISECONDS).create();
        for (int at = 0; at < 40; at++) {
            producer.newMessage().key("k" + at % 4).value(("m" + at).getBytes()).sendAsync();
        }
        producer.flush();
        int[] last = {-4, -3, -2, -1};
        for (int count = 0; count < 40; count++) {
            Message<byte[]> message = next(consumer);
            int at = Integer.parseInt(text(message).substring(1));
            same("k" + at % 4, message.getKey());
            same(at, last[at % 4] + 4);
            last[at % 4] = at;
            consumer.acknowledge(message);
        }
    }

    private static void deduplication(String topic) throws Exception {
        topic = topic.replace("public/default", "public/once");
        for (boolean batched : new boolean[] {false, true}) {
            Consumer<byte[]> consumer = consumer(topic + batched).subscribe();
            for (int round = 0; round < 2; round++) {
                Producer<byte[]> producer = producer(topic + batched).producerName("once").sendTimeout(0, SECONDS)
                        .enableBatching(batched).create();
                same(round == 0 ? -1L : 5L, producer.getLastSequenceId());
                for (int at = 0; at < 6 + round; at++) {
                    MessageId id = producer.newMessage().sequenceId(at).value(("m" + at).getBytes()).send();
                    if (round == 1 && at < 6) {
                        holds(id.toString().startsWith("-1:-1"), "a duplicate has no id: " + id);
                    }
                }
                producer.close();
            }
            same(numbered(0, 7), texts(consumer, 7));
            nothingComes(consumer);
        }
    }

    private static void producerNames(String topic) throws Exception {
        Producer<byte[]> first = producer(topic).create();
        holds(first.getProducerName().startsWith("standalone-"), first.getProducerName());
        PulsarClient other = PulsarClient.builder().serviceUrl(url).build();
        same("ProducerBusyException",
                failure(() -> other.newProducer().topic(topic).producerName(first.getProducerName()).create()));
        first.close();
        other.newProducer().topic(topic).producerName(first.getProducerName()).create();
        other.close();
    }

    private static void queueFull(String topic) throws Exception {
        Producer<byte[]> producer = producer(topic).maxPendingMessages(3).blockIfQueueFull(false)
                .batchingMaxPublishDelay(10, SECONDS).create();
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        for (int at = 0; at < 4; at++) {
            sent.add(producer.sendAsync("x".getBytes()));
        }
        same("ProducerQueueIsFullError", failure(() -> sent.get(3).get()));
        producer.flush();
        sent.get(2).get(10, SECONDS);
    }

    private static void tooLarge(String topic) throws Exception {
        for (boolean batched : new boolean[] {true, false}) {
            Producer<byte[]> producer = producer(topic).enableBatching(batched).create();
            same("InvalidMessageException", failure(() -> producer.send(new byte[5 * 1024 * 1024 + 1])));
            producer.send(new byte[5 * 1024 * 1024 - 1000]);
            holds(producer.isConnected(), "goes on");
        }
    }

    private static void encryption(String topic) throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        KeyPair pair = generator.generateKeyPair();
        CryptoKeyReader reader = new CryptoKeyReader() {
            @Override
            public EncryptionKeyInfo getPublicKey(String name, Map<String, String> metadata) {
                return new EncryptionKeyInfo(pem("PUBLIC", pair.getPublic().getEncoded()), metadata);
            }

            @Override
            public EncryptionKeyInfo getPrivateKey(String name, Map<String, String> metadata) {
                byte[] key = pair.getPrivate().getEncoded();
                // The key is PKCS 1 within PKCS 8, the only form that clients before 2.11 read.
                return new EncryptionKeyInfo(pem("RSA PRIVATE", Arrays.copyOfRange(key, 26, key.length)), metadata);
            }
        };
        Consumer<byte[]> consumer = consumer(topic).cryptoKeyReader(reader).subscribe();
        Consumer<byte[]> blind = consumer(topic).subscriptionName("blind")
                .cryptoFailureAction(ConsumerCryptoFailureAction.CONSUME).subscribe();
        for (boolean batched : new boolean[] {true, false}) {
            Producer<byte[]> producer = producer(topic).cryptoKeyReader(reader).addEncryptionKey("mine")
                    .compressionType(CompressionType.LZ4).enableBatching(batched).create();
            producer.send("secret".getBytes());
            same("secret", text(next(consumer)));
            Message<byte[]> unread = next(blind);
            holds(unread.getEncryptionCtx().get().getKeys().containsKey("mine"), "the key's name is told");
            holds(!text(unread).contains("secret"), "the message is not readable");
        }
    }

    private static byte[] pem(String kind, byte[] key) {
        String text = Base64.getMimeEncoder().encodeToString(key);
        return String.format("-----BEGIN %s KEY-----%n%s%n-----END %s KEY-----%n", kind, text, kind).getBytes();
    }

    private static void partitionRouting(String topic) throws Exception {
        rest("PUT", path(topic) + "/partitions", "4");
        same(4, client.getPartitionsForTopic(topic).get().size());
        Consumer<byte[]> consumer = consumer(topic).subscribe();
        for (HashingScheme scheme : HashingScheme.values()) {
            Producer<byte[]> producer = producer(topic).hashingScheme(scheme).enableBatching(false).create();
            for (int at = 0; at < 20; at++) {
                MessageId id = producer.newMessage().key("key-" + at).value("v".getBytes()).send();
                Message<byte[]> got = next(consumer);
                same(id, inner(got));
                int hash = scheme == HashingScheme.JavaStringHash
                        ? ("key-" + at).hashCode() & Integer.MAX_VALUE : murmur(("key-" + at).getBytes());
                same(topic + "-partition-" + hash % 4, got.getTopicName());
                consumer.acknowledge(got);
            }
        }
        Producer<byte[]> round = producer(topic).messageRoutingMode(MessageRoutingMode.RoundRobinPartition)
                .enableBatching(false).create();
        TreeSet<String> used = new TreeSet<>();
        for (int at = 0; at < 8; at++) {
            round.send("v".getBytes());
            used.add(next(consumer).getTopicName());
        }
        same(4, used.size());
        Producer<byte[]> single = producer(topic).messageRoutingMode(MessageRoutingMode.SinglePartition).create();
        used.clear();
        for (int at = 0; at < 8; at++) {
            single.send("v".getBytes());
            used.add(next(consumer).getTopicName());
        }
        same(1, used.size());
    }

    /** Returns the id without the topic, with which a consumer of several topics wraps it. */
    static MessageId inner(Message<?> message) throws Exception {
        MessageId id = message.getMessageId();
        try {
            return (MessageId) id.getClass().getMethod("getInnerMessageId").invoke(id);
        } catch (NoSuchMethodException error) {
            return id;
        }
    }

    private static int murmur(byte[] data) {
        int hash = 0;
        int at = 0;
        for (; at + 4 <= data.length; at += 4) {
            int word = data[at] & 255 | (data[at + 1] & 255) << 8 | (data[at + 2] & 255) << 16 | data[at + 3] << 24;
            hash ^= Integer.rotateLeft(word * 0xcc9e2d51, 15) * 0x1b873593;
            hash = Integer.rotateLeft(hash, 13) * 5 + 0xe6546b64;
        }
        int tail = 0;
        for (int left = data.length - 1; left >= at; left--) {
            tail = tail << 8 | data[left] & 255;
        }
        hash ^= Integer.rotateLeft(tail * 0xcc9e2d51, 15) * 0x1b873593;
        hash ^= data.length;
        hash = (hash ^ hash >>> 16) * 0x85ebca6b;
        hash = (hash ^ hash >>> 13) * 0xc2b2ae35;
        return (hash ^ hash >>> 16) & Integer.MAX_VALUE;
    }

    private static void customRouter(String topic) throws Exception {
        rest("PUT", path(topic) + "/partitions", "3");
        Consumer<byte[]> consumer = consumer(topic).subscribe();
        Producer<byte[]> producer = producer(topic).messageRoutingMode(MessageRoutingMode.CustomPartition)
                .messageRouter(new MessageRouter() {
                    @Override
                    public int choosePartition(Message<?> message, TopicMetadata metadata) {
                        return metadata.numPartitions() - 1;
                    }
                }).create();
        producer.send("v".getBytes());
        same(topic + "-partition-2", next(consumer).getTopicName());
        client.newConsumer().topic(topic + "-partition-0").subscriptionName("one").subscribe().close();
    }

    private static void morePartitions(String topic) throws Exception {
        rest("PUT", path(topic) + "/partitions", "1");
        PulsarClient own = PulsarClient.builder().serviceUrl(url).build();
        Consumer<byte[]> consumer = own.newConsumer().topic(topic).subscriptionName("s").subscribe();
        rest("POST", path(topic) + "/partitions", "3");
        Producer<byte[]> producer = producer(topic).messageRoutingMode(MessageRoutingMode.RoundRobinPartition)
                .enableBatching(false).create();
        send(producer, 0, 9);
        same(3, own.getPartitionsForTopic(topic).get().size());
        consumer.close();
        consumer = own.newConsumer().topic(topic).subscriptionName("s").subscribe();
        same(new TreeSet<>(numbered(0, 9)), new TreeSet<>(texts(consumer, 9)));
        own.close();
    }

    private static void nonPersistent(String topic) throws Exception {
        Consumer<byte[]> consumer = consumer(topic).subscriptionType(SubscriptionType.Shared).subscribe();
        Producer<byte[]> producer = producer(topic).create();
        send(producer, 0, 20);
        List<String> got = texts(consumer, 20);
        Collections.sort(got);
        List<String> wanted = numbered(0, 20);
        Collections.sort(wanted);
        same(wanted, got);
    }

    private static void httpLookup(String topic) throws Exception {
        PulsarClient other = PulsarClient.builder().serviceUrl(web).build();
        rest("PUT", path(topic) + "/partitions", "2");
        Consumer<byte[]> consumer = other.newConsumer().topic(topic).subscriptionName("s").subscribe();
        other.newProducer().topic(topic).create().send("m0".getBytes());
        same("m0", text(next(consumer)));
        same(2, other.getPartitionsForTopic(topic).get().size());
        other.close();
    }

    private static void badNames(String topic) throws Exception {
        same("InvalidTopicNameException", failure(() -> producer("bad://public/default/x").create()));
        same("InvalidTopicNameException", failure(() -> producer("persistent://public/x").create()));
        String missing = failure(() -> producer("persistent://no/such/x").create());
        holds(Arrays.asList("TopicDoesNotExistException", "BrokerMetadataException", "NotFoundException",
                "LookupException").contains(missing), "a missing namespace: " + missing);
    }

    private static void noCreation(String topic) throws Exception {
        String closed = topic.replace("public/default", "public/closed");
        same("TopicDoesNotExistException", failure(() -> producer(closed).create()));
        same("TopicDoesNotExistException", failure(() -> consumer(closed).subscribe()));
        rest("PUT", path(closed), null);
        producer(closed).create().send("m0".getBytes());
        same("m0", text(next(consumer(closed).subscribe())));
    }

    private static void stats(String topic) throws Exception {
        PulsarClient other = PulsarClient.builder().serviceUrl(url).statsInterval(1, SECONDS).build();
        Producer<byte[]> producer = other.newProducer().topic(topic).create();
        Consumer<byte[]> consumer = other.newConsumer().topic(topic).subscriptionName("s").subscribe();
        send(producer, 0, 5);
        texts(consumer, 5);
        until("both count", () -> producer.getStats().getTotalMsgsSent() == 5
                && consumer.getStats().getTotalMsgsReceived() == 5);
        other.close();
    }

    private static void terminated(String topic) throws Exception {
        Producer<byte[]> producer = producer(topic).create();
        Consumer<byte[]> consumer = consumer(topic).subscribe();
        producer.send("m0".getBytes());
        rest("POST", path(topic) + "/terminate", null);
        same("TopicTerminatedException", failure(() -> producer.send("m1".getBytes())));
        same("TopicTerminatedException", failure(() -> producer(topic).create()));
        consumer.acknowledge(next(consumer));
        until("the end is told", consumer::hasReachedEndOfTopic);
    }
}
