package linearroad;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.errors.TopicExistsException;

/** Linear Road's toll notifications and accident alerts on Apache Flink, in one process, until it is terminated. */
public final class Main {
    private static final String USAGE =
            "run.sh --bootstrap HOST:PORT --topic TOPIC --out FILE [--since SECOND] [--parallel 2]"
                    + " [--checkpoint-seconds 5] [--idle SECONDS]";
    private static final Duration DRIFT = Duration.ofSeconds(30);

    /** All tasks run in this process, so that they can be counted. */
    private static CountDownLatch tasks;

    private Main() {}

    public static void main(String[] words) throws Exception {
        Options options = Options.parse(words, USAGE);
        int parallel = options.number("parallel", 2);
        tasks = new CountDownLatch(parallel);
        int partitions = partitions(options.text("bootstrap"), options.text("topic"));
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(parallel, settings(options));
        env.fromSource(source(options), watermarks(options, partitions), "reports")
                .setParallelism(Math.min(parallel, partitions))
                .keyBy(Report::road)
                .process(new Roads(() -> tasks.countDown()))
                .returns(Answer.class)
                .name("roads")
                .sinkTo(new AnswerFile(options.text("out"), options.number("since", 0)))
                .name("answers");
        run(env.executeAsync("linear-road"));
    }

    private static void run(JobClient job) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                job.cancel().get(10, TimeUnit.SECONDS);
            } catch (Exception error) {
                // it has ended already
            }
        }));
        while (!tasks.await(100, TimeUnit.MILLISECONDS)) {
            if (job.getJobStatus().get().isGloballyTerminalState()) {
                break;
            }
        }
        if (tasks.getCount() == 0) {
            System.out.println("ready");
            System.out.flush();
        }
        try {
            job.getJobExecutionResult().get();
        } catch (ExecutionException error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            throw fail("the job failed: " + cause);
        }
    }

    /** Ends at once: a failed run is void, and nothing is left to be cancelled. */
    private static RuntimeException fail(String why) {
        System.err.println("run.sh: " + why);
        Runtime.getRuntime().halt(1);
        return new IllegalStateException();
    }

    private static Configuration settings(Options options) {
        Path checkpoints = Path.of(options.text("checkpoints"));
        return Configuration.fromMap(Map.of(
                "state.backend.type", "hashmap",
                "execution.checkpointing.interval", options.number("checkpoint-seconds", 5) + " s",
                "execution.checkpointing.mode", "EXACTLY_ONCE",
                "execution.checkpointing.storage", "filesystem",
                "execution.checkpointing.dir", checkpoints.toAbsolutePath().toUri().toString(),
                "pipeline.object-reuse", "true",
                "pipeline.generic-types", "false",
                "restart-strategy.type", "none"));
    }

    private static KafkaSource<Report> source(Options options) {
        return KafkaSource.<Report>builder()
                .setBootstrapServers(options.text("bootstrap"))
                .setTopics(options.text("topic"))
                .setGroupId("linear-road")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setDeserializer(new ReportParser())
                .setProperty("max.poll.records", "10000")
                .build();
    }

    private static WatermarkStrategy<Report> watermarks(Options options, int partitions) {
        WatermarkStrategy<Report> strategy = WatermarkStrategy.<Report>forGenerator(context -> new Seconds())
                .withTimestampAssigner((report, timestamp) -> 1000L * report.time);
        if (partitions > 1) {
            strategy = strategy.withWatermarkAlignment("partitions", DRIFT, Duration.ofMillis(200));
        }
        int idle = options.number("idle", 0);
        return idle > 0 ? strategy.withIdleness(Duration.ofSeconds(idle)) : strategy;
    }

    /** The number of partitions of the topic, which is created if it does not exist. */
    private static int partitions(String bootstrap, String topic) throws Exception {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap, "default.api.timeout.ms", 10_000, "request.timeout.ms", 5_000);
        try (Admin admin = Admin.create(settings)) {
            try {
                admin.createTopics(List.of(new NewTopic(topic, Optional.empty(), Optional.empty()))).all().get();
            } catch (ExecutionException error) {
                if (!(error.getCause() instanceof TopicExistsException)) {
                    throw fail("the broker at " + bootstrap + " cannot be used: " + error.getCause().getMessage());
                }
            }
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
        }
    }
}
