package linearroad;

import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.metrics.Counter;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Position reports from lines of fifteen integers, read from the bytes of a message without making strings.
 *
 * <p>Requests (types 2 to 4) are left out: this engine gives notifications and alerts. Whatever is no valid tuple is
 * counted and left out.
 */
final class ReportParser implements KafkaRecordDeserializationSchema<Report> {
    private static final int FIELDS = 15;
    private static final int TYPE = 0, TIME = 1, VID = 2, SPD = 3, XWAY = 4, LANE = 5, DIR = 6, SEG = 7, POS = 8;

    private final int[] fields = new int[FIELDS];
    private transient Counter rejected;

    @Override
    public void open(DeserializationSchema.InitializationContext context) {
        rejected = context.getMetricGroup().counter("rejected");
    }

    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> message, Collector<Report> out) {
        byte[] line = message.value();
        if (line == null || line.length == 0) {
            return; // the driver's mark at the end of the stream
        }
        if (!split(line)) {
            rejected.inc();
        } else if (fields[TYPE] == 0) {
            if (isValid()) {
                out.collect(report(message.timestamp()));
            } else {
                rejected.inc();
            }
        }
    }

    private Report report(long arrival) {
        Report report = new Report();
        report.time = fields[TIME];
        report.vid = fields[VID];
        report.spd = (byte) fields[SPD];
        report.xway = fields[XWAY];
        report.lane = (byte) fields[LANE];
        report.dir = (byte) fields[DIR];
        report.pos = fields[POS];
        report.arrival = arrival;
        return report;
    }

    private boolean isValid() {
        return fields[TIME] >= 0
                && fields[VID] >= 0
                && fields[XWAY] >= 0
                && fields[XWAY] < Integer.MAX_VALUE / 2
                && isIn(fields[SPD], 100)
                && isIn(fields[LANE], Rules.EXIT_LANE)
                && isIn(fields[DIR], 1)
                && isIn(fields[SEG], Rules.LAST_SEGMENT)
                && fields[POS] >= 0
                && fields[SEG] == fields[POS] / Rules.MILE;
    }

    private static boolean isIn(int value, int most) {
        return 0 <= value && value <= most;
    }

    /** Reads the line into the fields; false if it is not fifteen integers. */
    private boolean split(byte[] line) {
        int end = line.length;
        while (end > 0 && (line[end - 1] == '\n' || line[end - 1] == '\r')) {
            end--;
        }
        int at = 0;
        for (int field = 0; field < FIELDS; field++) {
            boolean negative = at < end && line[at] == '-';
            if (negative) {
                at++;
            }
            int first = at;
            long value = 0;
            while (at < end && line[at] >= '0' && line[at] <= '9' && value <= Integer.MAX_VALUE) {
                value = 10 * value + line[at++] - '0';
            }
            if (at == first || value > Integer.MAX_VALUE) {
                return false;
            }
            fields[field] = (int) (negative ? -value : value);
            if (field < FIELDS - 1 && (at == end || line[at++] != ',')) {
                return false;
            }
        }
        return at == end;
    }

    @Override
    public TypeInformation<Report> getProducedType() {
        return new PlainType<>(Report.class, Report.Serializer.INSTANCE);
    }
}
