"""Read files of whole trips: GPX, CSV, MobilityDB's text and OGC Moving Features JSON, one file or a folder of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._moving.exchange.tracks import read_csv, read_gpx
from slipstream._moving.exchange.trip_texts import from_mfjson, from_wkt, srid_of
from slipstream._moving.moving_point import MovingPoint
from slipstream._moving.space.plane import Plane
from slipstream._tools.strict_json import parse_json

GPX, CSV, WKT, MFJSON = "gpx", "csv", "wkt", "mfjson"
#: the format that a file's name stands for
SUFFIXES = {".gpx": GPX, ".csv": CSV, ".wkt": WKT, ".mfjson": MFJSON, ".json": MFJSON, ".jsonl": MFJSON}
#: columns that hold a place, in the order in which they are looked for; all but the first are degrees
PLACES = (("x", "y"), ("longitude", "latitude"), ("lon", "lat"), ("lng", "lat"))

Trip = tuple[str, MovingPoint]


@dataclass(frozen=True)
class TripReading:
    """How to read files of trips."""

    format: str = ""  # by default, what a file's name says
    plane: Plane | None = None  # where degrees are projected to; without one, coordinates are metres
    id: str = "id"  # columns of CSV
    time: str = "time"
    x: str = ""
    y: str = ""
    trip: str = ""  # a column with whole trips as text, instead of rows with instants
    units: str | None = None
    srids: set[int] = field(default_factory=set, compare=False)  # those that texts named, after reading

    def __post_init__(self) -> None:
        if self.format not in ("", *SUFFIXES.values()):
            raise BadArgument(
                f"format {self.format!r} is unknown.", hint="Use gpx, csv, wkt or mfjson.", code="unknown-value"
            )

    def read(self, where: Path) -> list[Trip]:
        """Return the trips of a file, or of all files of a folder in the order of their names."""
        if not where.exists():
            raise BadArgument(
                f"{where}: no such file or folder.",
                hint="Give a file of trips, or a folder of them.",
                code="no-such-file",
            )
        files = [where] if where.is_file() else sorted(filter(self._has_trips, where.iterdir()))
        if not files:
            raise BadArgument(
                f"{where}: has no files of trips.",
                hint=f"Their names end in: {', '.join(SUFFIXES)}.",
                code="empty-input",
            )
        return [trip for file in files for trip in self._read(file)]

    def _has_trips(self, path: Path) -> bool:
        known = SUFFIXES.get(path.suffix.lower())
        return path.is_file() and known is not None and known == (self.format or known)

    def _read(self, path: Path) -> Iterator[Trip]:
        format = self.format or SUFFIXES.get(path.suffix.lower())
        readers = {GPX: self._gpx, CSV: self._csv, WKT: self._wkt, MFJSON: self._mfjson}
        if format is None:
            raise BadArgument(
                f"{path}: cannot tell the format from the name.",
                hint="Give format=: gpx, csv, wkt or mfjson.",
                code="wrong-file-type",
            )
        return readers[format](path)

    def _gpx(self, path: Path) -> Iterator[Trip]:
        if self.plane is None:
            raise BadArgument(f"{path}: GPX has degrees, and a trip is in metres.", hint=_PLANE, code="bad-coordinates")
        yield path.stem, read_gpx(path, self.plane)

    def _csv(self, path: Path) -> Iterator[Trip]:
        if self.trip:
            yield from self._csv_texts(path)
            return
        x, y = (self.x, self.y) if self.x and self.y else _place_columns(path)
        if self.plane is None and (x, y) in PLACES[1:]:
            raise BadArgument(
                f"{path}: columns {x} and {y} are degrees, and a trip is in metres.",
                hint=_PLANE,
                code="bad-coordinates",
            )
        lon, lat = (None, None) if self.plane is None else (x, y)
        yield from read_csv(
            path, who=self.id, t=self.time, x=x, y=y, lon=lon, lat=lat, plane=self.plane, units=self.units
        ).items()

    def _csv_texts(self, path: Path) -> Iterator[Trip]:
        """The trips of a table with a whole trip per row."""
        for line, row in enumerate(_rows(path, self.id, self.trip), 2):
            text = row[self.trip].strip()
            parse = from_mfjson if text.startswith('{"') else from_wkt
            yield row[self.id], self._parsed(parse, text, f"{path}, line {line}")

    def _wkt(self, path: Path) -> Iterator[Trip]:
        lines = [(number, line) for number, line in enumerate(_text(path).splitlines(), 1) if line.strip()]
        for number, line in lines:
            name = path.stem if len(lines) == 1 else f"{path.stem}-{number}"
            yield name, self._parsed(from_wkt, line, f"{path}, line {number}")

    def _mfjson(self, path: Path) -> Iterator[Trip]:
        found = list(_moving_features(path))
        for number, (name, body) in enumerate(found, 1):
            id = name or (path.stem if len(found) == 1 else f"{path.stem}-{number}")
            yield id, self._parsed(from_mfjson, json.dumps(body), f"{path}, trip {number}")

    def _parsed(self, parse: Callable[..., MovingPoint], text: str, where: str) -> MovingPoint:
        try:
            if parse is from_wkt:
                self.srids.add(srid_of(text))
            return parse(text, plane=self.plane, units=self.units)
        except BadInput as error:
            raise error.within(where) from None


_PLANE = "Give the plane to project them to: plane=ss.Plane.utm_at(13.4, 52.5) for Berlin."


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{path}: cannot be read ({error}).", hint="Use a text file in UTF-8.", code="unreadable-file"
        ) from error


def _rows(path: Path, *columns: str) -> Iterator[dict[str, str]]:
    csv.field_size_limit(1 << 30)  # a trip is one field
    reader = csv.DictReader(_text(path).splitlines(keepends=True))
    if missing := sorted(set(columns) - set(reader.fieldnames or ())):
        raise BadInput(
            f"{path}, line 1: no column {', '.join(missing)}.",
            hint=f"Expected {', '.join(columns)}.",
            code="unknown-column",
        )
    for line, row in enumerate(reader, 2):
        if any(row[column] is None for column in columns):
            raise BadInput(
                f"{path}, line {line}: too few fields.", hint=f"Expected {', '.join(columns)}.", code="unreadable-line"
            )
        yield row


def _place_columns(path: Path) -> tuple[str, str]:
    head = next(csv.reader(_text(path).splitlines()[:1]), [])
    found = next((pair for pair in PLACES if set(pair) <= set(head)), None)
    if found is None:
        raise BadInput(
            f"{path}, line 1: no columns for the place were found.",
            hint=f"Give x= and y=, of: {', '.join(head)}.",
            code="unknown-column",
        )
    return found


def _moving_features(path: Path) -> Iterator[tuple[str, Any]]:
    """The moving points of a document, or of a document per line, and the ids of features."""
    text = _text(path)
    try:
        documents = [parse_json(text)]
    except MALFORMED:
        try:
            documents = [parse_json(line) for line in text.splitlines() if line.strip()]
        except MALFORMED as error:
            raise BadInput(
                f"{path}: not MF-JSON ({error}).", hint="Give a document, or one per line.", code="unreadable-file"
            ) from error
    for document in documents:
        features = document.get("features", [document]) if isinstance(document, dict) else [document]
        for feature in features if isinstance(features, list) else [features]:
            yield _moving_feature(feature, document)


def _moving_feature(feature: Any, document: Any) -> tuple[str, Any]:
    if not isinstance(feature, dict) or "temporalGeometry" not in feature:
        return "", feature
    body = feature["temporalGeometry"]
    crs = feature.get("crs") or document.get("crs")
    if isinstance(body, dict) and crs and "crs" not in body:
        body = {**body, "crs": crs}
    return str(feature.get("id", "")), body
