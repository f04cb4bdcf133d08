package linearroad;

import java.util.Iterator;
import java.util.Map;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.metrics.Counter;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Notifications and alerts of one direction of an expressway, which is the key.
 *
 * <p>Reports are processed when they come: Kafka keeps those of a vehicle in order. What a report is answered depends on
 * the minutes before its own, so an answer waits only while the watermark has not reached the report's minute. Accidents
 * are looked for when a second with reports of stopped vehicles is complete.
 */
final class Roads extends KeyedProcessFunction<Integer, Report, Answer> {
    /** What a timer is for is told by its milliseconds: the end of a second, the end of a minute, or forgetting. */
    private static final int SECOND = 0, FORGET = 500, MINUTE = 999;

    private final Opened opened;

    private transient Answer answer;

    private transient MapState<Integer, Car> cars;
    private transient MapState<Integer, Segment> segments;
    private transient MapState<Integer, Place> places;
    /** Accidents by 100 * minute + segment. */
    private transient MapState<Integer, Boolean> accidents;
    /** Reports that wait for their minute. */
    private transient ListState<Report> waiting;
    private transient Counter unordered;

    Roads(Opened opened) {
        this.opened = opened;
    }

    /** Called in every task when it is open. */
    interface Opened extends Runnable, java.io.Serializable {}

    @Override
    public void open(OpenContext context) {
        answer = new Answer();
        IntSerializer ints = IntSerializer.INSTANCE;
        cars = getRuntimeContext().getMapState(new MapStateDescriptor<>("cars", ints, Car.Serializer.INSTANCE));
        segments =
                getRuntimeContext().getMapState(new MapStateDescriptor<>("segments", ints, Segment.Serializer.INSTANCE));
        places = getRuntimeContext().getMapState(new MapStateDescriptor<>("places", ints, Place.Serializer.INSTANCE));
        accidents = getRuntimeContext().getMapState(new MapStateDescriptor<>("accidents", Integer.class, Boolean.class));
        waiting = getRuntimeContext().getListState(new ListStateDescriptor<>("waiting", Report.Serializer.INSTANCE));
        unordered = getRuntimeContext().getMetricGroup().counter("unordered");
        opened.run();
    }

    @Override
    public void processElement(Report report, Context context, Collector<Answer> out) throws Exception {
        Car car = cars.get(report.vid);
        if (car == null) {
            car = new Car();
            context.timerService().registerEventTimeTimer(forgettingAfter(report));
        } else if (report.time <= car.time) {
            unordered.inc(); // a duplicate, or a vehicle whose reports come by several partitions
            return;
        }
        boolean newTrip = car.startsTrip(report);
        boolean moved = newTrip || car.seg() != report.seg();
        follow(car, report, newTrip, context);
        Segment segment = count(car, report);
        remember(car, report);
        if (moved && report.lane != Rules.EXIT_LANE) {
            if (context.timerService().currentWatermark() >= startOf(report.minute())) {
                answer(report, segment, out);
            } else {
                waiting.add(report);
                context.timerService().registerEventTimeTimer(startOf(report.minute()));
            }
        }
        segments.put(report.seg(), segment);
    }

    @Override
    public void onTimer(long timestamp, OnTimerContext context, Collector<Answer> out) throws Exception {
        int second = (int) (timestamp / 1000);
        switch ((int) (timestamp % 1000)) {
            case SECOND:
                findAccidents(second);
                break;
            case MINUTE:
                answerWaiting((second + 1) / 60 + 1, out);
                break;
            default:
                forget(second);
        }
    }

    /** Follows where a vehicle stands. */
    private void follow(Car car, Report report, boolean newTrip, Context context) throws Exception {
        if (car.isStopped()) {
            int key = Place.key(car.lane, car.pos);
            Place left = places.get(key);
            if (left != null) {
                left.leave(report.vid, report.time);
                places.put(key, left);
            }
        }
        car.still = !newTrip && car.standsAt(report) ? car.still + 1 : 1;
        if (car.still >= Rules.STOPPED && Rules.isTravelLane(report.lane)) {
            int key = Place.key(report.lane, report.pos);
            Place place = places.get(key);
            if (place == null) {
                place = new Place();
            }
            place.stop(report.vid, report.time);
            places.put(key, place);
            context.timerService().registerEventTimeTimer(1000L * report.time + SECOND);
        }
    }

