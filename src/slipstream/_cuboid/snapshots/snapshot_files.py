"""The files of a snapshot: the images and deltas of fragments on disk, and which batches are committed.

    SNAPSHOT/cuboids.json                         the cuboids, and the journal that lists committed batches
    SNAPSHOT/car/fragment=3/000000000041.image    all rows after batch 41, with their hash index
    SNAPSHOT/car/fragment=3/000000000042.delta    the rows that batch 42 changed, and the keys it removed
                                                  (both also have the texts of keys, where keys are texts)
    SNAPSHOT/car/fragment=3/000000000007.first    empty: the fragment begins with batch 7
    SNAPSHOT/metrics/fragment=3.jsonl             what each batch cost

Tasks write files atomically under the number of their batch, so that a repeated batch replaces its files. Files are
ignored until their batch is committed, and there is one record of that for all fragments and cuboids: the journal of
the job. So a reader never sees part of a batch.

An image is mapped into memory, not read: opening it is instant, and the readers of a machine share its pages.
"""

from __future__ import annotations

import json
import mmap
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slipstream._cuboid.fragment import EMPTY, Fragment, decode
from slipstream._cuboid.query.stream_functions import Pattern
from slipstream._cuboid.schema import KEY, Schema
from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._feeds.text_ids import decode_checked
from slipstream._io.outputs import JOURNAL, last_batch
from slipstream._runtime.state.id_numbers import Names
from slipstream._tools.files.staging import atomic_write
from slipstream._tools.numba_tools import Longs
from slipstream._tools.strict_json import parse_json

FOLDER, FILE = "snapshot", "cuboids.json"
IMAGE, DELTA, FIRST = "image", "delta", "first"
VERSION = 1
_ANEW = "The stream writes a new image when it starts again."
#: an image's header fills a page, so that its rows begin on one
_PAGE = 4096


@dataclass(frozen=True)
class Catalogue:
    """The contents of a snapshot; ``journal`` lists the committed batches."""

    cuboids: dict[str, Schema]
    patterns: dict[str, Pattern] = field(default_factory=dict)
    journal: str = f"../{JOURNAL}"

    def write(self, folder: Path) -> None:
        """Write the catalogue of a snapshot, replacing any existing one."""
        body = {
            "version": VERSION,
            "journal": self.journal,
            "cuboids": {name: schema.to_json() for name, schema in self.cuboids.items()},
            "patterns": {name: pattern.values for name, pattern in self.patterns.items()},
        }
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / FILE) as file:
            file.write(json.dumps(body, indent=2).encode() + b"\n")

    @classmethod
    def read(cls, folder: Path) -> Catalogue:
        """The catalogue of a snapshot."""
        place = folder / FILE
        if not place.is_file():
            raise BadArgument(
                f"{folder}: no snapshot.",
                hint="`slipstream toll ... --snapshot` and `slipstream cuboid run` create one.",
                code="no-such-file",
            )
        try:
            body = parse_json(place.read_bytes())
            if body["version"] != VERSION:
                raise ValueError(f"version {body['version']}, but this version reads {VERSION}")
            cuboids = {name: Schema.from_json(schema) for name, schema in body["cuboids"].items()}
            patterns = {name: Pattern(name, tuple(map(float, values))) for name, values in body["patterns"].items()}
            if Path(body["journal"]).name != JOURNAL:
                raise ValueError("without the journal of a job; another version of Slipstream wrote it")
            return cls(cuboids, patterns, body["journal"])
        except (OSError, BadArgument, *MALFORMED) as error:
            raise BadInput(
                f"{place}: cannot be read ({error}).", hint="Create the snapshot again.", code="damaged-output"
            ) from error

    def committed(self, folder: Path) -> int:
        """The last committed batch; -1 before the first."""
        last = last_batch((folder / self.journal).parent)
        return -1 if last is None else last.batch


def locate_fragment(snapshot: Path, name: str, fragment: int) -> Path:
    """Return the folder of a fragment's files."""
    return snapshot / name / f"fragment={fragment}"


def name_file(batch: int, kind: str) -> str:
    """Return the name of a batch's file; names sort like batches."""
    return f"{batch:012d}.{kind}"


def note_first(folder: Path, batch: int) -> None:
    """Record the first batch of a fragment: before it there was nothing, after it files may have been removed."""
    if not list_batches(folder, FIRST):
        folder.joinpath(name_file(batch, FIRST)).touch()


def list_batches(folder: Path, kind: str) -> list[int]:
    """The batches with files of a kind, in order."""
    return sorted(int(file.name[:12]) for file in folder.glob(f"[0-9]*.{kind}"))


