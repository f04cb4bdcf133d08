"""The addresses of OGC API - Moving Features, below ``/api/movingfeatures``."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from slipstream import __version__
from slipstream._console.errors import ERROR_RESPONSES, NotFound
from slipstream._console.moving_features import documents, parameters
from slipstream._console.moving_features.collections import (
    Collection,
    ServedData,
    Shelf,
    find_sources,
    spread,
    visits,
)
from slipstream._console.moving_features.documents import GEOJSON, JSON, SYSTEMS, link
from slipstream._console.moving_features.parameters import Bbox, Leaf, Limit, Moment, Offset, Sub
from slipstream._errors import BadArgument, BadInput
from slipstream._moving.columns import MPoints, freeze_all, take_rows
from slipstream._moving.kernels import motion, splitting
from slipstream._trajectories.exchange import temporal_properties

ROOT = "/api/movingfeatures"
#: positions that one response has, unless a single mover or movement has more
MOST_POSITIONS = 200_000


def only(*known: str) -> Any:
    """Refuse parameters that a resource does not have."""

    def check(request: Request) -> None:
        parameters.refuse_others(request, known)

    return Depends(check)


def _documented(kind: str) -> Any:
    schema = {"schema": {"type": "object"}}
    return {"response_class": Response, "responses": {200: {"content": {kind: schema}}}}


router = APIRouter(prefix=ROOT, tags=["moving features"], responses=ERROR_RESPONSES)


# --- what there is


@router.get("", dependencies=[only()], **_documented(JSON))
def landing_page(request: Request) -> Response:
    """Return the landing page: where everything else is."""
    base, root = _base(request), _root(request)
    links = [
        link(root, "self"),
        link(f"{base}/openapi.json", "service-desc", "the interface", "application/vnd.oai.openapi+json;version=3.1"),
        link(f"{root}/conformance", "conformance"),
        link(f"{root}/conformance", "http://www.opengis.net/def/rel/ogc/1.0/conformance"),
        link(f"{root}/collections", "data"),
        link(f"{root}/collections", "http://www.opengis.net/def/rel/ogc/1.0/data"),
    ]
    return _send(
        {"title": f"Slipstream {__version__}", "description": "Trips of the console's workspace.", "links": links}
    )


@router.get("/conformance", dependencies=[only()], **_documented(JSON))
def conformance() -> Response:
    """Return the conformance classes that are implemented."""
    return _send({"conformsTo": documents.CONFORMANCE})


@router.get("/collections", dependencies=[only()], **_documented(JSON))
def collections(request: Request) -> Response:
    """Return the data sets whose reference system is known, as collections of moving features."""
    root, found = _root(request), find_sources(_workspace(request))
    described = [_describe(request, source) for source in found.values()]
    return _send({"collections": described, "links": [link(f"{root}/collections", "self")]})


@router.get("/collections/{collectionId}", dependencies=[only()], **_documented(JSON))
def collection(request: Request, collectionId: str) -> Response:  # noqa: N803 (the standard's name)
    """Return one collection."""
    return _send(_describe(request, _find(request, collectionId)))


def _describe(request: Request, source: ServedData) -> dict[str, Any]:
    extent = None
    with suppress(BadInput):  # opening it will say so; the others are still there
        extent = _shelf(request).extent(source)
    return documents.describe_collection(source, extent, _root(request))


# --- who moved


_ITEMS = "/collections/{collectionId}/items"
_FEATURE = f"{_ITEMS}/{{mFeatureId}}"


@router.get(_ITEMS, dependencies=[only("bbox", "datetime", "limit", "offset", "subTrajectory")], **_documented(GEOJSON))
def items(
    request: Request,
    collectionId: str,  # noqa: N803
    bbox: Bbox = "",
    datetime: Moment = "",
    limit: Limit = "",
    offset: Offset = "",
    subTrajectory: Sub = "",  # noqa: N803
) -> Response:
    """Return movers, by their ids: those that were in a box, and moved in a period; with `subTrajectory`, how."""
    opened = _open(request, collectionId)
    span, most, skip = parameters.read_datetime(datetime), parameters.read_limit(limit), parameters.read_offset(offset)
    wants_movement = parameters.read_flag("subTrajectory", subTrajectory)
    cut = parameters.read_interval("subTrajectory", span) if wants_movement else None
    chosen = opened.select(parameters.read_bbox(bbox), span)
    sizes = opened.trips.rows[opened.first[chosen + 1]] - opened.trips.rows[opened.first[chosen]]
    count = documents.bound_page(sizes[skip:], most, MOST_POSITIONS)
    page = chosen[skip : skip + count].tolist()
    address = f"{_root(request)}/collections/{_quote(collectionId)}/items"
    features = [documents.describe_feature(opened, mover, address) for mover in page]
    if cut is not None:
        for feature, mover in zip(features, page, strict=True):
            trips = opened.of(mover)
            moved = _pieces(freeze_all(motion.restrict(trips, spread(cut, len(trips.rows) - 1))))
            feature["temporalGeometry"] = documents.combine(documents.describe_movement(moved, [""] * len(moved.rows)))
    body = {"type": "FeatureCollection", "features": features, **SYSTEMS}
    return _send(body | _paging(request, skip, count, len(chosen), GEOJSON), GEOJSON)


@router.get(_FEATURE, dependencies=[only()], **_documented(GEOJSON))
def item(request: Request, collectionId: str, mFeatureId: str) -> Response:  # noqa: N803
    """Return one mover without its movement: who it is, where and when."""
    opened = _open(request, collectionId)
    address = f"{_root(request)}/collections/{_quote(collectionId)}/items"
    return _send(documents.describe_feature(opened, opened.find(mFeatureId), address) | SYSTEMS, GEOJSON)


# --- how


@router.get(
    f"{_FEATURE}/tgsequence",
    dependencies=[only("bbox", "datetime", "limit", "offset", "leaf", "subTrajectory")],
    **_documented(JSON),
)
def movement(
    request: Request,
    collectionId: str,  # noqa: N803
    mFeatureId: str,  # noqa: N803
    bbox: Bbox = "",
    datetime: Moment = "",
    limit: Limit = "",
    offset: Offset = "",
    leaf: Leaf = "",
    subTrajectory: Sub = "",  # noqa: N803
) -> Response:
    """Return the movement of a mover: a temporal geometry for each time that it moved without a break."""
    opened = _open(request, collectionId)
    pieces = _pieces(opened.of(opened.find(mFeatureId)))
    rows = np.arange(len(pieces.rows) - 1)
    boxes, span = parameters.read_bbox(bbox), parameters.read_datetime(datetime)
    most, skip, instants = parameters.read_limit(limit), parameters.read_offset(offset), parameters.read_leaf(leaf)
    cut = _read_cut("subTrajectory", subTrajectory, span, instants is not None)
    if boxes is not None:
        rows = rows[visits(pieces, boxes)[rows]]
    if span is not None:
        rows = rows[motion.overlaps(pieces, spread(span, len(pieces.rows) - 1))[rows]]
    found = freeze_all(take_rows(pieces, rows))
    if instants is not None:
        found = documents.at_instants(found, instants)
        rows, found = rows[np.diff(found.rows) > 0], freeze_all(take_rows(found, np.flatnonzero(np.diff(found.rows))))
    count = documents.bound_page(np.diff(found.rows)[skip:], most, MOST_POSITIONS)
    page = freeze_all(take_rows(found, np.arange(skip, skip + count)))
    if cut is not None:
        page = freeze_all(motion.restrict(page, spread(cut, count)))
    ids = [str(row + 1) for row in rows[skip : skip + count].tolist()]
    moved = documents.describe_movement(page, ids, "Linear" if instants is None else "Discrete")
    body = {"type": "TemporalGeometrySequence", "geometrySequence": moved, **SYSTEMS}
    return _send(body | _paging(request, skip, count, len(rows)))


def _pieces(m: MPoints) -> MPoints:
    """Return each sequence as a row."""
    each: MPoints = splitting.by_sequence(m).values
    return freeze_all(each)


def _read_cut(name: str, text: str, span: Any, has_leaf: bool) -> Any:
    """Return the period to cut to, if that is wanted."""
    if not parameters.read_flag(name, text):
        return None
    if has_leaf:
        raise BadArgument(
            f"leaf and {name} exclude each other.", hint="Leave one of them out.", code="conflicting-options"
        )
    return parameters.read_interval(name, span)


@router.get(
    f"{_FEATURE}/tproperties",
    dependencies=[only("datetime", "limit", "offset", "subTemporalValue")],
    **_documented(JSON),
)
def list_properties(
    request: Request,
    collectionId: str,  # noqa: N803
    mFeatureId: str,  # noqa: N803
    datetime: Moment = "",
    limit: Limit = "",
    offset: Offset = "",
    subTemporalValue: Sub = "",  # noqa: N803
) -> Response:
    """Return what else changed while a mover moved: names and types; with `subTemporalValue`, the values as well."""
    opened = _open(request, collectionId)
    mover = opened.find(mFeatureId)
    span, most, skip = parameters.read_datetime(datetime), parameters.read_limit(limit), parameters.read_offset(offset)
    cut = _read_cut("subTemporalValue", subTemporalValue, span, False)
    found = {name: _values(opened, mover, name) for name in opened.values}
    if span is not None:
        inside = {name: documents.during(value, span) for name, value in found.items()}
        found = {name: value for name, value in found.items() if len(inside[name].t)}
        found = found if cut is None else {name: inside[name] for name in found}
    page = list(found)[skip : skip + most]
    described: list[Any] = [documents.describe_property(name, found[name]) for name in page]
    if cut is not None:
        described = [part for name in page for part in temporal_properties.parametric_values(name, found[name])]
    return _send({"temporalProperties": described} | _paging(request, skip, len(page), len(found)))


@router.get(
    f"{_FEATURE}/tproperties/{{tPropertyName}}",
    dependencies=[only("datetime", "leaf", "subTemporalValue")],
    **_documented(JSON),
)
def show_property(
    request: Request,
    collectionId: str,  # noqa: N803
    mFeatureId: str,  # noqa: N803
    tPropertyName: str,  # noqa: N803
    datetime: Moment = "",
    leaf: Leaf = "",
    subTemporalValue: Sub = "",  # noqa: N803
) -> Response:
    """Return one value over time: its instants and values, as long as a trip lasted."""
    opened = _open(request, collectionId)
    mover = opened.find(mFeatureId)
    if tPropertyName not in opened.values:
        known = ", ".join(opened.values) or "none"
        raise NotFound(f"No temporal property {tPropertyName!r}.", hint=f"There are: {known}.")
    value = _values(opened, mover, tPropertyName)
    span, instants = parameters.read_datetime(datetime), parameters.read_leaf(leaf)
    cut = _read_cut("subTemporalValue", subTemporalValue, span, instants is not None)
    if cut is not None:
        value = documents.during(value, cut)
    elif span is not None and not len(documents.during(value, span).t):
        value = temporal_properties.some_rows(value, 0, 0)
    described = documents.describe_property(tPropertyName, value)
    if instants is None:
        sequence = temporal_properties.describe_values(value)
    else:
        sequence = list(documents.values_at_leaf(value, instants))
    return _send(described | {"valueSequence": sequence, "links": [link(_here(request), "self")]})


def _values(opened: Collection, mover: int, name: str) -> Any:
    return temporal_properties.some_rows(opened.values[name], int(opened.first[mover]), int(opened.first[mover + 1]))


# --- the workspace, addresses, answers


def _workspace(request: Request) -> Any:
    return request.app.state.city.workspace


def _shelf(request: Request) -> Shelf:
    """Return what is kept in memory, for each application its own."""
    state = request.app.state
    if not hasattr(state, "moving_features"):
        state.moving_features = Shelf()
    shelf: Shelf = state.moving_features
    return shelf


def _find(request: Request, id_: str) -> ServedData:
    found = find_sources(_workspace(request))
    if id_ not in found:
        raise NotFound(
            f"No collection {id_!r}.",
            hint="Served are data sets with a reference system, such as `slipstream trajectories build` writes.",
        )
    return found[id_]


def _open(request: Request, id_: str) -> Collection:
    return _shelf(request).open(_find(request, id_))


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")


def _root(request: Request) -> str:
    return _base(request) + ROOT


def _quote(name: str) -> str:
    return quote(name, safe="~")


def _here(request: Request, **changed: Any) -> str:
    """Return the address of a request, with other parameters."""
    query = urlencode({**request.query_params, **changed})
    return f"{_base(request)}{quote(request.url.path, safe='/~')}" + (f"?{query}" if query else "")


def _paging(request: Request, skip: int, count: int, total: int, kind: str = JSON) -> dict[str, Any]:
    """Return where in the whole a page is, and where the next one is."""
    links = [link(_here(request), "self", kind=kind)]
    if skip + count < total:
        links.append(link(_here(request, offset=skip + count), "next", "the next page", kind))
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"links": links, "timeStamp": now, "numberMatched": total, "numberReturned": count}


def _send(body: dict[str, Any], kind: str = JSON) -> Response:
    return JSONResponse(body, media_type=kind)
