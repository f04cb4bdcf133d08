"""File formats: what lies in which folder, field by field."""

from __future__ import annotations

import pyarrow as pa

from reference.tables import WRITTEN, cuboid, fields, first_line, layout, table
from slipstream._archive import trip_tables as archives
from slipstream._berlinmod import dataset
from slipstream._cuboid.snapshots import snapshot_files as snapshots
from slipstream._feeds import clock, history, run, trains, tuples
from slipstream._io import outputs
from slipstream._linear_road import answers, output_tables
from slipstream._linear_road.job import toll_journal
from slipstream._linear_road.job import toll_layout as engine
from slipstream._linear_road.state import published
from slipstream._moving import types
from slipstream._moving.space import systems
from slipstream._network.running import connection_points, run_folder
from slipstream._runtime import job
from slipstream._trajectories import data
from slipstream._trajectories.cutting import building


def page() -> str:
    """The page."""
    parts = (
        "# File formats\n\n" + WRITTEN,
        "Everything except the images and deltas of a snapshot is Parquet, JSON, CSV or NumPy's own format, and can be "
        "read without Slipstream. Checkpoints are Spark's.\n",
        *_tuples(),
        *_run(),
        *_history(),
        *_job(),
        *_engine(),
        *_snapshot(),
        *_network(),
        *_trajectories(),
    )
    return "\n".join(parts)


def _tuples() -> tuple[str, ...]:
    rows = [
        (f"`{f.name}`", f.meaning, f.least, f.most if f.most < 2**31 - 1 else "", ", ".join(_carriers(f.name)))
        for f in tuples.RANGES.values()
    ]
    requests = ", ".join(f"`{name}`" for name in trains.REQUEST_FIELDS)
    return (
        "## The tuple\n",
        "Fifteen 32-bit integers, -1 where a field does not apply; as text, one comma-separated line per tuple.\n",
        table(("field", "meaning", "least", "most", "carried by"), rows),
        "What happens to a tuple outside these ranges: [Linear Road's rules](linear-road.md#what-is-rejected).\n",
        "### Trains\n",
        "Encoding `train`: the tuples of one second as columns of bytes. "
        f"Position reports take {trains._REPORT_BYTES} bytes each (vid, xway, spd, lane + 8 dir, pos); "
        f"requests follow with {requests}, 4 bytes each.\n",
        "A train without tuples is a heartbeat: everything before its second has been sent. The engine answers those "
        "seconds at once instead of waiting for late tuples, and rejects tuples that still arrive for them. "
        "`slipstream drive --format train` sends a heartbeat after every second.\n",
    )


def _carriers(name: str) -> list[str]:
    if name == "type":
        return ["all"]
    return [tuples.KINDS[kind] for kind, carried in tuples.CARRIES.items() if name in carried]


def _run() -> tuple[str, ...]:
    return (
        "## A run\n",
        layout(run),
        f"`manifest.json` has `format` `{run.FORMAT}`, `version` {run.VERSION}, `counts` and\n",
        fields(run.Manifest),
        "Each of `expressways`:\n",
        fields(run.Expressway),
        "Each of `accidents`:\n",
        fields(run.Accident),
    )


def _history() -> tuple[str, ...]:
    return (
        "## The history of a run\n",
        layout(history),
        f"`history.json` has `format` `{history.FORMAT}`, `version` {history.VERSION} and\n",
        fields(history.HistoryIndex),
    )


def _job() -> tuple[str, ...]:
    return (
        "## The folder of a job\n",
        layout(job),
        f"`{job.FILE}`, what must stay the same from start to start:\n",
        fields(job.JobFile),
        f"A line of the journal `{outputs.JOURNAL}`:\n",
        fields(outputs.Batch),
        f"Every table has the column `{outputs.BATCH}` before those of its output. Rows of a batch that has no line "
        "in the journal are not committed.\n",
    )


