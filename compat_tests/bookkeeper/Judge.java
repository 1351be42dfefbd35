import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.LedgerHandleAdv;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/** Apache's own client as the judge of our bookies. Prints "PASS name" or "FAIL name: why" for each scenario named. */
public class Judge {
    static final byte[] PASSWORD = "secret".getBytes(StandardCharsets.UTF_8);
    static final int ENTRIES = 2000;
    static String zookeeper;
    static boolean v2;
    static BookKeeper client;
    static BookKeeper other;

    interface Scenario {
        void run() throws Exception;
    }

    static ClientConfiguration configuration(boolean v2) {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri("zk+hierarchical://" + zookeeper + "/ledgers");
        conf.setUseV2WireProtocol(v2);
        conf.setThrottleValue(0);
        conf.setAddEntryTimeout(20);
        conf.setReadEntryTimeout(20);
        return conf;
    }

    static byte[] payload(int number) {
        byte[] bytes = new byte[number % 7 == 0 ? 0 : 100 + number % 1000];
        Arrays.fill(bytes, (byte) number);
        return bytes;
    }

    static void check(boolean condition, String what) {
        if (!condition) {
            throw new IllegalStateException(what);
        }
    }

    static void add(LedgerHandle ledger, int first, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        AtomicInteger failed = new AtomicInteger();
        for (int i = 0; i < count; i++) {
            ledger.asyncAddEntry(payload(first + i), (rc, handle, id, ctx) -> {
                if (rc != 0) {
                    failed.set(rc);
                }
                left.countDown();
            }, null);
        }
        check(left.await(60, TimeUnit.SECONDS), "adds are unanswered");
        check(failed.get() == 0, "an add failed with " + failed.get());
    }

    static void checkEntries(Enumeration<LedgerEntry> entries, int first, int count) {
        for (int i = 0; i < count; i++) {
            check(entries.hasMoreElements(), "only " + i + " entries of " + count);
            LedgerEntry entry = entries.nextElement();
            check(entry.getEntryId() == first + i, "entry " + entry.getEntryId() + " instead of " + (first + i));
            check(Arrays.equals(entry.getEntry(), payload(first + i)), "entry " + entry.getEntryId() + " differs");
        }
        check(!entries.hasMoreElements(), "too many entries");
    }

    static void roundTrip(DigestType digest) throws Exception {
        LedgerHandle writer = client.createLedger(1, 1, 1, digest, PASSWORD);
        add(writer, 0, ENTRIES);
        writer.close();
        LedgerHandle reader = other.openLedger(writer.getId(), digest, PASSWORD);
        check(reader.getLastAddConfirmed() == ENTRIES - 1, "LAC " + reader.getLastAddConfirmed());
        checkEntries(reader.readEntries(0, ENTRIES - 1), 0, ENTRIES);
        reader.close();
    }

    static void fence() throws Exception {
        LedgerHandle writer = client.createLedger(1, 1, 1, DigestType.CRC32C, PASSWORD);
        add(writer, 0, 10);
        LedgerHandle recovered = other.openLedger(writer.getId(), DigestType.CRC32C, PASSWORD);
        check(recovered.getLastAddConfirmed() == 9, "LAC " + recovered.getLastAddConfirmed());
        checkEntries(recovered.readEntries(0, 9), 0, 10);
        try {
            writer.addEntry(payload(10));
        } catch (BKException error) {
            check(error.getCode() == BKException.Code.LedgerFencedException, "code " + error.getCode());
            return;
        }
        throw new IllegalStateException("a fenced writer went on");
    }

    static void fenceOfAnEmptyLedger() throws Exception {
        LedgerHandle writer = client.createLedger(1, 1, 1, DigestType.CRC32C, PASSWORD);
        LedgerHandle recovered = other.openLedger(writer.getId(), DigestType.CRC32C, PASSWORD);
        check(recovered.getLastAddConfirmed() == -1, "LAC " + recovered.getLastAddConfirmed());
        try {
            writer.addEntry(payload(0));
        } catch (BKException error) {
            check(error.getCode() == BKException.Code.LedgerFencedException, "code " + error.getCode());
            return;
        }
        throw new IllegalStateException("a fenced writer went on");
    }

