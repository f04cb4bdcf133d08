"""BerlinMOD's queries in MobilityDB, over the files that ``export --format mobilitydb`` writes.

The SQL asks what our own files ask (``slipstream/berlinmod/sql/tba``), so that times and answers can be laid side by
side: answers are sets, a place counts as reached within 1e-6 m, the first and second ten of a sample go by its Id.
Trips are kept as MobilityDB-BerlinMOD keeps them, a row each with the trajectory beside it, under GiST and B-tree
indexes. An answer is written to a table, as ours is to Parquet: nothing that a query asks for is optimised away.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from services import service

#: the reference system that berlinmod_load.sql declares for every geometry
SRID = 3857

#: the files and their columns; those of reference system 3857 refuse another
TABLES: dict[LiteralString, LiteralString] = {
    "vehicles": "vehicleid int PRIMARY KEY, licence text, vehicletype text, model text",
    "licences": "licenceid int PRIMARY KEY, licence text, vehicleid int REFERENCES vehicles",
    "points": "pointid int PRIMARY KEY, geom geometry(Point, 3857)",
    "regions": "regionid int PRIMARY KEY, geom geometry(Polygon, 3857)",
    "instants": "instantid int PRIMARY KEY, instant timestamptz",
    "periods": "periodid int PRIMARY KEY, period tstzspan",
    "roadsegments": """segmentid bigint PRIMARY KEY, name text, osmid bigint, tagid int, segmentlength float,
        sourcenode bigint, targetnode bigint, sourceosm bigint, targetosm bigint, timesecsfwd float, timesecsbwd float,
        oneway int, maxspeedfwd float, maxspeedbwd float, priority float, segmentgeo geometry(LineString, 3857)""",
    "municipalities": """municipalityid int PRIMARY KEY, municipalityname text, population int, percpop float,
        popdensitykm2 int, noenterp int, percenterp float, municipalitygeo geometry""",
    "tripsinput": """tripid int, vehicleid int REFERENCES vehicles, startdate date, seqno int,
        point geometry(Point, 3857), t timestamptz""",
}

TRIPS: LiteralString = """
CREATE TABLE trips AS
SELECT tripid, vehicleid, startdate, seqno, trip, trajectory(trip) AS trajectory
FROM (SELECT tripid, vehicleid, startdate, seqno, tgeompointSeq(array_agg(tgeompoint(point, t) ORDER BY t)) AS trip
      FROM tripsinput GROUP BY tripid, vehicleid, startdate, seqno) made;
DROP TABLE tripsinput;
ALTER TABLE trips ADD PRIMARY KEY (tripid);
CREATE INDEX ON trips (vehicleid);
CREATE INDEX ON trips USING gist (trip);
CREATE INDEX ON trips USING gist (trajectory);
CREATE INDEX ON vehicles (licence);
"""

#: samples as the queries ask for them: what is there twice is asked once
SAMPLES: LiteralString = """
CREATE TABLE places AS SELECT DISTINCT geom FROM points WHERE pointid BETWEEN 1 AND 100;
CREATE TABLE places1 AS SELECT DISTINCT geom FROM points WHERE pointid BETWEEN 1 AND 10;
CREATE TABLE regions1 AS SELECT regionid, geom FROM regions WHERE regionid BETWEEN 1 AND 10;
CREATE TABLE instants1 AS SELECT DISTINCT instant FROM instants WHERE instantid BETWEEN 1 AND 10;
CREATE TABLE periods1 AS SELECT DISTINCT period FROM periods WHERE periodid BETWEEN 1 AND 10;
CREATE TABLE licences1 AS SELECT DISTINCT licence, vehicleid FROM licences WHERE licenceid BETWEEN 1 AND 10;
CREATE TABLE licences2 AS SELECT DISTINCT licence, vehicleid FROM licences WHERE licenceid BETWEEN 11 AND 20;
"""

#: who was at which of the first ten points at which of the first ten instants: Q11 and Q12
_THERE: LiteralString = """
there AS (
  SELECT DISTINCT V.licence, P.geom, I.instant
  FROM places1 P CROSS JOIN instants1 I
       JOIN trips T ON T.trip && expandSpace(stbox(P.geom, I.instant), 1e-6) JOIN vehicles V USING (vehicleid)
  WHERE ST_DWithin(valueAtTimestamp(T.trip, I.instant), P.geom, 1e-6))
"""

QUERIES: dict[int, LiteralString] = {
    1: "SELECT DISTINCT licence, model FROM licences JOIN vehicles USING (licence)",
    2: "SELECT count(licence) FROM vehicles WHERE vehicletype = 'passenger'",
    3: """
