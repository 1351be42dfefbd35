import static org.apache.pulsar.client.api.SubscriptionInitialPosition.Earliest;

import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.api.schema.GenericSchema;
import org.apache.pulsar.client.api.schema.SchemaDefinition;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;

/** Uses schemas as only the Java client can. Prints a line "name=result" for each check; `compacted` reads a topic. */
public class Schemas {
    public static class User {
        public String name;
        public int age;
    }

    public static class Other {
        public int required;
    }

    private static final String NEXT = "{\"type\":\"record\",\"name\":\"User\",\"fields\":["
            + "{\"name\":\"age\",\"type\":\"int\"},{\"name\":\"name\",\"type\":[\"null\",\"string\"],\"default\":null},"
            + "{\"name\":\"city\",\"type\":[\"null\",\"string\"],\"default\":null}]}";

    private static PulsarClient client;
    private static String prefix;

    public static void main(String[] args) {
        int code = 0;
        try {
            prefix = args[1];
            client = PulsarClient.builder().serviceUrl(args[0]).operationTimeout(20, TimeUnit.SECONDS).build();
            if (args.length > 2) {
                readCompacted();
            } else {
                generic();
                pairs();
                protobuf();
                primitives();
            }
            client.close();
        } catch (Throwable error) {
            error.printStackTrace();
            code = 1;
        }
        System.exit(code);
    }

    private static void say(String name, Object result) {
        System.out.println(name + "=" + result);
    }

    private static <T> T value(Consumer<T> consumer) throws PulsarClientException {
        return consumer.receive(10, TimeUnit.SECONDS).getValue();
    }

    private static String failure(Callable<?> call) throws Exception {
        try {
            call.call();
            return "nothing";
        } catch (PulsarClientException error) {
            return error.getClass().getSimpleName();
        }
    }

    /** Reads messages of several schema versions on one topic without knowing any of the schemas. */
    private static void generic() throws Exception {
        String topic = prefix + "-avro";
        User user = new User();
        user.name = "ada";
        user.age = 36;
        client.newProducer(Schema.AVRO(User.class)).topic(topic).create().send(user);
        GenericSchema<GenericRecord> next =
                Schema.generic(Schema.AVRO(SchemaDefinition.builder().withJsonDef(NEXT).build()).getSchemaInfo());
        GenericRecord record = next.newRecordBuilder().set("name", "bob").set("age", 40).set("city", "paris").build();
        client.newProducer(next).topic(topic).create().send(record);
        Consumer<GenericRecord> consumer = client.newConsumer(Schema.AUTO_CONSUME())
                .topic(topic).subscriptionName("s").subscriptionInitialPosition(Earliest).subscribe();
        for (int version = 0; version < 2; version++) {
            Message<GenericRecord> message = consumer.receive(10, TimeUnit.SECONDS);
            GenericRecord got = message.getValue();
            say("auto_consume_" + version, message.getSchemaVersion()[7] + " " + got.getField("name") + " "
                    + got.getFields().size());
        }
        client.newProducer(Schema.AUTO_PRODUCE_BYTES()).topic(topic).create().send(next.encode(record));
        say("auto_produce", value(consumer).getField("city"));
        say("incompatible", failure(() -> client.newProducer(Schema.AVRO(Other.class)).topic(topic).create()));
        Producer<byte[]> plain = client.newProducer().topic(prefix + "-multi").create();
        plain.newMessage(Schema.STRING).value("text").send();
        say("another_schema", failure(() -> plain.newMessage(Schema.INT32).value(5).send()));
    }

    private static void pairs() throws Exception {
        User user = new User();
        user.name = "ada";
        for (KeyValueEncodingType encoding : KeyValueEncodingType.values()) {
            String topic = prefix + "-pair-" + encoding;
            Schema<KeyValue<User, User>> schema =
                    Schema.KeyValue(Schema.JSON(User.class), Schema.AVRO(User.class), encoding);
            Consumer<KeyValue<User, User>> consumer =
                    client.newConsumer(schema).topic(topic).subscriptionName("s").subscribe();
            Consumer<GenericRecord> any = client.newConsumer(Schema.AUTO_CONSUME())
                    .topic(topic).subscriptionName("any").subscribe();
            client.newProducer(schema).topic(topic).create().send(new KeyValue<>(user, user));
            KeyValue<User, User> got = value(consumer);
            say("pair_" + encoding, got.getKey().name + " " + got.getValue().name + " " + value(any).getSchemaType());
            say("pair_" + encoding + "_other_key", failure(() -> client
                    .newProducer(Schema.KeyValue(Schema.JSON(Other.class), Schema.AVRO(User.class), encoding))
                    .topic(topic).create()));
        }
    }

    private static void protobuf() throws Exception {
        Timestamp seven = Timestamp.newBuilder().setSeconds(7).build();
        Map<String, Schema<Timestamp>> schemas = new LinkedHashMap<>();
        schemas.put("protobuf", Schema.PROTOBUF(Timestamp.class));
        schemas.put("protobuf_native", Schema.PROTOBUF_NATIVE(Timestamp.class));
        for (Map.Entry<String, Schema<Timestamp>> each : schemas.entrySet()) {
            String topic = prefix + "-" + each.getKey();
            Consumer<Timestamp> consumer =
                    client.newConsumer(each.getValue()).topic(topic).subscriptionName("s").subscribe();
            client.newProducer(each.getValue()).topic(topic).create().send(seven);
            say(each.getKey(), value(consumer).getSeconds());
        }
        say("protobuf_native_other_root", failure(() -> client
                .newProducer(Schema.PROTOBUF_NATIVE(Duration.class)).topic(prefix + "-protobuf_native").create()));
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void primitives() throws Exception {
        Object[][] all = {
            {Schema.STRING, "text"}, {Schema.BOOL, true}, {Schema.INT8, (byte) 1}, {Schema.INT16, (short) 1},
            {Schema.INT32, 1}, {Schema.INT64, 1L}, {Schema.FLOAT, 1f}, {Schema.DOUBLE, 1d}, {Schema.DATE, new Date(1)},
            {Schema.TIME, new java.sql.Time(1)}, {Schema.TIMESTAMP, new java.sql.Timestamp(1)},
            {Schema.INSTANT, Instant.ofEpochSecond(1)}, {Schema.LOCAL_DATE, LocalDate.ofEpochDay(1)},
            {Schema.LOCAL_TIME, LocalTime.of(1, 2)}, {Schema.LOCAL_DATE_TIME, LocalDateTime.of(1, 2, 3, 4, 5)},
        };
        for (Object[] each : all) {
            Schema schema = (Schema) each[0];
            String name = schema.getSchemaInfo().getType().name();
            String topic = prefix + "-" + name;
            Consumer consumer = client.newConsumer(schema).topic(topic).subscriptionName("s").subscribe();
            client.newProducer(schema).topic(topic).create().send(each[1]);
            say("primitive_" + name, each[1].equals(value(consumer)));
        }
    }

    private static void readCompacted() throws Exception {
        Reader<byte[]> reader =
                client.newReader().topic(prefix).startMessageId(MessageId.earliest).readCompacted(true).create();
        StringBuilder found = new StringBuilder();
        while (reader.hasMessageAvailable()) {
            Message<byte[]> message = reader.readNext(10, TimeUnit.SECONDS);
            found.append(message.getKey()).append(':').append(new String(message.getValue())).append(' ');
        }
        say("compacted", found);
    }
}
