package linearroad;

import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;

/** When a partition comes to a second, it has no more of the seconds before. */
final class Seconds implements WatermarkGenerator<Report> {
    private int latest = -1;

    @Override
    public void onEvent(Report report, long timestamp, WatermarkOutput output) {
        if (report.time > latest) {
            latest = report.time;
            output.emitWatermark(new Watermark(1000L * latest - 1));
        }
    }

    @Override
    public void onPeriodicEmit(WatermarkOutput output) {
        // a watermark follows its second at once, so that the first answers of a minute need not wait for a period
    }
}
