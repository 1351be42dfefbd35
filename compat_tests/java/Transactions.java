// Apache's Java client uses transactions: it moves messages from one topic to another, commits, aborts, and lets
// transactions time out. Prints a line for each answer.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

public class Transactions {
    static final String BASE = "persistent://public/default/";
    static PulsarClient client;
    static final Map<String, Producer<byte[]>> PRODUCERS = new HashMap<>();
    static final Map<String, Consumer<byte[]>> CONSUMERS = new HashMap<>();
    static final Map<String, Transaction> TRANSACTIONS = new HashMap<>();
    static Message<byte[]> last;

    public static void main(String[] args) throws Exception {
        client = PulsarClient.builder().serviceUrl(args[0]).enableTransaction(true)
                .operationTimeout(2, TimeUnit.MINUTES).maxBackoffInterval(1, TimeUnit.SECONDS).build();
        say("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            try {
                say(answer(line.split(" ")));
            } catch (Throwable e) {
                Throwable cause = e;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                say(e.getClass().getSimpleName() + " " + cause.getClass().getSimpleName());
            }
        }
        client.close();
        System.exit(0);
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "begin": {  // begin NAME MILLISECONDS
                Transaction made = client.newTransaction()
                        .withTransactionTimeout(Long.parseLong(words[2]), TimeUnit.MILLISECONDS).build().get();
                TRANSACTIONS.put(words[1], made);
                return made.getTxnID().toString();
            }
            case "send": {  // send TOPIC TRANSACTION|- TEXT...
                List<java.util.concurrent.CompletableFuture<?>> sent = new ArrayList<>();
                for (int i = 3; i < words.length; i++) {
                    Producer<byte[]> producer = producer(words[1]);
                    sent.add((words[2].equals("-") ? producer.newMessage()
                            : producer.newMessage(TRANSACTIONS.get(words[2]))).value(words[i].getBytes()).sendAsync());
                }
                for (var each : sent) {
                    each.get();
                }
                return "sent";
            }
            case "take": {  // take TOPIC SUBSCRIPTION TYPE TRANSACTION|-|none COUNT
                Consumer<byte[]> consumer = consumer(words[1], words[2], words[3]);
                List<String> taken = new ArrayList<>();
                for (int i = 0; i < Integer.parseInt(words[5]); i++) {
                    Message<byte[]> message = consumer.receive(20, TimeUnit.SECONDS);
                    if (message == null) {
                        break;
                    }
                    last = message;
                    taken.add(new String(message.getValue()) + "/" + message.getRedeliveryCount());
                    if (words[4].equals("-")) {
                        consumer.acknowledge(message);
                    } else if (!words[4].equals("none")) {
                        consumer.acknowledgeAsync(message.getMessageId(), TRANSACTIONS.get(words[4])).get();
                    }
                }
                Collections.sort(taken);
                return taken.toString();
            }
            case "reach": {  // reach TOPIC SUBSCRIPTION TYPE TRANSACTION COUNT: acknowledges cumulatively
                Consumer<byte[]> consumer = consumer(words[1], words[2], words[3]);
                for (int i = 0; i < Integer.parseInt(words[5]); i++) {
                    last = consumer.receive(20, TimeUnit.SECONDS);
                }
                consumer.acknowledgeCumulativeAsync(last.getMessageId(), TRANSACTIONS.get(words[4])).get();
                return "reached " + new String(last.getValue());
            }
            case "again": {  // again TOPIC SUBSCRIPTION TYPE TRANSACTION: acknowledges the last message that was taken
                consumer(words[1], words[2], words[3])
                        .acknowledgeAsync(last.getMessageId(), TRANSACTIONS.get(words[4])).get();
                return "acknowledged " + new String(last.getValue());
            }
            case "commit":
                TRANSACTIONS.get(words[1]).commit().get();
                return "committed";
            case "abort":
                TRANSACTIONS.get(words[1]).abort().get();
                return "aborted";
            case "leave":  // leave TOPIC SUBSCRIPTION
                CONSUMERS.remove(words[1] + " " + words[2]).close();
                return "left";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    static Producer<byte[]> producer(String topic) throws Exception {
        if (!PRODUCERS.containsKey(topic)) {
            PRODUCERS.put(topic, client.newProducer().topic(BASE + topic).sendTimeout(0, TimeUnit.SECONDS)
                    .batchingMaxPublishDelay(5, TimeUnit.MILLISECONDS).create());
        }
        return PRODUCERS.get(topic);
    }

    static Consumer<byte[]> consumer(String topic, String subscription, String type) throws Exception {
        String key = topic + " " + subscription;
        if (!CONSUMERS.containsKey(key)) {
            CONSUMERS.put(key, client.newConsumer().topic(BASE + topic).subscriptionName(subscription)
                    .subscriptionType(SubscriptionType.valueOf(type))
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                    .enableBatchIndexAcknowledgment(true).subscribe());
        }
        return CONSUMERS.get(key);
    }

    static void say(String text) {
        System.out.println("<<< " + text);
        System.out.flush();
    }
}
