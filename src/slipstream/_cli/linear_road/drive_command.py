"""``slipstream drive``: recorded traffic as a live feed, tuples of Linear Road or positions of GPS receivers."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from slipstream._cli.common.checks import check_there, check_writable
from slipstream._cli.common.options import Json, show
from slipstream._errors import BadArgument, CheckFailed
from slipstream._tools.progress import say

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream._bench.driving.driver import DrivePlan, DriveResult, Sent
    from slipstream._bench.driving.encoders import Encoding
    from slipstream._bench.driving.receivers import FeedReceiver


class Content(StrEnum):
    """What is delivered."""

    TUPLES = "tuples"
    GPS = "gps"


def drive(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run to deliver; with --as gps, a data set of trips.")],
    to: Annotated[str, typer.Option(metavar="WHERE", help="dir:PATH, kafka:HOST:PORT/TOPIC, tcp:HOST:PORT or stdout.")],
    cargo: Annotated[
        Content, typer.Option("--as", help="Deliver the tuples of a run, or trips as positions of GPS receivers.")
    ] = Content.TUPLES,
    speed: Annotated[
        float, typer.Option(min=0, metavar="K", help="Replay at this multiple of real time; 0 is full speed.")
    ] = 1.0,
    fast_forward_to: Annotated[
        int, typer.Option(metavar="T", help="Deliver everything before this second at once.")
    ] = 0,
    since: Annotated[int, typer.Option(metavar="T", help="Begin with this second; skip what is before it.")] = 0,
    until: Annotated[int | None, typer.Option(metavar="T", help="End before this second.")] = None,
    multiply: Annotated[int, typer.Option(min=1, metavar="K", help="Present the run K times, with shifted ids.")] = 1,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="How tuples are written: text, json or train; positions: json or csv. [default: text, positions json]",
            show_default=False,
        ),
    ] = "",
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", help="With --as gps: the time between positions.")
    ] = 10.0,
    noise: Annotated[
        float, typer.Option(metavar="METRES", help="With --as gps: the standard deviation of positions.")
    ] = 0.0,
    loss: Annotated[float, typer.Option(metavar="SHARE", help="With --as gps: the share of positions lost.")] = 0.0,
    jitter: Annotated[float, typer.Option(metavar="SECONDS", help="With --as gps: the longest delay.")] = 0.0,
    seed: Annotated[int, typer.Option(help="With --as gps: the same seed gives the same positions.")] = 1,
    centre: Annotated[
        str,
        typer.Option(
            metavar="LON,LAT",
            help="With --as gps: where to put the centre of a data set that has no reference system. [default: Berlin]",
            show_default=False,
        ),
    ] = "",
    spread: Annotated[
        bool,
        typer.Option(
            "--spread",
            help="Spread tuples over all partitions of a topic, reports by expressway and requests by vehicle, "
            "positions by vehicle. By default all go to partition 0.",
        ),
    ] = False,
    end: Annotated[
        bool, typer.Option("--end", help="Mark the end of the topic or folder, so that jobs that follow it end.")
    ] = False,
    timings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Append a line for every second: when it was sent, and how late. If the file has lines, continue "
            "after its last second.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Deliver a run in real time: a tuple with Time t leaves in second t.

    Nothing is lost or reordered: tuples arrive in the order of the run, second by second. The
    driver measures its own delay; if that ever exceeds 1 s, the run is void (exit code 5), because the engine was not
    given the load that the benchmark requires. A TCP destination waits for one client to connect. With stdout, the
    summary goes to standard error.

    With --as gps, RUN is a BerlinMOD data set or an archive of trips. Its vehicles report as GPS receivers would: id,
    time (seconds since 1970), lon, lat, speed (km/h) and heading (degrees). Parked vehicles are silent.

    Examples:

    `slipstream drive runs/first --to dir:feed --speed 10`

    `slipstream drive data/small --as gps --interval 5 --noise 8 --to tcp:127.0.0.1:9999`
    """
    check_there(run, what="run", hint="`slipstream simulate --out RUN` creates one.")
    check_writable(timings, "--timings")
    from slipstream._bench.driving.driver import log_to, read_sent
    from slipstream._bench.driving.receivers import open_destination

    if cargo is Content.GPS:
        if multiply != 1 or fast_forward_to:
            raise BadArgument(
                "--multiply and --fast-forward-to are not for --as gps.",
                hint="Leave them out.",
                code="conflicting-options",
            )
        shipment = _load_positions(run, (interval, noise, loss, jitter, seed), centre, format_, since, until)
    else:
        shipment = _load_tuples(run, multiply, format_, (speed, fast_forward_to, until, since))
    plan = replace(shipment.plan, speed=speed)
    if timings is not None and (sent := read_sent(timings)):
        plan = plan.after(sent[-1].second)
    with closing(open_destination(to, shipment.form, spread=spread)) as destination:
        result = shipment.deliver(plan, destination, log_to(timings) if timings else lambda _: None)
        if end:
            destination.end()
    if to == "stdout":
        say(json.dumps(result.to_dict()))
    else:
        show(result.to_dict(), as_json=as_json, title=f"Delivered {run}")
    if result.void:
        raise CheckFailed(
            f"The run is void: the driver was {result.max_lag} s late at second {result.latest_second}.",
            hint="Give the driver a quieter machine, a smaller run or a lower --speed.",
            code="run-void",
        )


