// The clients of the bank: each takes notes from its accounts, and in one transaction acknowledges them and publishes
// notes of the same worth to other accounts. Now and then it aborts, or leaves a transaction to its time-out.
//
// A note is a message of four words, as `notes.py` says. A line of output tells each step that the judge must know:
//   "open T (0,17)"  transfer T has a transaction with this id;
//   "try T"   transfer T is complete, and the client will ask for its commit now;
//   "done T"  the commit was answered; "gone T": the abort was;
//   "fail T"  the answer was an error, so that nobody can know whether the transfer was committed.
// Lines of input are "go", "pause" (answered when no client works or has consumers any more) and "sync".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

public class Bank {
    static final String BASE = "persistent://public/default/";
    static final long ANSWER_SECONDS = 30;
    static final long LIFE_SECONDS = 10;
    static final long SHORT_LIFE_SECONDS = 2;
    static final Object GATE = new Object();
    static boolean open;
    static int inside;
    static PulsarClient client;
    static int accounts;

    public static void main(String[] args) throws Exception {
        client = PulsarClient.builder().serviceUrl(args[0]).enableTransaction(true).operationTimeout(10, TimeUnit.SECONDS)
                .startingBackoffInterval(50, TimeUnit.MILLISECONDS).maxBackoffInterval(500, TimeUnit.MILLISECONDS)
                .ioThreads(1).listenerThreads(1).build();
        accounts = Integer.parseInt(args[2]);
        for (int number = 0; number < Integer.parseInt(args[1]); number++) {
            Thread thread = new Thread(new Client(number, Long.parseLong(args[3]) + number));
            thread.setDaemon(true);
            thread.start();
        }
        say("<<< ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            switch (line) {
                case "go":
                    setOpen(true);
                    break;
                case "pause":
                    setOpen(false);
                    break;
                default:
            }
            say("<<< " + line);
        }
        System.exit(0);
    }

    static void setOpen(boolean wanted) throws InterruptedException {
        synchronized (GATE) {
            open = wanted;
            GATE.notifyAll();
            while (!open && inside > 0) {
                GATE.wait();
            }
        }
    }

    static boolean isOpen() {
        synchronized (GATE) {
            return open;
        }
    }

    static synchronized void say(String text) {
        System.out.println(text);
        System.out.flush();
    }

    /** A note that a client holds, with the consumer that got it. */
    static class Note {
        final Consumer<byte[]> from;
        final Message<byte[]> message;
        final String name;
        final int worth;

        Note(Consumer<byte[]> from, Message<byte[]> message) {
            this.from = from;
            this.message = message;
            String[] words = new String(message.getValue()).split(" ");
            name = words[0] + "/" + words[1];
            worth = Integer.parseInt(words[3].split(",")[Integer.parseInt(words[1])].split("=")[1]);
        }
    }

    static class Client implements Runnable {
        final int number;
        final Random random;
        final List<Consumer<byte[]>> consumers = new ArrayList<>();
        @SuppressWarnings("unchecked")
        final Producer<byte[]>[] producers = new Producer[accounts];
        int transfers;

        Client(int number, long seed) {
            this.number = number;
            this.random = new Random(seed);
        }

        @Override
        public void run() {
            while (true) {
                try {
                    synchronized (GATE) {
                        while (!open) {
                            GATE.wait();
                        }
                        inside++;
                    }
                    try {
                        work();
                    } finally {
                        synchronized (GATE) {
                            inside--;
                            GATE.notifyAll();
                        }
                    }
                } catch (Exception e) {
                    say("trouble " + number + " " + e);
                }
            }
        }

        void work() throws Exception {
            try {
                consumers.add(subscribe(number % accounts));
                consumers.add(subscribe((number * 3 + 1 + number / accounts) % accounts));
                while (isOpen()) {
                    transfer();
                }
            } finally {
                for (Consumer<byte[]> each : consumers) {
                    each.close();
                }
                consumers.clear();
            }
        }

        void transfer() throws Exception {
            List<Note> notes = new ArrayList<>();
            int first = random.nextInt(2);
            take(consumers.get(first), 300, notes);
            if (!notes.isEmpty() && random.nextBoolean()) {
                take(consumers.get(1 - first), 20, notes);
            }
            if (notes.isEmpty()) {
                return;
            }
            String name = "c" + number + "-" + transfers++;
            int dice = random.nextInt(100);
            Transaction transaction;
            try {
                transaction = client.newTransaction().withTransactionTimeout(
                        dice < 2 ? SHORT_LIFE_SECONDS : LIFE_SECONDS, TimeUnit.SECONDS).build()
                        .get(ANSWER_SECONDS, TimeUnit.SECONDS);
            } catch (Exception e) {
                say("none " + name + " " + e);
                giveBack(notes);
                return;
            }
            say("open " + name + " " + transaction.getTxnID());
            try {
                act(transaction, name, notes);
            } catch (Exception e) {
                say("stop " + name + " " + e);
                dice = 15;
            }
            if (dice < 2) {
                say("leave " + name);
            } else if (dice < 16) {
                say("abort " + name);
                try {
                    transaction.abort().get(ANSWER_SECONDS, TimeUnit.SECONDS);
                    say("gone " + name);
                } catch (Exception e) {
                    say("unended " + name + " " + e);
                }
                giveBack(notes);
            } else {
                say("try " + name);
                try {
                    transaction.commit().get(ANSWER_SECONDS, TimeUnit.SECONDS);
                    say("done " + name);
                } catch (Exception e) {
                    say("fail " + name + " " + e);
                    giveBack(notes);
                }
            }
        }

        /** Publishes the notes of a transfer and acknowledges those that it was made of, and returns when all of that was
        answered. */
        void act(Transaction transaction, String name, List<Note> notes) throws Exception {
            int worth = notes.stream().mapToInt(note -> note.worth).sum();
            String from = String.join(",", notes.stream().map(note -> note.name).toArray(String[]::new));
            int[] parts = split(worth);
            int[] to = new int[parts.length];
            String[] legs = new String[parts.length];
            for (int leg = 0; leg < parts.length; leg++) {
                to[leg] = leg > 0 && random.nextBoolean() ? to[leg - 1] : random.nextInt(accounts);
                legs[leg] = "account-" + to[leg] + "=" + parts[leg];
            }
            List<CompletableFuture<?>> answers = new ArrayList<>();
            for (int leg = 0; leg < parts.length; leg++) {
                String text = name + " " + leg + " " + from + " " + String.join(",", legs);
                answers.add(producer(to[leg]).newMessage(transaction).value(text.getBytes()).sendAsync());
            }
            for (Note note : notes) {
                answers.add(note.from.acknowledgeAsync(note.message.getMessageId(), transaction));
            }
            for (CompletableFuture<?> each : answers) {
                each.get(ANSWER_SECONDS, TimeUnit.SECONDS);
            }
        }

        /** Large amounts are split more often, so that the number of notes stays about the same. */
        int[] split(int worth) {
            int count = worth < 200 ? 1 : worth < 600 ? 1 + random.nextInt(2) : 2 + random.nextInt(2);
            int[] parts = new int[count];
            for (int leg = 0; leg < count - 1; leg++) {
                parts[leg] = 1 + random.nextInt(worth / 2);
                worth -= parts[leg];
            }
            parts[count - 1] = worth;
            return parts;
        }

        void take(Consumer<byte[]> consumer, int millis, List<Note> notes) throws PulsarClientException {
            Message<byte[]> message = consumer.receive(millis, TimeUnit.MILLISECONDS);
            if (message != null) {
                notes.add(new Note(consumer, message));
            }
        }

        void giveBack(List<Note> notes) {
            for (Note note : notes) {
                note.from.negativeAcknowledge(note.message);
            }
        }

        Consumer<byte[]> subscribe(int account) throws PulsarClientException {
            return client.newConsumer().topic(BASE + "account-" + account).subscriptionName("bank")
                    .subscriptionType(SubscriptionType.Shared).receiverQueueSize(3)
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                    .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS)
                    .enableBatchIndexAcknowledgment(true).subscribe();
        }

        /** Every second client publishes batches. Names are fixed, so that the broker finds what was sent twice. */
        Producer<byte[]> producer(int account) throws PulsarClientException {
            if (producers[account] == null) {
                producers[account] = client.newProducer().topic(BASE + "account-" + account)
                        .producerName("client-" + number).sendTimeout(0, TimeUnit.SECONDS).enableBatching(number % 2 == 1)
                        .batchingMaxPublishDelay(3, TimeUnit.MILLISECONDS).create();
            }
            return producers[account];
        }
    }
}
