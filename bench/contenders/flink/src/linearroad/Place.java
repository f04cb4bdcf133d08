package linearroad;

import java.io.IOException;
import java.util.Arrays;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/**
 * The vehicles stopped at one lane and position: a stay per report, from its second until the vehicle's next report or
 * for 30 s.
 */
public final class Place {
    private static final int WIDTH = 3;

    /** Vehicle, first and last second of each stay. */
    private int[] stays = new int[4 * WIDTH];
    private int size;

    /** The key of a place within a road. */
    public static int key(int lane, int pos) {
        return lane * Rules.MILE * (Rules.LAST_SEGMENT + 1) + pos;
    }

    public static int seg(int key) {
        return key % (Rules.MILE * (Rules.LAST_SEGMENT + 1)) / Rules.MILE;
    }

    public void stop(int vid, int second) {
        if (WIDTH * size == stays.length) {
            stays = Arrays.copyOf(stays, 2 * stays.length);
        }
        int at = WIDTH * size++;
        stays[at] = vid;
        stays[at + 1] = second;
        stays[at + 2] = second + Rules.PERIOD;
    }

    /** Ends the stay of a vehicle that reported again. */
    public void leave(int vid, int second) {
        for (int at = 0; at < WIDTH * size; at += WIDTH) {
            if (stays[at] == vid && stays[at + 1] < second) {
                stays[at + 2] = Math.min(stays[at + 2], second - 1);
            }
        }
    }

    /** Whether two vehicles are stopped here in a second in which one of them reports. */
    public boolean hasAccident(int second) {
        int stopped = 0;
        boolean reporting = false;
        for (int at = 0; at < WIDTH * size; at += WIDTH) {
            if (stays[at + 1] <= second && second <= stays[at + 2]) {
                stopped++;
                reporting |= stays[at + 1] == second;
            }
        }
        return stopped >= 2 && reporting;
    }

    /** Forgets the stays that ended before a second. */
    public void forget(int second) {
        int kept = 0;
        for (int at = 0; at < WIDTH * size; at += WIDTH) {
            if (stays[at + 2] >= second) {
                System.arraycopy(stays, at, stays, WIDTH * kept++, WIDTH);
            }
        }
        size = kept;
    }

    public boolean isEmpty() {
        return size == 0;
    }

    /** The stays, with their number. */
    public static final class Serializer extends PlainSerializer<Place> {
        public static final Serializer INSTANCE = new Serializer();

        @Override
        public Place createInstance() {
            return new Place();
        }

        @Override
        public Place copy(Place from, Place to) {
            to.stays = from.stays.clone();
            to.size = from.size;
            return to;
        }

        @Override
        public void serialize(Place place, DataOutputView to) throws IOException {
            to.writeInt(place.size);
            for (int at = 0; at < WIDTH * place.size; at++) {
                to.writeInt(place.stays[at]);
            }
        }

        @Override
        public Place deserialize(Place place, DataInputView from) throws IOException {
            place.size = from.readInt();
            place.stays = new int[WIDTH * Math.max(4, place.size)];
            for (int at = 0; at < WIDTH * place.size; at++) {
                place.stays[at] = from.readInt();
            }
            return place;
        }

        @Override
        public Snapshot snapshotConfiguration() {
            return new Snapshot();
        }

        /** What a checkpoint remembers of the serializer. */
        public static final class Snapshot
                extends org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot<Place> {
            public Snapshot() {
                super(() -> INSTANCE);
            }
        }
    }
}