    static void tail() throws Exception {
        LedgerHandle writer = client.createLedger(1, 1, 1, DigestType.CRC32C, PASSWORD);
        add(writer, 0, 10);
        add(writer, 10, 1);
        LedgerHandle reader = other.openLedgerNoRecovery(writer.getId(), DigestType.CRC32C, PASSWORD);
        check(reader.getLastAddConfirmed() == 9, "LAC " + reader.getLastAddConfirmed());
        checkEntries(reader.readUnconfirmedEntries(0, 10), 0, 11);
        add(writer, 11, 1);
        check(reader.readLastConfirmed() == 10, "LAC " + reader.getLastAddConfirmed());
        writer.close();
    }

    static void batchRead() throws Exception {
        LedgerHandle writer = client.createLedger(1, 1, 1, DigestType.CRC32C, PASSWORD);
        add(writer, 0, 100);
        writer.close();
        LedgerHandle reader = other.openLedger(writer.getId(), DigestType.CRC32C, PASSWORD);
        checkEntries(reader.batchReadEntries(0, 100, 5 << 20), 0, 100);
        checkEntries(reader.batchReadEntries(95, 3, 5 << 20), 95, 3);
    }

    static void longPoll() throws Exception {
        LedgerHandle writer = client.createLedger(1, 1, 1, DigestType.CRC32C, PASSWORD);
        add(writer, 0, 2);
        LedgerHandle reader = other.openLedgerNoRecovery(writer.getId(), DigestType.CRC32C, PASSWORD);
        CompletableFuture<LastConfirmedAndEntry> waiting = reader.readLastAddConfirmedAndEntryAsync(1, 20_000, false);
        check(!waiting.isDone(), "the poll did not wait");
        add(writer, 2, 1);
        LastConfirmedAndEntry answer = waiting.get(20, TimeUnit.SECONDS);
        check(answer.getLastAddConfirmed() == 1, "LAC " + answer.getLastAddConfirmed());
        check(answer.hasEntry() && answer.getEntry().getEntryId() == 1, "no entry");
        check(Arrays.equals(answer.getEntry().getEntryBytes(), payload(1)), "entry 1 differs");
        writer.close();
    }

    static void deferredSync() throws Exception {
        WriteHandle writer = client.newCreateLedgerOp().withEnsembleSize(1).withWriteQuorumSize(1).withAckQuorumSize(1)
            .withPassword(PASSWORD).withWriteFlags(WriteFlag.DEFERRED_SYNC).execute().get(20, TimeUnit.SECONDS);
        for (int i = 0; i < 10; i++) {
            writer.append(payload(i));
        }
        check(writer.getLastAddConfirmed() == -1, "LAC " + writer.getLastAddConfirmed());
        writer.force().get(20, TimeUnit.SECONDS);
        check(writer.getLastAddConfirmed() == 9, "LAC " + writer.getLastAddConfirmed());
        writer.close();
    }

    static void advanced() throws Exception {
        LedgerHandleAdv writer = (LedgerHandleAdv) client.createLedgerAdv(1, 1, 1, DigestType.CRC32C, PASSWORD);
        List<Integer> ids = new ArrayList<>(List.of(3, 1, 4, 0, 2));
        CountDownLatch left = new CountDownLatch(ids.size());
        AtomicInteger failed = new AtomicInteger();
        for (int id : ids) {
            writer.asyncAddEntry(id, payload(id), (rc, handle, entryId, ctx) -> {
                failed.addAndGet(rc);
                left.countDown();
            }, null);
        }
        check(left.await(20, TimeUnit.SECONDS) && failed.get() == 0, "adds failed");
        writer.close();
        checkEntries(other.openLedger(writer.getId(), DigestType.CRC32C, PASSWORD).readEntries(0, 4), 0, 5);
    }