def _engine() -> tuple[str, ...]:
    kinds = [
        (
            one.kind,
            f"`{one.name}`",
            ", ".join(f"`{name}`" for name in (*one.columns, "delay_ms")),
            ", ".join(("kind", *one.paper)),
            f"{answers.LIMITS[one.kind]} s",
        )
        for one in output_tables.ANSWER_TABLES
    ]
    return (
        "## The toll engine's folder\n",
        "It is that of every job, with these outputs. The tables of answers, the order of their fields in "
        "`output.csv`, and their limits in the 2004 edition:\n",
        table(("kind", "table", "columns", "output.csv", "limit"), kinds),
        "`delay_ms` is how long before its Time the question of an answer arrived. With the instant of the commit, "
        "`emitted_ms` in the journal, it makes Emit in milliseconds of the run.\n",
        f"`trips` has {_named(output_tables.TRIP_SCHEMA)}; `rejects` has {_named(output_tables.REJECT_SCHEMA)}.\n",
        "The `detail` of a line of the journal:\n",
        fields(toll_journal.Detail),
        f"What `{job.FILE}` fixes:\n",
        fields(engine.Layout),
        f"`checkpoint/clock.json`. {first_line(clock.Clock)}\n",
        fields(clock.Clock),
        "`metrics.jsonl` and `summary.json`: [metrics](metrics.md).\n",
    )


def _named(schema: pa.Schema) -> str:
    return ", ".join(f"`{name}`" for name in schema.names)


def _snapshot() -> tuple[str, ...]:
    cuboids = [part for name, schema in published.CUBOIDS.items() for part in (f"`{name}`:\n", cuboid(schema))]
    return (
        "## A snapshot of cuboids\n",
        layout(snapshots),
        f"An image has a header of {snapshots._PAGE} bytes (JSON), the rows, and the hash index (`int32`) from the "
        "next page on. A delta has a line of JSON, the rows, and the keys it forgot (`int64`).\n",
        "### The toll engine's cuboids\n",
        *cuboids,
    )


def _network() -> tuple[str, ...]:
    return (
        "## The folder of a network\n",
        layout(run_folder),
        "A connection point or a view:\n",
        layout(connection_points),
        "The network file itself: [networks](networks.md#the-file).\n",
    )


def _trajectories() -> tuple[str, ...]:
    named = (types.POINT, types.IPOINT, types.PERIODS, types.MPOINT, types.MREAL, types.MBOOL, types.LINE, types.REGION)
    named = (*named, *types.OVER_TIME, types.STBOX)
    columns = {"dataScar": dataset.SCAR.names, "dataMcar": dataset.MCAR.names, "dataMtrip": dataset.MTRIP.names}
    return (
        "## Trajectories\n\nThe types of the algebra as Spark SQL has them; times are timestamps, places metres.\n",
        table(("type", "in Spark SQL"), [(f"`{kind.name}`", f"`{kind.sql}`") for kind in named]),
        "### An archive\n",
        layout(archives),
        "The columns are `vid`, `xway`, `dir` and `Trip` (an mpoint). `manifest.json` says that they lie in the plane "
        "of Linear City, where the console draws expressways.\n",
        "### Trips of your own positions\n\nWhat `slipstream trajectories build` and `Trips.write` write:\n",
        layout(data),
        "The metadata of the column `Trip` in every file has the reference system under the key `"
        f"{systems.CRS_KEY}`. `{data.MANIFEST}` has `format` `{data.FORMAT}`, `version` {data.VERSION}, `crs`, the "
        "`options` of the command, and `counts`:\n",
        fields(building.Counts),
        "### A BerlinMOD data set\n",
        layout(dataset),
        table(
            ("table", "columns"), [(f"`{name}`", ", ".join(f"`{c}`" for c in held)) for name, held in columns.items()]
        ),
        f"`manifest.json` has `format` `{dataset.FORMAT}`, `version` {dataset.VERSION} and\n",
        fields(dataset.DatasetManifest),
    )