    /** Counts a report in the statistics of its segment. */
    private Segment count(Car car, Report report) throws Exception {
        Segment segment = segments.get(report.seg());
        if (segment == null) {
            segment = new Segment();
        }
        int minute = report.minute();
        if (!car.isNew() && car.minute() == minute && car.seg() == report.seg()) {
            double before = (double) car.speeds / car.reports;
            car.speeds += report.spd;
            car.reports++;
            segment.adjust(minute, (double) car.speeds / car.reports - before);
        } else {
            car.speeds = report.spd;
            car.reports = 1;
            segment.enter(minute, report.spd);
        }
        return segment;
    }

    private void remember(Car car, Report report) throws Exception {
        car.time = report.time;
        car.pos = report.pos;
        car.lane = report.lane;
        cars.put(report.vid, car);
    }

    private void answer(Report report, Segment segment, Collector<Answer> out) throws Exception {
        int minute = report.minute();
        if (segment.priced != minute) {
            segment.price(minute, nearestAccident(report.dir, report.seg(), minute - 1));
        }
        answer.vid = report.vid;
        answer.time = report.time;
        answer.lav = segment.lav;
        answer.toll = segment.toll;
        answer.alert = segment.alert;
        answer.arrival = report.arrival;
        out.collect(answer);
    }

    private void answerWaiting(int minute, Collector<Answer> out) throws Exception {
        Iterable<Report> reports = waiting.get();
        waiting.clear();
        for (Report report : reports) {
            if (report.minute() > minute) {
                waiting.add(report);
                continue;
            }
            Segment segment = segments.get(report.seg());
            answer(report, segment, out);
            segments.put(report.seg(), segment);
        }
    }

    private int nearestAccident(int dir, int seg, int minute) throws Exception {
        for (int i = 0; i <= Rules.UPSTREAM; i++) {
            int downstream = dir == 0 ? seg + i : seg - i;
            if (downstream < 0 || downstream > Rules.LAST_SEGMENT) {
                break;
            }
            if (accidents.contains(100 * minute + downstream)) {
                return downstream;
            }
        }
        return -1;
    }

    private void findAccidents(int second) throws Exception {
        int minute = second / 60 + 1;
        for (Iterator<Map.Entry<Integer, Place>> all = places.iterator(); all.hasNext(); ) {
            Map.Entry<Integer, Place> entry = all.next();
            Place place = entry.getValue();
            if (place.hasAccident(second)) {
                accidents.put(100 * minute + Place.seg(entry.getKey()), true);
            }
            place.forget(second);
            if (place.isEmpty()) {
                all.remove();
            } else {
                entry.setValue(place);
            }
        }
    }

    /** Forgets vehicles that were silent for so long that their next report starts a trip, and old accidents. */
    private void forget(int second) throws Exception {
        for (Iterator<Map.Entry<Integer, Car>> all = cars.iterator(); all.hasNext(); ) {
            if (all.next().getValue().time < second - 60) {
                all.remove();
            }
        }
        for (Iterator<Integer> all = accidents.keys().iterator(); all.hasNext(); ) {
            if (all.next() / 100 < second / 60 - 1) {
                all.remove();
            }
        }
    }

    /** The watermark by which all minutes before this one are complete. */
    private static long startOf(int minute) {
        return 60_000L * (minute - 1) - 1000 + MINUTE;
    }

    /** Once per minute while there are new vehicles, at another second for each road. */
    private static long forgettingAfter(Report report) {
        int stagger = Math.floorMod(7 * report.road(), 60);
        return 1000L * (60 * (report.minute() + 1) + stagger) + FORGET;
    }
}