def write_image(place: Path, fragment: Fragment, names: bytes = b"") -> int:
    """Write a whole fragment with its index, and the names of its keys; returns the bytes written."""
    rows, slots, size, *_ = fragment.parts
    header = {"rows": int(size[0]), "room": rows.size, "places": slots.size, "itemsize": rows.itemsize}
    header["names"] = len(names)
    with atomic_write(place) as file:
        file.write(json.dumps(header).encode().ljust(_PAGE - 1) + b"\n")
        file.flush()
        rows[: size[0]].tofile(file)
        # the gap is a hole in the file, which takes no space
        file.seek(_locate_slots(header))
        slots.tofile(file)
        file.write(names)
    return int(size[0]) * rows.itemsize + slots.nbytes + len(names)


def _locate_slots(header: dict[str, int]) -> int:
    return -(-(_PAGE + header["room"] * header["itemsize"]) // _PAGE) * _PAGE


def open_image(place: Path, schema: Schema) -> Fragment:
    """Open a fragment on a private mapping of an image: changes are visible to this process only."""
    try:
        with place.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        header = parse_json(mapped[:_PAGE])
        if header["itemsize"] != schema.dtype.itemsize:
            raise ValueError("rows of another size")
        rows = np.frombuffer(mapped, schema.dtype, header["room"], _PAGE)
        slots = np.frombuffer(mapped, np.int32, header["places"], _locate_slots(header))
        # kernels do not check bounds
        if not 0 <= header["rows"] <= rows.size < slots.size or slots.size & (slots.size - 1):
            raise ValueError("an index of another size")
        if slots.min() < EMPTY or slots.max() >= header["rows"] or (slots != EMPTY).sum() != header["rows"]:
            raise ValueError("an index that leads nowhere")
        fragment = Fragment.of(schema, rows, slots, header["rows"])
        if fragment.names is not None:
            at = _locate_slots(header) + slots.nbytes
            fragment.names.add(decode_checked(mapped[at : at + header["names"]]))
            _check_named(fragment, fragment.rows)
    except MALFORMED as error:
        raise _report_damage(place, error) from error
    return fragment


def _check_named(fragment: Fragment, rows: npt.NDArray[np.void]) -> None:
    """Refuse rows whose keys have no name: kernels do not check that a name exists."""
    if fragment.names is not None and rows.size:
        keys = rows[KEY]
        if keys.min() < 0 or keys.max() >= len(fragment.names.texts):
            raise ValueError("keys without a name")


class Delta(NamedTuple):
    """The changes of a batch: rows, removed keys, and the texts of new keys from number ``first`` on."""

    rows: bytes
    gone: Longs
    first: int
    names: bytes

    def apply(self, fragment: Fragment) -> None:
        """Take the changes over into a copy of the fragment."""
        if fragment.names is not None:
            try:
                self._name(fragment.names)
                _check_named(fragment, decode(fragment.schema, self.rows))
            except MALFORMED as error:
                raise BadInput(
                    f"Snapshot of cuboid {fragment.schema.name}: damaged ({error}).", hint=_ANEW, code="damaged-output"
                ) from error
        fragment.apply(self.rows)
        fragment.remove(self.gone)

    def _name(self, names: Names) -> None:
        if not self.names:
            return
        if self.first != len(names.texts):
            raise ValueError(f"{len(names.texts)} names, {self.first} expected")
        names.add(decode_checked(self.names))


def write_delta(place: Path, rows: list[bytes], gone: Longs, first: int = 0, names: bytes = b"") -> int:
    """Write what a batch changed; returns the bytes written."""
    size = sum(map(len, rows))
    header = {"bytes": size, "gone": gone.size, "first": first, "names": len(names)}
    with atomic_write(place) as file:
        file.write(json.dumps(header).encode() + b"\n")
        for part in rows:
            file.write(part)
        file.write(gone.tobytes())
        file.write(names)
    return size + gone.nbytes + len(names)


def read_delta(place: Path) -> Delta:
    """Read what a batch changed."""
    head, _, body = place.read_bytes().partition(b"\n")
    try:
        header = parse_json(head)
        rows = body[: header["bytes"]]
        gone = np.frombuffer(body, np.int64, header["gone"], header["bytes"])
        named = len(rows) + gone.nbytes
        size = int(header.get("names", 0))
        if named + size != len(body):
            raise ValueError(f"{len(body)} bytes, {named + size} expected")
        return Delta(rows, gone, int(header.get("first", 0)), body[named:])
    except MALFORMED as error:
        raise _report_damage(place, error) from error


def _report_damage(place: Path, error: Exception) -> BadInput:
    return BadInput(f"{place}: damaged ({error}).", hint=_ANEW, code="damaged-output")