SELECT DISTINCT L.licence, I.instant, valueAtTimestamp(T.trip, I.instant) AS pos
FROM licences1 L JOIN trips T USING (vehicleid) JOIN instants1 I ON T.trip::tstzspan @> I.instant
""",
    4: """
SELECT DISTINCT P.geom, V.licence
FROM places P JOIN trips T ON ST_DWithin(T.trajectory, P.geom, 1e-6) JOIN vehicles V USING (vehicleid)
""",
    # between places, whenever the two were there: MobilityDB's own distance of two movements is one at a common time
    5: """
WITH paths AS (
  SELECT vehicleid, ST_Collect(trajectory) AS path
  FROM trips
  WHERE vehicleid IN (SELECT vehicleid FROM licences1 UNION SELECT vehicleid FROM licences2)
  GROUP BY vehicleid)
SELECT A.licence AS licence1, B.licence AS licence2, ST_Distance(P.path, Q.path) AS dist
FROM licences1 A JOIN paths P USING (vehicleid), licences2 B JOIN paths Q USING (vehicleid)
WHERE A.licence <> B.licence
""",
    # pairs of trucks before distances: the planner would compare trucks with all vehicles, for eight times as long
    6: """
WITH pairs AS MATERIALIZED (
  SELECT V.licence AS licence1, W.licence AS licence2, T.trip AS trip1, U.trip AS trip2
  FROM vehicles V JOIN trips T ON T.vehicleid = V.vehicleid
       JOIN trips U ON U.trip && expandSpace(T.trip, 10) JOIN vehicles W ON W.vehicleid = U.vehicleid
  WHERE V.vehicletype = 'truck' AND W.vehicletype = 'truck' AND V.licence < W.licence)
SELECT DISTINCT licence1, licence2
FROM pairs
WHERE eDwithin(trip1, trip2, 10)
""",
    7: """
WITH arrivals AS (
  SELECT P.geom, V.licence, startTimestamp(atValues(T.trip, P.geom)) AS arrival
  FROM places P JOIN trips T ON ST_DWithin(T.trajectory, P.geom, 1e-6) JOIN vehicles V USING (vehicleid)
  WHERE V.vehicletype = 'passenger')
SELECT DISTINCT geom, licence
FROM (SELECT *, min(arrival) OVER (PARTITION BY geom) AS earliest FROM arrivals) A
WHERE arrival = earliest
""",
    8: """
SELECT L.licence, P.period, sum(length(atTime(T.trip, P.period))) AS dist
FROM licences1 L JOIN trips T USING (vehicleid) JOIN periods1 P ON T.trip && P.period
GROUP BY L.licence, P.period
""",
    9: """
WITH distances AS (
  SELECT P.periodid, T.vehicleid, sum(length(atTime(T.trip, P.period))) AS dist
  FROM periods P JOIN trips T ON T.trip && P.period
  GROUP BY P.periodid, T.vehicleid)
SELECT P.period, coalesce(max(D.dist), 0) AS dist
FROM periods P LEFT JOIN distances D USING (periodid)
GROUP BY P.periodid
""",
    10: """
WITH meetings AS MATERIALIZED (
  SELECT L.licence, V.licence AS other, T.trip, whenTrue(tDwithin(T.trip, U.trip, 3.0)) AS times
  FROM licences1 L JOIN trips T USING (vehicleid)
       JOIN trips U ON U.vehicleid <> T.vehicleid AND U.trip && expandSpace(T.trip, 3)
       JOIN vehicles V ON V.vehicleid = U.vehicleid)
SELECT licence, other, merge(atTime(trip, times)) AS pos
FROM meetings
WHERE times IS NOT NULL
GROUP BY licence, other
""",
    11: f"WITH {_THERE} SELECT * FROM there",
    12: f"""
WITH {_THERE}
SELECT geom, instant, A.licence AS licence1, B.licence AS licence2
FROM there A JOIN there B USING (geom, instant)
WHERE A.licence < B.licence
""",
    13: """
SELECT DISTINCT R.regionid, P.period, V.licence
FROM regions1 R CROSS JOIN periods1 P JOIN trips T ON T.trip && stbox(R.geom, P.period)
     JOIN vehicles V USING (vehicleid)
WHERE eIntersects(atTime(T.trip, P.period), R.geom)
""",
    14: """
SELECT DISTINCT R.regionid, I.instant, V.licence
FROM regions1 R CROSS JOIN instants1 I JOIN trips T ON T.trip && stbox(R.geom, I.instant)
     JOIN vehicles V USING (vehicleid)
