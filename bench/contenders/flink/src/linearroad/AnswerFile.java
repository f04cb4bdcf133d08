package linearroad;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.apache.flink.api.common.operators.ProcessingTimeService;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;

/**
 * Answers as text in the paper's format, appended to one file by all tasks.
 *
 * <p>Answers are collected for a few milliseconds, stamped and written with one call of the operating system, which
 * appends whole: lines of two tasks are never mixed. Emit is the Time of the report plus what passed between its arrival
 * at the broker and this write. After a failure, answers since the last checkpoint are written again: delivery is at
 * least once, as soon as possible.
 */
final class AnswerFile implements Sink<Answer> {
    private static final int PERIOD_MS = 50;
    private static final int MOST = 8192;

    private final String file;
    private final int since;

    AnswerFile(String file, int since) {
        this.file = file;
        this.since = since;
    }

    @Override
    public SinkWriter<Answer> createWriter(WriterInitContext context) throws IOException {
        return new Writer(context.getProcessingTimeService());
    }

    private final class Writer implements SinkWriter<Answer> {
        private final FileChannel channel;
        private final ProcessingTimeService clock;
        private final Answer[] answers = new Answer[MOST];
        private final Lines lines = new Lines();
        private int size;

        Writer(ProcessingTimeService clock) throws IOException {
            channel = FileChannel.open(Path.of(file), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            for (int i = 0; i < MOST; i++) {
                answers[i] = new Answer();
            }
            this.clock = clock;
            schedule();
        }

        private void schedule() {
            clock.registerTimer(clock.getCurrentProcessingTime() + PERIOD_MS, time -> {
                flush(false);
                schedule();
            });
        }

        @Override
        public void write(Answer answer, Context context) throws IOException {
            if (answer.time < since) {
                return;
            }
            Answer kept = answers[size++];
            kept.vid = answer.vid;
            kept.time = answer.time;
            kept.lav = answer.lav;
            kept.toll = answer.toll;
            kept.alert = answer.alert;
            kept.arrival = answer.arrival;
            if (size == MOST) {
                flush(false);
            }
        }

        @Override
        public void flush(boolean endOfInput) throws IOException {
            if (size == 0) {
                return;
            }
            long now = System.currentTimeMillis();
            for (int i = 0; i < size; i++) {
                lines.add(answers[i], now);
            }
            size = 0;
            lines.writeTo(channel);
        }

        @Override
        public void close() throws IOException {
            flush(true);
            channel.close();
        }
    }

    /** Formats answers into bytes. */
    private static final class Lines {
        private static final int LONGEST = 160;

        private byte[] bytes = new byte[1 << 20];
        private int length;

        void add(Answer answer, long now) {
            if (length + LONGEST > bytes.length) {
                bytes = java.util.Arrays.copyOf(bytes, 2 * bytes.length);
            }
            long emit = 1000L * answer.time + now - answer.arrival;
            number(0).comma().number(answer.vid).comma().number(answer.time).comma().seconds(emit).comma();
            number(answer.lav).comma().number(answer.toll).end();
            if (answer.alert >= 0) {
                number(1).comma().number(answer.time).comma().seconds(emit).comma();
                number(answer.vid).comma().number(answer.alert).end();
            }
        }

        void writeTo(FileChannel channel) throws IOException {
            ByteBuffer whole = ByteBuffer.wrap(bytes, 0, length);
            while (whole.hasRemaining()) {
                channel.write(whole);
            }
            length = 0;
        }

        private Lines comma() {
            bytes[length++] = ',';
            return this;
        }

        private void end() {
            bytes[length++] = '\n';
        }

        private Lines number(long value) {
            if (value < 0) {
                bytes[length++] = '-';
                value = -value;
            }
            int first = length;
            do {
                bytes[length++] = (byte) ('0' + value % 10);
                value /= 10;
            } while (value > 0);
            for (int low = first, high = length - 1; low < high; low++, high--) {
                byte digit = bytes[low];
                bytes[low] = bytes[high];
                bytes[high] = digit;
            }
            return this;
        }

        private Lines seconds(long milliseconds) {
            number(milliseconds / 1000);
            bytes[length++] = '.';
            int rest = (int) Math.abs(milliseconds % 1000);
            bytes[length++] = (byte) ('0' + rest / 100);
            bytes[length++] = (byte) ('0' + rest / 10 % 10);
            bytes[length++] = (byte) ('0' + rest % 10);
            return this;
        }
    }
}
