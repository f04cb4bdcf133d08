"""What folders hold: the manifests of runs and data sets, histories, and the files an engine keeps for itself."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from fuzz.campaign import ACCEPTED, Reader
from fuzz.lines import ROWS, _text
from slipstream._berlinmod.dataset import Dataset, write_manifest
from slipstream._berlinmod.dataset import DatasetManifest as DataManifest
from slipstream._cuboid.fragment import Fragment
from slipstream._cuboid.log import compress_rows, decompress_rows
from slipstream._cuboid.query.stream_functions import Pattern
from slipstream._cuboid.schema import AST, Plain, Schema
from slipstream._cuboid.snapshots import snapshot_files
from slipstream._feeds.clock import Clock
from slipstream._feeds.history import History, HistoryIndex, digest_file
from slipstream._feeds.lane_parcels import end_lanes, make_parcel
from slipstream._feeds.parse import parse_text
from slipstream._feeds.run import Run
from slipstream._feeds.tuple_text import import_text
from slipstream._io import outputs
from slipstream._io.outputs import JOURNAL
from slipstream._linear_road.job.toll_journal import Detail, read_journal
from slipstream._linear_road.job.toll_layout import STATE_VERSION, Layout
from slipstream._linear_road.tasks.intake import Intake
from slipstream._runtime import job
from slipstream._runtime.job import JobFile
from slipstream._runtime.state.store import MemoryStore

CAR = Schema("CAR", (AST("speed", "u1", 6), Plain("lane", "u1")), key="vid")


class Runs:
    """A run whose manifest, tuples or history are damaged."""

    def __init__(self, scratch: Path) -> None:
        source = scratch / "source.dat"
        source.write_bytes(_text(ROWS))
        self.run = import_text(source, scratch / "whole")
        self.manifest = (self.run.path / "manifest.json").read_bytes()
        self.tuples = (self.run.path / self.run.manifest.expressways[0].file).read_bytes()
        self._digests = {e.xway: e.sha256 for e in self.run.manifest.expressways}
        history = self.run.path / "history"
        (history / "arrays").mkdir(parents=True)
        array = history / "arrays" / "tolls.npy"
        np.save(array, np.zeros((self.run.manifest.vid_stride, 69), np.uint16))
        self.array = array.read_bytes()
        xways = tuple(e.xway for e in self.run.manifest.expressways)
        checks = {"arrays/tolls.npy": digest_file(array)}
        index = HistoryIndex(1, xways, self.run.manifest.vid_stride, 2, {"tolls": 3}, checks)
        self.index = index.to_json().encode()
        (history / "history.json").write_bytes(self.index)

    def with_manifest(self, data: bytes) -> str:
        """A damaged manifest; what is accepted describes the tuples that are there."""
        (self.run.path / "manifest.json").write_bytes(data)
        run = Run.open(self.run.path)
        manifest = run.manifest
        wholes = [manifest.seconds, manifest.vehicles, manifest.vid_stride, manifest.qid_stride, manifest.multiply]
        assert all(type(value) is int and value >= 0 for value in wholes), f"wholes {wholes}"
        assert {e.xway for e in manifest.expressways} <= set(self._digests), "an expressway that is not there"
        assert len({e.xway for e in manifest.expressways}) == run.stored, "an expressway twice"
        for expressway in manifest.expressways:
            assert sum(expressway.counts.values()) == expressway.tuples
            assert manifest.seconds > expressway.last_second, "it would end before its last tuple"
        assert run.minutes == [0, 1][: len(run.minutes)]
        assert run.xway_stride >= 0
        manifest.to_json()
        sum(run.manifest.counts.values())
        for stored in range(run.stored):
            run.shift(run.minute(stored, 0), 1 if run.copies > 1 else 0)
        return ACCEPTED

    def with_tuples(self, data: bytes) -> str:
        """Damaged tuples: what is accepted and verified is what was written."""
        (self.run.path / "manifest.json").write_bytes(self.manifest)
        place = self.run.path / self.run.manifest.expressways[0].file
        place.write_bytes(data)
        try:
            run = Run.open(self.run.path)
            run.verify()
        finally:
            place.write_bytes(self.tuples)
        return ACCEPTED

    def with_index(self, data: bytes) -> str:
        """The damaged index of a history."""
        (self.run.path / "manifest.json").write_bytes(self.manifest)
        (self.run.path / "history" / "history.json").write_bytes(data)
        history = History.open(self.run)
        assert history.tolls.shape == (self.run.manifest.vid_stride, 69)
        history.verify()
        return ACCEPTED

    def with_array(self, data: bytes) -> str:
        """A damaged array of a history."""
        (self.run.path / "manifest.json").write_bytes(self.manifest)
        (self.run.path / "history" / "history.json").write_bytes(self.index)
        place = self.run.path / "history" / "arrays" / "tolls.npy"
        place.write_bytes(data)
        try:
            tolls = History.open(self.run).tolls
            assert tolls.shape == (self.run.manifest.vid_stride, 69)
            assert tolls.dtype == np.uint16
        finally:
            place.write_bytes(self.array)
        return ACCEPTED


class Engine:
    """The files of an engine's folder."""

    def __init__(self, scratch: Path) -> None:
        self._out = scratch / "engine"
        self._out.mkdir()
        self._snapshot = self._out / "snapshot"
        fixed = {"source": "run first", "rules": "2004", "lateness": 60, "outputs": "answers", "start": "", "until": -1}
        keys = {"fragments": [0, 5], "shards": [0, 5], "partitions": 2}
        self.layout = json.dumps(asdict(JobFile("toll", STATE_VERSION, fixed, keys, "an id"))).encode()
        self.clock = json.dumps(asdict(Clock(1.0, 1_700_000_000_000, 30))).encode()
        details = [
            Detail(30 * n, 31_000 * n, [[0, 30 * n, 2, 900]], [n, 3, 7, 31], 0, 100 * n, 10 * n) for n in range(4)
        ]
        batches = [
            outputs.Batch(n, 1_700_000_000_000, {"notifications": 2}, n, 5, asdict(detail))
            for n, detail in enumerate(details)
        ]
        self.journal = b"".join(json.dumps(asdict(batch)).encode() + b"\n" for batch in batches)
        snapshot_files.Catalogue({"car": CAR}, {"w": Pattern("w", (9.0, 3.0, 9.0))}).write(self._snapshot)
        self.catalogue = (self._snapshot / snapshot_files.FILE).read_bytes()
        fragment = Fragment(CAR)
        fragment.apply(np.zeros(3, CAR.dtype).tobytes())
        snapshot_files.write_image(self._out / "0.image", fragment)
        snapshot_files.write_delta(self._out / "0.delta", [np.zeros(2, CAR.dtype).tobytes()], np.array([5], np.int64))
        self.image, self.delta = ((self._out / name).read_bytes() for name in ("0.image", "0.delta"))
        self.rows = compress_rows(np.zeros(5, CAR.dtype).tobytes(), CAR.dtype.itemsize)
        intake, store = Intake(60), MemoryStore()
        intake.take([make_parcel(parse_text(_text(ROWS)).tuples)])
        intake.save(store)
        self.intake = store[0]
        self.pending = store[1]

    def _written(self, name: str, data: bytes) -> Path:
        place = self._out / name
        place.write_bytes(data)
        return place

    def with_layout(self, data: bytes) -> str:
        """How the engine was laid out."""
        layout = Layout.read(self._written("job.json", data).parent)
        assert all(type(label) is int for label in (*layout.fragments, *layout.shards))
        assert type(layout.partitions) is int
        assert layout.partitions > 0
        assert layout.fragments
        return ACCEPTED

    def with_clock(self, data: bytes) -> str:
        """The clock."""
        clock = Clock.read(self._written("clock.json", data))
        assert clock is not None
        assert isinstance(clock.now_ms(), int)
        assert isinstance(clock.commit_ms(5, 0), int)
        return ACCEPTED

    def with_journal(self, data: bytes) -> str:
        """The journal: batches in order, or damaged."""
        self._written(JOURNAL, data)
        found = read_journal(self._out)
        numbers = [batch.batch for batch in found]
        assert numbers == sorted(set(numbers)), "batches doubled or out of order"
        for batch in found:
            said = {**asdict(batch), **asdict(batch.detail)}
            wholes = [value for name, value in said.items() if name not in ("detail", "answers", "irregular")]
            assert all(type(value) is int for value in (*wholes, *batch.detail.irregular))
            assert all(len(row) == 4 for row in batch.answers)
        last = outputs.last_batch(self._out)
        assert (last.batch if last else -1) == (numbers[-1] if numbers else -1)
        return ACCEPTED

    def with_catalogue(self, data: bytes) -> str:
        """The catalogue of a snapshot."""
        (self._snapshot / snapshot_files.FILE).write_bytes(data)
        catalogue = snapshot_files.Catalogue.read(self._snapshot)
        assert all(schema.dtype.itemsize for schema in catalogue.cuboids.values())
        assert all(isinstance(v, float | int) for p in catalogue.patterns.values() for v in p.values)
        return ACCEPTED

    def with_image(self, data: bytes) -> str:
        """The image of a fragment."""
        fragment = snapshot_files.open_image(self._written("0.image", data), CAR)
        assert fragment.rows.nbytes <= len(data)
        fragment.find(np.array([0, 5, -1], np.int64))
        return ACCEPTED

    def with_delta(self, data: bytes) -> str:
        """What a batch changed."""
        rows, gone, *_ = snapshot_files.read_delta(self._written("0.delta", data))
        fragment = Fragment(CAR)
        fragment.apply(rows)
        fragment.remove(gone)
        return ACCEPTED

    def with_rows(self, data: bytes) -> str:
        """Rows in the state store."""
        fragment = Fragment(CAR)
        fragment.apply(decompress_rows(data, CAR.dtype.itemsize))
        return ACCEPTED

    def with_intake(self, data: bytes) -> str:
        """How far an intake had come, in the state store."""
        return self._with_entries({0: data, 1: self.pending})

    def with_pending(self, data: bytes) -> str:
        """The tuples that an intake holds, in the state store."""
        return self._with_entries({0: self.intake, 1: data})

    def _with_entries(self, entries: dict[int, bytes]) -> str:
        intake = Intake.load(60, 5_000, MemoryStore(entries))
        intake.take([make_parcel(parse_text(_text(ROWS)).tuples), end_lanes()])
        intake.release()
        return ACCEPTED


