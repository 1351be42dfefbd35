import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Loads bookies with Apache's own client. Arguments: ZOOKEEPER v2|v3. Commands on standard input, one answer a line:
 * "add E QW QA ENTRIES WINDOW BYTES", "pace E QW QA ENTRIES PER_SECOND BYTES", "read LEDGER ENTRIES BATCH".
 * Answers: "DONE ledger seconds p50ms p99ms".
 */
public class BookieLoad {
    static final byte[] PASSWORD = new byte[0];
    static BookKeeper client;

    public static void main(String[] words) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri("zk+hierarchical://" + words[0] + "/ledgers");
        conf.setUseV2WireProtocol(words[1].equals("v2"));
        conf.setThrottleValue(0);
        conf.setAddEntryTimeout(60);
        conf.setReadEntryTimeout(60);
        client = new BookKeeper(conf);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] command = line.trim().split(" ");
            long[] numbers = Arrays.stream(command).skip(1).mapToLong(Long::parseLong).toArray();
            String answer = switch (command[0]) {
                case "add" -> add(numbers, 0);
                case "pace" -> add(numbers, numbers[4]);
                case "read" -> read(numbers[0], (int) numbers[1], (int) numbers[2]);
                default -> throw new IllegalArgumentException(line);
            };
            System.out.println("DONE " + answer);
            System.out.flush();
        }
        System.exit(0);
    }

    /** Adds with a window of unanswered adds, or at a steady pace, where latencies count from when an add was due. */
    static String add(long[] numbers, long perSecond) throws Exception {
        int entries = (int) numbers[3];
        int window = perSecond > 0 ? entries : (int) numbers[4];
        byte[] payload = new byte[(int) numbers[5]];
        LedgerHandle ledger =
            client.createLedger((int) numbers[0], (int) numbers[1], (int) numbers[2], DigestType.CRC32C, PASSWORD);
        Semaphore room = new Semaphore(window);
        AtomicInteger failed = new AtomicInteger();
        long[] took = new long[entries];
        long began = System.nanoTime();
        for (int i = 0; i < entries; i++) {
            room.acquire();
            long due = began + (perSecond > 0 ? i * 1_000_000_000L / perSecond : 0);
            long now = System.nanoTime();
            while (now < due) {
                LockSupport.parkNanos(due - now);
                now = System.nanoTime();
            }
            int number = i;
            long sent = perSecond > 0 ? due : now;
            ledger.asyncAddEntry(payload, (rc, handle, id, context) -> {
                took[number] = System.nanoTime() - sent;
                if (rc != 0) {
                    failed.set(rc);
                }
                room.release();
            }, null);
        }
        if (!room.tryAcquire(window, 120, TimeUnit.SECONDS) || failed.get() != 0) {
            throw new IllegalStateException("adds failed with " + failed.get());
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        ledger.close();
        return ledger.getId() + " " + seconds + " " + percentile(took, 50) + " " + percentile(took, 99);
    }

    static double percentile(long[] took, int percent) {
        Arrays.sort(took);
        return took[Math.min(took.length - 1, took.length * percent / 100)] / 1e6;
    }

    static String read(long ledgerId, int entries, int batch) throws Exception {
        LedgerHandle ledger = client.openLedgerNoRecovery(ledgerId, DigestType.CRC32C, PASSWORD);
        long began = System.nanoTime();
        int next = 0;
        while (next < entries) {
            Enumeration<LedgerEntry> found =
                ledger.batchReadEntries(next, Math.min(batch, entries - next), 5 * 1024 * 1024 - 1024);
            while (found.hasMoreElements()) {
                LedgerEntry entry = found.nextElement();
                if (entry.getEntryId() != next || entry.getEntry().length == 0) {
                    throw new IllegalStateException("entry " + entry.getEntryId() + " instead of " + next);
                }
                next++;
            }
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        ledger.close();
        return ledgerId + " " + seconds + " 0 0";
    }
}
