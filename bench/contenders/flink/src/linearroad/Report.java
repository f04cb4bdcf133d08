package linearroad;

import java.io.IOException;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** A position report, with the instant at which its message was produced. */
public final class Report {
    public int time;
    public int vid;
    public int xway;
    public int pos;
    public byte spd;
    public byte lane;
    public byte dir;
    /** Milliseconds since 1970, from the message's timestamp. */
    public long arrival;

    public int minute() {
        return time / 60 + 1;
    }

    public int seg() {
        return pos / Rules.MILE;
    }

    /** One direction of one expressway: nothing that is answered here depends on any other. */
    public int road() {
        return 2 * xway + dir;
    }

    /** 27 bytes instead of the names, tags and null masks of a generic encoding. */
    public static final class Serializer extends PlainSerializer<Report> {
        public static final Serializer INSTANCE = new Serializer();

        @Override
        public Report createInstance() {
            return new Report();
        }

        @Override
        public Report copy(Report from, Report to) {
            to.time = from.time;
            to.vid = from.vid;
            to.xway = from.xway;
            to.pos = from.pos;
            to.spd = from.spd;
            to.lane = from.lane;
            to.dir = from.dir;
            to.arrival = from.arrival;
            return to;
        }

        @Override
        public void serialize(Report report, DataOutputView to) throws IOException {
            to.writeInt(report.time);
            to.writeInt(report.vid);
            to.writeInt(report.xway);
            to.writeInt(report.pos);
            to.writeByte(report.spd);
            to.writeByte(report.lane);
            to.writeByte(report.dir);
            to.writeLong(report.arrival);
        }

        @Override
        public Report deserialize(Report report, DataInputView from) throws IOException {
            report.time = from.readInt();
            report.vid = from.readInt();
            report.xway = from.readInt();
            report.pos = from.readInt();
            report.spd = from.readByte();
            report.lane = from.readByte();
            report.dir = from.readByte();
            report.arrival = from.readLong();
            return report;
        }

        @Override
        public Snapshot snapshotConfiguration() {
            return new Snapshot();
        }

        /** What a checkpoint remembers of the serializer. */
        public static final class Snapshot
                extends org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot<Report> {
            public Snapshot() {
                super(() -> INSTANCE);
            }
        }
    }
}