class Jobs:
    """The files in the folder of any job: what it is, its journal, and the log of a table."""

    def __init__(self, scratch: Path) -> None:
        self._out = scratch / "job"
        job.JobFile("cuboid", 1, {"lateness": 60}, {"labels": [0, 3]}).write(self._out)
        committed = outputs.Outputs(self._out, "made", {"found": pa.schema([("x", pa.int64())])})
        for number in range(3):
            written = outputs.write(self._out, "found", pa.table({"x": [number, 7]}), number)
            committed.commit(number, [written], tuples=2, rejects=number, detail={"newest": number})
        self._log = self._out / "outputs" / "found" / "_delta_log" / f"{2:020}.json"
        self.job, self.journal, self.log = (
            place.read_bytes() for place in (self._out / job.FILE, self._out / outputs.JOURNAL, self._log)
        )

    def with_job(self, data: bytes) -> str:
        """What the job is."""
        (self._out / job.FILE).write_bytes(data)
        found = job.JobFile.read(self._out)
        assert type(found.state_version) is int
        assert all(isinstance(part, dict) for part in (found.settings, found.layout))
        return ACCEPTED

    def with_journal(self, data: bytes) -> str:
        """The journal: batches in order, or damaged."""
        (self._out / outputs.JOURNAL).write_bytes(data)
        try:
            found = outputs.read_journal(self._out)
            assert [batch.batch for batch in found] == list(range(len(found)))
            assert all(type(rows) is int for batch in found for rows in batch.outputs.values())
            last = outputs.last_batch(self._out)
            assert last == (found[-1] if found else None)
        finally:
            (self._out / outputs.JOURNAL).write_bytes(self.journal)
        return ACCEPTED

    def with_log(self, data: bytes) -> str:
        """The log of a table: what is accepted can be read."""
        self._log.write_bytes(data)
        assert outputs.read(self._out, "found").num_rows <= 6
        outputs.read_newest(self._out, "found", 3)
        return ACCEPTED


