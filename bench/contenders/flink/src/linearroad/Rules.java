package linearroad;

/** The numbers of Linear Road's edition of 2004. */
final class Rules {
    static final int MILE = 5280;
    static final int LAST_SEGMENT = 99;
    static final int EXIT_LANE = 4;
    /** Seconds between two reports of a vehicle. */
    static final int PERIOD = 30;
    /** This many reports from one place, and a vehicle is stopped. */
    static final int STOPPED = 4;
    /** An accident matters this many segments upstream. */
    static final int UPSTREAM = 4;
    /** Minutes whose speeds make a Lav. */
    static final int LAV_MINUTES = 5;

    private Rules() {}

    static boolean isTravelLane(int lane) {
        return 1 <= lane && lane <= 3;
    }

    static int toll(int lav, int cars) {
        return lav < 40 && cars > 50 ? 2 * (cars - 50) * (cars - 50) : 0;
    }
}