    static void large() throws Exception {
        LedgerHandle writer = client.createLedger(1, 1, 1, DigestType.CRC32C, PASSWORD);
        byte[] big = new byte[5 * 1024 * 1024 - 4096];
        Arrays.fill(big, (byte) 42);
        for (int i = 0; i < 5; i++) {
            writer.addEntry(big);
        }
        writer.close();
        Enumeration<LedgerEntry> entries =
            other.openLedger(writer.getId(), DigestType.CRC32C, PASSWORD).readEntries(0, 4);
        while (entries.hasMoreElements()) {
            check(Arrays.equals(entries.nextElement().getEntry(), big), "a large entry differs");
        }
    }

    /** Prints KILL in the middle of a write, and goes on at a line of input. By then one of the bookies is gone. */
    static void bookieKilled() throws Exception {
        LedgerHandle writer = client.createLedger(2, 2, 2, DigestType.CRC32C, PASSWORD);
        add(writer, 0, 500);
        System.out.println("KILL " + writer.getLedgerMetadata().getAllEnsembles().get(0L).get(0));
        System.out.flush();
        CountDownLatch left = new CountDownLatch(1);
        new Thread(() -> {
            try {
                System.in.read();
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
            left.countDown();
        }).start();
        int number = 500;
        while (left.getCount() > 0) {
            add(writer, number, 10);
            number += 10;
        }
        add(writer, number, 500);
        number += 500;
        check(writer.getLedgerMetadata().getAllEnsembles().size() == 2, "no ensemble change");
        LedgerHandle recovered = other.openLedger(writer.getId(), DigestType.CRC32C, PASSWORD);
        check(recovered.getLastAddConfirmed() == number - 1, "LAC " + recovered.getLastAddConfirmed());
        checkEntries(recovered.readEntries(0, number - 1), 0, number);
    }

    /** Prints KILL while it writes to one bookie, and goes on at a line of input, when that bookie runs again. */
    static void bookieRestarted() throws Exception {
        LedgerHandle writer = client.createLedger(1, 1, 1, DigestType.CRC32C, PASSWORD);
        add(writer, 0, 500);
        System.out.println("KILL " + writer.getLedgerMetadata().getAllEnsembles().get(0L).get(0));
        System.out.flush();
        CountDownLatch restarted = new CountDownLatch(1);
        new Thread(() -> {
            try {
                System.in.read();
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
            restarted.countDown();
        }).start();
        int acknowledged = 500;
        try {
            while (restarted.getCount() > 0) {
                writer.addEntry(payload(acknowledged));
                acknowledged++;
            }
        } catch (BKException error) {
            // The writer fails, because no other bookie can take the killed one's place.
        }
        check(restarted.await(60, TimeUnit.SECONDS), "the bookie was not started again");
        LedgerHandle recovered = other.openLedger(writer.getId(), DigestType.CRC32C, PASSWORD);
        check(recovered.getLastAddConfirmed() >= acknowledged - 1, "LAC " + recovered.getLastAddConfirmed());
        checkEntries(recovered.readEntries(0, acknowledged - 1), 0, acknowledged);
    }

    static void explicitLac() throws Exception {
        ClientConfiguration conf = configuration(v2);
        conf.setExplictLacInterval(20);
        try (BookKeeper telling = new BookKeeper(conf)) {
            LedgerHandle writer = telling.createLedger(1, 1, 1, DigestType.CRC32C, PASSWORD);
            add(writer, 0, 10);
            LedgerHandle reader = other.openLedgerNoRecovery(writer.getId(), DigestType.CRC32C, PASSWORD);
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            while (reader.readExplicitLastConfirmed() < 9) {
                check(System.nanoTime() < deadline, "explicit LAC " + reader.readExplicitLastConfirmed());
            }
            checkEntries(reader.readUnconfirmedEntries(0, 9), 0, 10);
        }
    }

    /** Writes and closes a ledger of 100 entries on three bookies, and prints its id. */
    static void kept() throws Exception {
        LedgerHandle writer = client.createLedger(3, 3, 2, DigestType.CRC32C, new byte[0]);
        add(writer, 0, 100);
        writer.close();
        System.out.println("LEDGER " + writer.getId());
    }

    /** Recovers a ledger that another client wrote with the same password, and prints the id of its last entry. */
    static void recover(long ledgerId) throws Exception {
        LedgerHandle recovered = client.openLedger(ledgerId, DigestType.CRC32C, PASSWORD);
        System.out.println("RECOVERED " + recovered.getLastAddConfirmed());
    }

    static LedgerHandle ledgerOn(String bookie) throws Exception {
        for (int i = 0; i < 200; i++) {
            LedgerHandle writer = client.createLedger(1, 1, 1, DigestType.CRC32C, PASSWORD);
            if (writer.getLedgerMetadata().getAllEnsembles().get(0L).get(0).toString().equals(bookie)) {
                return writer;
            }
        }
        throw new IllegalStateException("no ledger came to " + bookie);
    }

    /** Prints the id of a ledger that it is writing. When it reads a line, another client has recovered that ledger. */
    static void recoveredElsewhere(String bookie) throws Exception {
        LedgerHandle writer = ledgerOn(bookie);
        add(writer, 0, 50);
        System.out.println("LEDGER " + writer.getId());
        System.out.flush();
        System.in.read();
        try {
            writer.addEntry(payload(50));
        } catch (BKException error) {
            check(error.getCode() == BKException.Code.LedgerFencedException, "code " + error.getCode());
            return;
        }
        throw new IllegalStateException("a fenced writer went on");
    }

    static Scenario scenario(String name) {
        if (name.startsWith("recover:")) {
            return () -> recover(Long.parseLong(name.substring("recover:".length())));
        }
        if (name.startsWith("written-on:")) {
            return () -> add(ledgerOn(name.substring("written-on:".length())), 0, 100);
        }
        if (name.startsWith("recovered-elsewhere:")) {
            return () -> recoveredElsewhere(name.substring("recovered-elsewhere:".length()));
        }
        return switch (name) {
            case "crc32c" -> () -> roundTrip(DigestType.CRC32C);
            case "crc32" -> () -> roundTrip(DigestType.CRC32);
            case "mac" -> () -> roundTrip(DigestType.MAC);
            case "dummy" -> () -> roundTrip(DigestType.DUMMY);
            case "fence" -> Judge::fence;
            case "fence-empty" -> Judge::fenceOfAnEmptyLedger;
            case "tail" -> Judge::tail;
            case "batch-read" -> Judge::batchRead;
            case "long-poll" -> Judge::longPoll;
            case "deferred-sync" -> Judge::deferredSync;
            case "advanced" -> Judge::advanced;
            case "large" -> Judge::large;
            case "explicit-lac" -> Judge::explicitLac;
            case "kept" -> Judge::kept;
            case "bookie-killed" -> Judge::bookieKilled;
            case "bookie-restarted" -> Judge::bookieRestarted;
            default -> throw new IllegalArgumentException(name);
        };
    }

    /** ZOOKEEPER v2|v3 SCENARIO... */
    public static void main(String[] words) throws Exception {
        zookeeper = words[0];
        v2 = words[1].equals("v2");
        client = new BookKeeper(configuration(v2));
        other = new BookKeeper(configuration(v2));
        for (String name : Arrays.asList(words).subList(2, words.length)) {
            try {
                scenario(name).run();
                System.out.println("PASS " + name);
            } catch (Throwable error) {
                error.printStackTrace();
                System.out.println("FAIL " + name + ": " + error);
            }
            System.out.flush();
        }
        System.exit(0);
    }
}
