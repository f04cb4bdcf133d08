package linearroad;

import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** The statistics of a segment in its latest minutes, and its price in one of them. */
public final class Segment {
    /**
     * Five minutes make a Lav, and the current minute is being counted. The other two are for partitions of the topic
     * that are ahead of the slowest one.
     */
    private static final int MINUTES = 8;

    /** Errors of adding and subtracting means are far smaller, and no two different means are this close. */
    private static final double EPSILON = 1e-9;

    private final int[] minutes = new int[MINUTES];
    private final int[] cars = new int[MINUTES];
    /** The sum over the vehicles of each one's mean speed. */
    private final double[] speeds = new double[MINUTES];

    /** The minute whose price is known; 0 if none. */
    public int priced;
    public int lav;
    public int toll;
    /** The nearest segment downstream with an accident, or -1. */
    public int alert;

    /** Counts a vehicle's first report in a minute. */
    public void enter(int minute, int speed) {
        int slot = minute % MINUTES;
        if (minutes[slot] < minute) {
            minutes[slot] = minute;
            cars[slot] = 0;
            speeds[slot] = 0;
        }
        if (minutes[slot] == minute) {
            cars[slot]++;
            speeds[slot] += speed;
        }
    }

    /** Notes that the mean speed of a vehicle, counted before, has changed. */
    public void adjust(int minute, double change) {
        int slot = minute % MINUTES;
        if (minutes[slot] == minute) {
            speeds[slot] += change;
        }
    }

    /** Computes the price in a minute; the minutes before it must be complete. */
    public void price(int minute, int nearestAccident) {
        double sum = 0;
        int found = 0;
        for (int m = Math.max(1, minute - Rules.LAV_MINUTES); m < minute; m++) {
            int slot = m % MINUTES;
            if (minutes[slot] > m) {
                throw new IllegalStateException(
                        "a partition of the topic is more than two minutes ahead of another one; minute " + minute
                                + " cannot be answered any more");
            }
            if (minutes[slot] == m) {
                sum += speeds[slot] / cars[slot];
                found++;
            }
        }
        int before = (minute - 1) % MINUTES;
        priced = minute;
        lav = found == 0 ? -1 : (int) Math.floor(sum / found + EPSILON);
        alert = nearestAccident;
        toll = alert >= 0 || minutes[before] != minute - 1 ? 0 : Rules.toll(lav, cars[before]);
    }

    /** Arrays of fixed length, written as they are. */
    public static final class Serializer extends PlainSerializer<Segment> {
        public static final Serializer INSTANCE = new Serializer();

        @Override
        public Segment createInstance() {
            return new Segment();
        }

        @Override
        public Segment copy(Segment from, Segment to) {
            System.arraycopy(from.minutes, 0, to.minutes, 0, MINUTES);
            System.arraycopy(from.cars, 0, to.cars, 0, MINUTES);
            System.arraycopy(from.speeds, 0, to.speeds, 0, MINUTES);
            to.priced = from.priced;
            to.lav = from.lav;
            to.toll = from.toll;
            to.alert = from.alert;
            return to;
        }

        @Override
        public void serialize(Segment segment, DataOutputView to) throws IOException {
            for (int slot = 0; slot < MINUTES; slot++) {
                to.writeInt(segment.minutes[slot]);
                to.writeInt(segment.cars[slot]);
                to.writeDouble(segment.speeds[slot]);
            }
            to.writeInt(segment.priced);
            to.writeInt(segment.lav);
            to.writeInt(segment.toll);
            to.writeInt(segment.alert);
        }

        @Override
        public Segment deserialize(Segment segment, DataInputView from) throws IOException {
            for (int slot = 0; slot < MINUTES; slot++) {
                segment.minutes[slot] = from.readInt();
                segment.cars[slot] = from.readInt();
                segment.speeds[slot] = from.readDouble();
            }
            segment.priced = from.readInt();
            segment.lav = from.readInt();
            segment.toll = from.readInt();
            segment.alert = from.readInt();
            return segment;
        }

        @Override
        public Snapshot snapshotConfiguration() {
            return new Snapshot();
        }

        /** What a checkpoint remembers of the serializer. */
        public static final class Snapshot
                extends org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot<Segment> {
            public Snapshot() {
                super(() -> INSTANCE);
            }
        }
    }
}