WHERE ST_Intersects(R.geom, valueAtTimestamp(T.trip, I.instant))
""",
    15: """
SELECT DISTINCT P.geom, D.period, V.licence
FROM places1 P CROSS JOIN periods1 D JOIN trips T ON T.trip && expandSpace(stbox(P.geom, D.period), 1e-6)
     JOIN vehicles V USING (vehicleid)
WHERE eDwithin(atTime(T.trip, D.period), P.geom, 1e-6)
""",
    16: """
WITH visits AS MATERIALIZED (
  SELECT R.regionid, P.period, L.licence, atGeometry(atTime(T.trip, P.period), R.geom) AS part
  FROM (SELECT * FROM licences1 UNION SELECT * FROM licences2) L JOIN trips T USING (vehicleid)
       CROSS JOIN periods1 P JOIN regions1 R ON T.trip && stbox(R.geom, P.period)),
pairs AS (
  SELECT regionid, period, A.licence AS licence1, B.licence AS licence2, A.part AS part1, B.part AS part2
  FROM visits A JOIN visits B USING (regionid, period)
  WHERE A.licence < B.licence AND A.licence IN (SELECT licence FROM licences1)
    AND B.licence IN (SELECT licence FROM licences2) AND A.part IS NOT NULL AND B.part IS NOT NULL)
SELECT regionid, period, licence1, licence2 FROM pairs
EXCEPT
SELECT regionid, period, licence1, licence2 FROM pairs WHERE eDwithin(part1, part2, 1e-6)
""",
    17: """
WITH counts AS (
  SELECT P.geom, count(DISTINCT T.vehicleid) AS hits
  FROM places P JOIN trips T ON ST_DWithin(T.trajectory, P.geom, 1e-6)
  GROUP BY P.geom)
SELECT geom FROM counts WHERE hits = (SELECT max(hits) FROM counts)
""",
}


@contextmanager
def mobilitydb() -> Iterator[str]:
    """The connection string of a server that has MobilityDB; skips where there is none."""
    with contextmanager(service)("postgres") as server:
        with psycopg.connect(server) as connection:
            offered = "SELECT 1 FROM pg_available_extensions WHERE name = 'mobilitydb'"
            if connection.execute(offered).fetchone() is None:
                pytest.skip("PostgreSQL has no extension mobilitydb here; build and install MobilityDB for it")
        yield server


def _connected(server: str) -> psycopg.Connection:
    # MobilityDB's library needs that of PostGIS loaded before it, and the files' times are UTC
    options = "-c session_preload_libraries=postgis-3 -c timezone=UTC"
    return psycopg.connect(server, dbname="mobilitydb", options=options, autocommit=True)


class InMobilityDB:
    """A data set in MobilityDB, loaded anew from the files in ``folder``."""

    def __init__(self, server: str, folder: Path) -> None:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("DROP DATABASE IF EXISTS mobilitydb")
            connection.execute("CREATE DATABASE mobilitydb")
        # a session knows MobilityDB's operators only if the extension was there when it began
        with _connected(server) as connection:
            connection.execute("CREATE EXTENSION mobilitydb CASCADE")
        self._connection = _connected(server)
        run = self._connection.execute
        for name, columns in TABLES.items():
            run(f"CREATE TABLE {name} ({columns})")
            self._copy(name, folder / f"{name}.csv")
        run(TRIPS)
        run(SAMPLES)
        run("VACUUM ANALYZE")

    def _copy(self, name: LiteralString, file: Path) -> None:
        command: LiteralString = f"COPY {name} FROM STDIN (FORMAT csv, HEADER match)"
        with self._connection.cursor().copy(command) as copy, file.open("rb") as source:
            while block := source.read(1 << 20):
                copy.write(block)

    def version(self) -> str:
        """Its name and number, as it says them."""
        return str(self._first("SELECT mobilitydb_version()")[0])

    def trips(self) -> tuple[int, float]:
        """How many trips the instants made, and how many metres they are long."""
        count, metres = self._first("SELECT count(*), sum(length(trip)) FROM trips")
        return count, metres

    def _first(self, query: LiteralString) -> tuple[Any, ...]:
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return row

    def ask(self, number: int) -> int:
        """Answer a query into a table; returns how many rows it has."""
        with self._connection.transaction():
            return self._connection.execute(
                f"CREATE TEMPORARY TABLE answer ON COMMIT DROP AS {QUERIES[number]}"
            ).rowcount

    def close(self) -> None:
        """Let the server go."""
        self._connection.close()