def _data_set(scratch: Path) -> Reader:
    folder = scratch / "data"
    folder.mkdir()
    write_manifest(folder, DataManifest("made", 1, 2, 3, "2007-05-28", "2007-05-29"))

    def read(data: bytes) -> str:
        (folder / "manifest.json").write_bytes(data)
        Dataset.open(folder)
        return ACCEPTED

    return Reader("BerlinMOD manifest", "json", [(folder / "manifest.json").read_bytes()], read)


def readers(scratch: Path) -> list[Reader]:
    """The readers of folders."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    runs, engine, jobs = Runs(scratch), Engine(scratch), Jobs(scratch)
    return [
        Reader("run manifest", "json", [runs.manifest], runs.with_manifest, 4),
        Reader("tuples of a run", "bytes", [runs.tuples], runs.with_tuples),
        Reader("index of a history", "json", [runs.index], runs.with_index, 2),
        Reader("array of a history", "bytes", [runs.array], runs.with_array),
        _data_set(scratch),
        Reader("engine's layout", "json", [engine.layout], engine.with_layout),
        Reader("engine's clock", "json", [engine.clock], engine.with_clock),
        Reader("engine's journal", "jsonl", [engine.journal], engine.with_journal, 2),
        Reader("job", "json", [jobs.job], jobs.with_job),
        Reader("journal of a job", "jsonl", [jobs.journal], jobs.with_journal, 2),
        Reader("log of a table", "jsonl", [jobs.log], jobs.with_log),
        Reader("catalogue of a snapshot", "json", [engine.catalogue], engine.with_catalogue, 2),
        Reader("image of a snapshot", "bytes", [engine.image], engine.with_image),
        Reader("delta of a snapshot", "bytes", [engine.delta], engine.with_delta),
        Reader("rows of the state store", "bytes", [engine.rows], engine.with_rows),
        Reader("intake of the state store", "bytes", [engine.intake], engine.with_intake),
        Reader("pending tuples of the state store", "bytes", [engine.pending], engine.with_pending),
    ]
