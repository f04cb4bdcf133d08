"""A morning in Berlin: vehicles report by GPS, pay for the ring by segment and for the centre on entering.

`make berlin` runs it. BerlinMOD's vehicles are generated and driven as a live feed with noise and losses; one job tolls
the ring, charges the cordon and archives every trip; then the archive is asked in SQL, and a picture is drawn.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import slipstream as ss

HERE = Path(__file__).parent
HOUR = 3600
#: Monday morning, in seconds of the data set, which begins on Sunday
SINCE, UNTIL = 30 * HOUR, 34 * HOUR
#: the middle of the city, and metres in a degree there
LON, LAT, EAST, NORTH = 13.3777, 52.5163, 67_880, 111_260
#: The ring is an ellipse around the middle: the half axes of the city, of which it is a share, and its length.
WIDE, HIGH, SHARE, ROUND = 20_000, 17_500, 0.493, 58_100
#: what counts as on it: metres aside, and the cosine of the angle between the directions
ASIDE, ALONG = 150, 0.8

GPS = {"id": "bigint", "time": "double", "lon": "double", "lat": "double", "speed": "double", "heading": "double"}


def ring_toll(at: ss.SegmentMinute) -> Any:
    """Ten cents a kilometre, half as much again before nine, and nothing near an accident."""
    rush = (at.minute_of_day >= 420) & (at.minute_of_day < 540)
    return np.where(at.accident, 0, np.where(rush, 15, 10))


def on_the_ring(gps: ss.Stream) -> ss.Stream:
    """Where vehicles are on the ring: metres along it from the west, and in which direction they go."""
    flat = gps.select(
        "id",
        "heading",
        "speed",
        "time",
        u=f"(lon - {LON}) * {EAST}E0 / {WIDE}",
        v=f"(lat - {LAT}) * {NORTH}E0 / {HIGH}",
    )
    polar = flat.select("id", "heading", "speed", "time", "u", "v", r="sqrt(u * u + v * v)", angle="atan2(v, u)")
    near = polar.filter(f"abs(r - {SHARE}E0) * {(WIDE + HIGH) / 2}E0 < {ASIDE} and speed > 5")
    # how well a vehicle's direction is that of the ring, anticlockwise: the cosine of the angle between them
    ring = near.with_columns(east=f"-v * {WIDE}", north=f"u * {HIGH}")
    along = ring.with_columns(
        along="(sin(radians(heading)) * east + cos(radians(heading)) * north) / sqrt(east * east + north * north)"
    )
    return along.filter(f"abs(along) > {ALONG}E0").select(
        "id",
        time="cast(floor(time) as bigint)",
        speed="cast(floor(speed) as bigint)",
        direction="case when along > 0 then 0 else 1 end",
        position=f"cast(floor((angle + {np.pi}E0) / {2 * np.pi}E0 * {ROUND - 1}) as bigint)",
    )


def make_job(gps: ss.Stream, out: Path) -> tuple[ss.Job, ss.Tolled]:
    """The job: tolls on the ring, the cordon, and the archive."""
    rules = ss.Rules.general("ring", ring_toll, report_every=5, trip_gap=60)
    ring = on_the_ring(gps).toll(rules=rules, lateness=5)
    visits = gps.charge_zones(HERE / "cordon.geojson")
    job = ss.Job(str(out)).write(ring).write(visits, "cordon").write(visits.output("entries"), "cordon_entries")
    return job.archive(gps, gap=300), ring


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def drive(data: Path, port: int) -> subprocess.Popen[bytes]:
    """The vehicles of a data set, as receivers with an error of 8 m that lose one report in fifty."""
    feed = ["--as", "gps", "--interval", "5", "--noise", "8", "--loss", "0.02", "--jitter", "1", "--speed", "0"]
    span = ["--since", str(SINCE), "--until", str(UNTIL), "--to", f"tcp:127.0.0.1:{port}"]
    return subprocess.Popen([*SLIPSTREAM, "drive", str(data), *feed, *span], stdout=subprocess.DEVNULL)


SLIPSTREAM = [sys.executable, "-m", "slipstream"]


def report(out: Path) -> None:
    """What happened, asked of the committed results and of the archive."""
    from pyspark.sql import SparkSession

    done = ss.open(out)
    status = done.status()
    print(f"\n{status.tuples:,} positions, {status.rejects} of them unusable; {len(done.trips()):,} trips archived.")
    entered = done.sql("SELECT count(*) AS vehicles, sum(charged) AS cents FROM account").iloc[0]
    print(f"On the ring, {entered.vehicles:.0f} vehicles paid {entered.cents / 100:.2f} in tolls.")
    done.trips().to_spark().createOrReplaceTempView("trips")
    spark = SparkSession.getActiveSession()
    assert spark is not None
    done["cordon"].to_spark(spark).createOrReplaceTempView("cordon")
    for title, query in QUERIES.items():
        print(f"\n{title}")
        print(spark.sql(query).toPandas().to_string(index=False, float_format="{:.1f}".format))


QUERIES = {
    "The cordon, by the hour of leaving": """
        SELECT hour(timestamp_seconds(exited)) AS hour, count(*) AS visits, count(DISTINCT id) AS vehicles,
               avg(seconds) / 60 AS minutes, sum(amount) AS paid
        FROM cordon GROUP BY 1 ORDER BY 1""",
    "The vehicles that paid most for the centre, and how long they have been moving": """
        SELECT c.id, c.paid, c.visits, t.trips, t.minutes
        FROM (SELECT id, sum(amount) AS paid, count(*) AS visits FROM cordon GROUP BY id) c
        JOIN (SELECT id, count(*) AS trips,
                     sum(unix_seconds(element_at(Trip.t, -1)) - unix_seconds(Trip.t[0])) / 60 AS minutes
              FROM trips GROUP BY id) t USING (id)
        ORDER BY paid DESC, id LIMIT 5""",
}


def draw(out: Path, file: Path) -> None:
    """The trips, the cordon and where vehicles entered it."""
    import json

    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    done = ss.open(out)
    figure, axes = plt.subplots(figsize=(8, 8))
    for trip in done.trips().to_pandas()["Trip"]:
        axes.plot(trip["x"], trip["y"], color="#4878a8", linewidth=0.5, alpha=0.4)
    turn = np.linspace(0, 2 * np.pi, 200)
    axes.plot(
        LON + SHARE * WIDE * np.cos(turn) / EAST,
        LAT + SHARE * HIGH * np.sin(turn) / NORTH,
        color="#e67e22",
        label="ring",
    )
    border = json.loads((HERE / "cordon.geojson").read_text())["features"][0]["geometry"]["coordinates"][0]
    axes.fill(*np.transpose(border), facecolor="#c0392b22", edgecolor="#c0392b", label="cordon")
    axes.set_aspect(NORTH / EAST)
    axes.set(title="A morning in Berlin", xlabel="degrees east", ylabel="degrees north")
    axes.legend(loc="upper right")
    figure.savefig(file, dpi=130, bbox_inches="tight")


def main() -> None:
    """Run it all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/berlin"), help="a folder for all that it makes")
    parser.add_argument("--scale", default="0.005", help="of the data set: 1 is 2,000 vehicles")
    given = parser.parse_args()
    data, out = given.out / "data", given.out / "tolls"
    if not data.exists():
        print("1. BerlinMOD's vehicles ...", flush=True)
        subprocess.run(
            [*SLIPSTREAM, "berlinmod", "generate", "--scale", given.scale, "--out", str(data)],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    print("2. They drive, and the job listens ...", flush=True)
    port = free_port()
    driver = drive(data, port)
    try:
        make_job(ss.read(f"tcp:127.0.0.1:{port}", GPS), out)[0].run()
    finally:
        driver.terminate()
        driver.wait()
    print("3. What happened")
    report(out)
    draw(out, given.out / "berlin.png")
    print(f"\nPicture: {given.out / 'berlin.png'}. To look around: slipstream console {given.out}")


if __name__ == "__main__":
    main()
