"""A morning in Berlin: vehicles report by GPS, pay for the ring by segment and for the centre on entering.

`make berlin` runs it. BerlinMOD's vehicles are generated and driven as a live feed with noise and losses; one job
matches them to the roads, tolls the ring, charges the cordon and archives every trip; then the archive is asked in SQL,
and a picture is drawn.
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
#: where the middle of the city is
CENTRE = "13.3777,52.5163"
#: seconds that a position may wait for later ones, which show the road that it is on
LAG = 20

GPS = {"id": "bigint", "time": "double", "lon": "double", "lat": "double", "speed": "double", "heading": "double"}


def ring_toll(at: ss.SegmentMinute) -> Any:
    """Ten cents a kilometre, half as much again before nine, and nothing near an accident."""
    rush = (at.minute_of_day >= 420) & (at.minute_of_day < 540)
    return np.where(at.accident, 0, np.where(rush, 15, 10))


def on_the_ring(matched: ss.Stream, roads: ss.Roads) -> ss.Stream:
    """Where vehicles are on the ring: its direction, and metres along it."""
    placed = matched.join(roads.corridor(ref="A 10", segment=1000), "left.edge = right.edge")
    return placed.select(
        "id",
        time="cast(floor(time) as bigint)",
        speed="cast(floor(speed) as bigint)",
        direction="dir",
        position="cast(floor(start + offset) as bigint)",
    )


def make_job(gps: ss.Stream, roads: ss.Roads, out: Path) -> ss.Job:
    """The job: positions on the streets, tolls on the ring, the cordon, and the archive."""
    rules = ss.Rules.general("ring", ring_toll, report_every=5, trip_gap=60)
    matched = gps.match(roads, x="lon", y="lat", degrees=True, lag=LAG, noise=8)
    ring = on_the_ring(matched, roads).toll(rules=rules, lateness=LAG + 5)
    visits = gps.charge_zones(HERE / "cordon.geojson")
    job = (
        ss.Job(str(out))
        .write(matched, "positions")
        .write(ring)
        .write(visits, "cordon")
        .write(visits.output("entries"), "cordon_entries")
    )
    return job.archive(gps, gap=300)


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
    done = ss.open(out)
    status = done.status()
    print(f"\n{status.tuples:,} positions, {status.rejects} of them unusable; {len(done.trips()):,} trips archived.")
    entered = done.sql("SELECT count(*) AS vehicles, sum(charged) AS cents FROM account").iloc[0]
    print(f"On the ring, {entered.vehicles:.0f} vehicles paid {entered.cents / 100:.2f} in tolls.")
    trips = done.trips().to_spark()
    spark = trips.sparkSession
    trips.createOrReplaceTempView("trips")
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


def draw(out: Path, roads: ss.Roads, file: Path) -> None:
    """The trips, the cordon and where vehicles entered it."""
    import json

    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import shapely

    plane = roads.plane
    assert plane is not None
    done = ss.open(out)
    figure, axes = plt.subplots(figsize=(8, 8))
    for trip in done.trips().to_pandas()["Trip"]:
        axes.plot(trip["x"], trip["y"], color="#4878a8", linewidth=0.5, alpha=0.4)
    edges = [edge for edge in roads.edges.to_pylist() if edge["ref"] == "A 10" and edge["forward"]]
    for n, edge in enumerate(edges):
        ends = shapely.get_coordinates(shapely.from_wkb(edge["geometry"])).T
        axes.plot(*plane.locate(*ends), color="#e67e22", linewidth=2, label="" if n else "ring")
    border = json.loads((HERE / "cordon.geojson").read_text())["features"][0]["geometry"]["coordinates"][0]
    axes.fill(*np.transpose(border), facecolor="#c0392b22", edgecolor="#c0392b", label="cordon")
    axes.set_aspect(1 / np.cos(np.radians(52.5)))
    axes.set(title="A morning in Berlin", xlabel="degrees east", ylabel="degrees north")
    axes.legend(loc="upper right")
    figure.savefig(file, dpi=130, bbox_inches="tight")


def main() -> None:
    """Run it all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/berlin"), help="a folder for all that it makes")
    parser.add_argument("--scale", default="0.005", help="of the data set: 1 is 2,000 vehicles")
    given = parser.parse_args()
    data, streets, out = given.out / "data", given.out / "roads", given.out / "tolls"
    if not data.exists():
        print("1. BerlinMOD's vehicles and their roads ...", flush=True)
        subprocess.run(
            [*SLIPSTREAM, "berlinmod", "generate", "--scale", given.scale, "--out", str(data)],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    if not streets.exists():
        place = ["--centre", CENTRE, "--out", str(streets)]
        subprocess.run([*SLIPSTREAM, "roads", "import", str(data), *place], check=True, stdout=subprocess.DEVNULL)
    roads = ss.Roads.open(streets)
    print("2. They drive, and the job listens ...", flush=True)
    port = free_port()
    driver = drive(data, port)
    try:
        make_job(ss.read(f"tcp:127.0.0.1:{port}", GPS), roads, out).run()
    finally:
        driver.terminate()
        driver.wait()
    print("3. What happened")
    report(out)
    draw(out, roads, given.out / "berlin.png")
    print(f"\nPicture: {given.out / 'berlin.png'}. To look around: slipstream console {given.out}")


if __name__ == "__main__":
    main()
