// Apache Flink's exactly-once sink: a job on a cluster within this process moves messages from one topic to another.
// It is told when to fail and when to stop, and prints a line for each answer.

import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.pulsar.sink.PulsarSink;
import org.apache.flink.connector.pulsar.sink.PulsarSinkOptions;
import org.apache.flink.connector.pulsar.source.PulsarSource;
import org.apache.flink.connector.pulsar.source.enumerator.cursor.StartCursor;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

public class ExactlyOnce {
    static final long TRANSACTION_MILLIS = 60_000;
    static volatile boolean failing;
    static final AtomicInteger FAILURES = new AtomicInteger();
    static final AtomicInteger REPEATS = new AtomicInteger();

    public static void main(String[] args) throws Exception {  // SERVICE_URL WEB_URL IN OUT FOLDER
        Configuration keys = Configuration.fromMap(Map.of(
                "execution.checkpointing.interval", "500 ms",
                "restart-strategy.type", "fixed-delay",
                "restart-strategy.fixed-delay.attempts", "1000",
                "restart-strategy.fixed-delay.delay", "100 ms"));
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(2, keys);
        PulsarSource<String> source = PulsarSource.builder().setServiceUrl(args[0]).setAdminUrl(args[1])
                .setTopics(args[2]).setSubscriptionName("flink").setStartCursor(StartCursor.earliest())
                .setDeserializationSchema(new SimpleStringSchema()).build();
        PulsarSink<String> sink = PulsarSink.builder().setServiceUrl(args[0]).setAdminUrl(args[1])
                .setTopics(args[3]).setSerializationSchema(new SimpleStringSchema())
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setConfig(PulsarSinkOptions.PULSAR_WRITE_TRANSACTION_TIMEOUT, TRANSACTION_MILLIS).build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "in").keyBy(text -> text.split("-")[0])
                .process(new Moved()).sinkTo(sink);
        JobClient job = environment.executeAsync("exactly once");
        say("ready");
        for (Scanner lines = new Scanner(System.in); lines.hasNextLine();) {
            switch (lines.nextLine()) {
                case "fail":
                    failing = true;
                    say("failing");
                    break;
                case "failures":
                    say(FAILURES.toString());
                    break;
                case "repeats":
                    say(REPEATS.toString());
                    break;
                case "stop":  // commits all that the job has written
                    job.stopWithSavepoint(false, args[4], SavepointFormatType.CANONICAL).get();
                    say("stopped");
                    break;
            }
        }
        System.exit(0);
    }

    /** Passes on every message, which is a key and a number that grows. The state drops the repeats of the source, which
     *  reads again after a broker was killed what it has not acknowledged. Once told to fail, a task does so at the third
     *  message after a checkpoint: the transactions of these messages are open then, and no other checkpoint is likely to
     *  be under way, whose transactions would be left open until their time is over. */
    static class Moved extends KeyedProcessFunction<String, String, String> implements CheckpointListener {
        private transient ValueState<Long> last;
        private transient int left;

        @Override
        public void open(Configuration ignored) {
            last = getRuntimeContext().getState(new ValueStateDescriptor<>("last", Long.class));
        }

        @Override
        public void processElement(String text, Context context, Collector<String> out) throws Exception {
            if (left > 0 && --left == 0 && failing) {
                failing = false;
                FAILURES.incrementAndGet();
                throw new IllegalStateException("as the test asked");
            }
            long number = Long.parseLong(text.split("-")[1]);
            if (last.value() == null || last.value() < number) {
                last.update(number);
                out.collect(text);
            } else {
                REPEATS.incrementAndGet();
            }
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            left = failing ? 3 : 0;
        }
    }

    static void say(String text) {
        System.out.println("<<< " + text);
        System.out.flush();
    }
}