class Shipment(NamedTuple):
    """What is to be delivered: the seconds, how they are written, and a function that delivers them."""

    plan: DrivePlan
    form: Encoding
    deliver: Callable[[DrivePlan, FeedReceiver, Callable[[Sent], None]], DriveResult]


def _load_tuples(folder: Path, multiply: int, format_: str, paced: tuple[float, int, int | None, int]) -> Shipment:
    """Return the tuples of a run."""
    from slipstream._bench.driving.driver import DrivePlan
    from slipstream._bench.driving.driver import drive as deliver
    from slipstream._bench.driving.encoders import find_encoding
    from slipstream._feeds.run import Run

    run = Run.open(folder)
    run = run.multiplied(multiply * run.copies)
    form = find_encoding(format_ or "text")
    return Shipment(
        DrivePlan.for_run(run, *paced),
        form,
        lambda plan, to, note: deliver(run, plan, form.encode, to, note=note, empty=form.empty),
    )


def _load_positions(
    folder: Path,
    settings: tuple[float, float, float, float, int],
    centre: str,
    format_: str,
    since: int,
    until: int | None,
) -> Shipment:
    """Return the positions of vehicles, as receivers report them."""
    from slipstream._bench.driving import gps_receivers
    from slipstream._bench.driving.driver import DrivePlan, drive_seconds

    form = gps_receivers.encoding(format_ or "json")
    receiver, plane = gps_receivers.GpsReceiver(*settings), gps_receivers.place_city(centre)
    movement = gps_receivers.open_movement(folder, plane)
    last = movement.seconds if until is None else min(until, movement.seconds)
    if not 0 <= since < last:
        raise BadArgument(
            f"--since {since}, --until {until}: outside the data set.",
            hint=f"{folder} has the seconds 0 to {movement.seconds - 1}.",
            code="out-of-range",
        )

    def deliver(plan: DrivePlan, to: FeedReceiver, note: Callable[[Sent], None]) -> DriveResult:
        positions = gps_receivers.receive(movement, receiver, plan.first, plan.end)

        def encode(second: pa.Table) -> list[bytes]:
            return [form.encode(part) for part in gps_receivers.spread_vehicles(second, to.partitions)]

        return drive_seconds(gps_receivers.split_seconds(positions, movement.begin), plan, encode, to, note=note)

    return Shipment(DrivePlan(since, last, 1.0, since), form, deliver)
