import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.api.schema.SchemaDefinition;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;

/** Checks of schemas of nested classes, whose names each version of Avro writes differently, for clients since 2.4. */
public class Pojos extends Checks {
    public enum Colour { RED, GREEN }

    public static class Inner {
        public long number;
        public Colour colour;
    }

    public static class Outer {
        public String name;
        public Inner inner;
        public List<Inner> several;
        public Map<String, Inner> named;
        public byte[] bytes;
        public Double ratio;
    }

    public static class First {
        public String name;
    }

    public static class Second {
        public String name;
        public Integer age;
    }

    public static class Third {
        public int required;
    }

    public static void list() {
        add("nested_avro", topic -> nested(topic, Schema.AVRO(Outer.class)));
        add("nested_json", topic -> nested(topic, Schema.JSON(Outer.class)));
        add("versions_avro", topic -> versions(topic, Schema.AVRO(First.class), Schema.AVRO(Second.class)));
        add("versions_json", topic -> versions(topic, Schema.JSON(First.class), Schema.JSON(Second.class)));
        add("incompatible_avro", topic -> incompatible(topic, Schema.AVRO(First.class), Schema.AVRO(Third.class)));
        add("incompatible_json", topic -> incompatible(topic, Schema.JSON(First.class), Schema.JSON(Third.class)));
        add("incompatible_kinds", topic -> incompatible(topic, Schema.AVRO(First.class), Schema.JSON(First.class)));
        add("not_null_avro", Pojos::notNull);
        add("strings", Pojos::strings);
        add("pairs", Pojos::pairs);
        add("auto_produce", Pojos::autoProduce);
    }

    private static <T> Consumer<T> consumer(String topic, Schema<T> schema, String name) throws Exception {
        return client.newConsumer(schema).topic(topic).subscriptionName(name)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }

    private static void nested(String topic, Schema<Outer> schema) throws Exception {
        Outer outer = new Outer();
        outer.name = "ada";
        outer.inner = new Inner();
        outer.inner.number = 7;
        outer.inner.colour = Colour.GREEN;
        outer.several = Arrays.asList(outer.inner);
        outer.named = new TreeMap<>();
        outer.named.put("n", outer.inner);
        outer.bytes = new byte[] {1, 2};
        Consumer<Outer> consumer = consumer(topic, schema, "s");
        Consumer<GenericRecord> any = consumer(topic, Schema.AUTO_CONSUME(), "any");
        client.newProducer(schema).topic(topic).create().send(outer);
        client.newProducer(schema).topic(topic).create().send(outer);
        for (int count = 0; count < 2; count++) {
            Outer got = next(consumer).getValue();
            same(Colour.GREEN, got.several.get(0).colour);
            same(7L, got.named.get("n").number);
            same(2, got.bytes.length);
            same(null, got.ratio);
            GenericRecord record = next(any).getValue();
            same("ada", record.getField("name"));
            same("7", ((GenericRecord) record.getField("inner")).getField("number").toString());
            same(6, record.getFields().size());
        }
    }

    private static void versions(String topic, Schema<First> old, Schema<Second> now) throws Exception {
        First first = new First();
        first.name = "ada";
        Second second = new Second();
        second.name = "bob";
        second.age = 40;
        Producer<First> early = client.newProducer(old).topic(topic).create();
        early.send(first);
        Producer<Second> late = client.newProducer(now).topic(topic).create();
        late.send(second);
        early.send(first);
        Consumer<First> reads = consumer(topic, old, "old");
        Consumer<Second> knows = consumer(topic, now, "now");
        Consumer<GenericRecord> any = consumer(topic, Schema.AUTO_CONSUME(), "any");
        int at = 0;
        for (String wanted : Arrays.asList("ada", "bob", "ada")) {
            same(wanted, next(reads).getValue().name);
            Second got = next(knows).getValue();
            same(wanted, got.name);
            same(wanted.equals("bob") ? 40 : null, got.age);
            Message<GenericRecord> message = next(any);
            same(wanted, message.getValue().getField("name"));
            same(at++ == 1 ? 1 : 0, (int) message.getSchemaVersion()[7]);
        }
    }

    private static void incompatible(String topic, Schema<?> first, Schema<?> other) throws Exception {
        client.newProducer(first).topic(topic).create();
        same("IncompatibleSchemaException", failure(() -> client.newProducer(other).topic(topic).create()));
        same("IncompatibleSchemaException", failure(() -> consumer(topic, other, "s")));
        client.newProducer().topic(topic).create().send("bytes".getBytes());
    }

    private static void notNull(String topic) throws Exception {
        Schema<First> schema = Schema.AVRO(SchemaDefinition.<First>builder().withPojo(First.class)
                .withAlwaysAllowNull(false).addProperty("owner", "me").build());
        Consumer<First> consumer = consumer(topic, schema, "s");
        First first = new First();
        first.name = "ada";
        client.newProducer(schema).topic(topic).create().newMessage().key("k").value(first).send();
        same("ada", next(consumer).getValue().name);
    }

    private static void strings(String topic) throws Exception {
        Consumer<String> consumer = consumer(topic, Schema.STRING, "s");
        client.newProducer(Schema.STRING).topic(topic).create().send("äöü");
        same("äöü", next(consumer).getValue());
        same("IncompatibleSchemaException", failure(() -> client.newProducer(Schema.INT32).topic(topic).create()));
        Consumer<GenericRecord> any = MINOR < 8 ? null : consumer(topic, Schema.AUTO_CONSUME(), "any");
        holds(any == null || next(any) != null, "it comes");
    }

    private static void pairs(String topic) throws Exception {
        for (KeyValueEncodingType encoding : KeyValueEncodingType.values()) {
            Schema<KeyValue<First, Inner>> schema =
                    Schema.KeyValue(Schema.AVRO(First.class), Schema.JSON(Inner.class), encoding);
            Consumer<KeyValue<First, Inner>> consumer = consumer(topic + encoding, schema, "s");
            First first = new First();
            first.name = "ada";
            Inner inner = new Inner();
            inner.number = 8;
            client.newProducer(schema).topic(topic + encoding).create().newMessage()
                    .value(new KeyValue<>(first, inner)).send();
            Message<KeyValue<First, Inner>> got = next(consumer);
            same("ada", got.getValue().getKey().name);
            same(8L, got.getValue().getValue().number);
            same(encoding == KeyValueEncodingType.SEPARATED, got.hasKey());
            same("IncompatibleSchemaException", failure(() -> client
                    .newProducer(Schema.KeyValue(Schema.AVRO(Third.class), Schema.JSON(Inner.class), encoding))
                    .topic(topic + encoding).create()));
        }
    }

    private static void autoProduce(String topic) throws Exception {
        Consumer<First> consumer = consumer(topic, Schema.AVRO(First.class), "s");
        First first = new First();
        first.name = "ada";
        byte[] bytes = Schema.AVRO(First.class).encode(first);
        Producer<byte[]> producer = client.newProducer(Schema.AUTO_PRODUCE_BYTES()).topic(topic).create();
        producer.send(bytes);
        same("ada", next(consumer).getValue().name);
        holds(!failure(() -> producer.send(new byte[] {9, 9, 9})).equals("nothing"), "bytes of no schema are refused");
        same(null, consumer.receive(1, SECONDS));
    }
}
