package linearroad;

/** A toll notification, and the accident alert that goes with it if there is one. */
public final class Answer {
    public int vid;
    public int time;
    public int lav;
    public int toll;
    /** The segment of the accident, or -1. */
    public int alert;
    /** When the report arrived, in milliseconds since 1970. */
    public long arrival;
}
