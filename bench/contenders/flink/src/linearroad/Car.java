package linearroad;

import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** What is remembered of a vehicle: its last report, and its speeds in that report's minute and segment. */
public final class Car {
    public int time = Integer.MIN_VALUE;
    public int pos;
    public byte lane;
    /** Reports in a row from the same place. */
    public int still;
    /** The sum and number of the speeds in the minute and segment of the last report. */
    public int speeds;
    public int reports;

    public boolean isNew() {
        return time == Integer.MIN_VALUE;
    }

    public boolean isStopped() {
        return still >= Rules.STOPPED && Rules.isTravelLane(lane);
    }

    public int minute() {
        return time / 60 + 1;
    }

    public int seg() {
        return pos / Rules.MILE;
    }

    /** Whether the report starts a trip: after a silence, or on entering again after the exit lane. */
    public boolean startsTrip(Report report) {
        return isNew()
                || report.time - time > Rules.PERIOD
                || lane == Rules.EXIT_LANE && report.lane != Rules.EXIT_LANE;
    }

    /** Whether the report is from the place of the one exactly 30 s before it. */
    public boolean standsAt(Report report) {
        return report.time - time == Rules.PERIOD && report.lane == lane && report.pos == pos;
    }

    /** Few bytes, and a copy that allocates one object. */
    public static final class Serializer extends PlainSerializer<Car> {
        public static final Serializer INSTANCE = new Serializer();

        @Override
        public Car createInstance() {
            return new Car();
        }

        @Override
        public Car copy(Car from, Car to) {
            to.time = from.time;
            to.pos = from.pos;
            to.lane = from.lane;
            to.still = from.still;
            to.speeds = from.speeds;
            to.reports = from.reports;
            return to;
        }

        @Override
        public void serialize(Car car, DataOutputView to) throws IOException {
            to.writeInt(car.time);
            to.writeInt(car.pos);
            to.writeByte(car.lane);
            to.writeInt(car.still);
            to.writeInt(car.speeds);
            to.writeInt(car.reports);
        }

        @Override
        public Car deserialize(Car car, DataInputView from) throws IOException {
            car.time = from.readInt();
            car.pos = from.readInt();
            car.lane = from.readByte();
            car.still = from.readInt();
            car.speeds = from.readInt();
            car.reports = from.readInt();
            return car;
        }

        @Override
        public Snapshot snapshotConfiguration() {
            return new Snapshot();
        }

        /** What a checkpoint remembers of the serializer. */
        public static final class Snapshot
                extends org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot<Car> {
            public Snapshot() {
                super(() -> INSTANCE);
            }
        }
    }
}
