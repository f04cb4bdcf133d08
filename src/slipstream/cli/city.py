"""``slipstream simulate``: make a run of Linear City's traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipstream import session
from slipstream.cli.options import Conf, Json, Master, show, spark_session


def simulate(
    out: Annotated[Path, typer.Option("--out", help="The folder to make: a run.")],
    expressways: Annotated[float, typer.Option(help="How many; 0.5 is one direction of one.")] = 1.0,
    minutes: Annotated[int, typer.Option(help="Length of the run; Linear Road's is 180.")] = 180,
    seed: Annotated[int, typer.Option(help="Same seed, same tuples.")] = 1,
    demand: Annotated[float, typer.Option(help="Times the benchmark's traffic; 6 is rush hour at once.")] = 1.0,
    accident_every: Annotated[int, typer.Option(help="Minutes per accident on each expressway; 0 for none.")] = 20,
    multiply: Annotated[
        int, typer.Option(help="Present the run K times, ids shifted, without storing it K times.")
    ] = 1,
    master: Master = session.LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Simulate Linear City's traffic and write it as a run.

    Cars enter by ramps, follow and overtake each other (IDM and MOBIL), crash now and then, report every 30 seconds
    and sometimes ask for their balance. The run is a folder of Parquet files and a manifest; `slipstream describe`
    draws it, `slipstream export` writes the published text.

    Example: `slipstream simulate --expressways 1 --minutes 180 --out runs/standard`
    """
    from slipstream.city.simulate import simulate as simulate_
    from slipstream.city.traffic import Traffic

    traffic = Traffic(expressways=expressways, minutes=minutes, demand=demand, accident_every=accident_every)
    spark = spark_session("simulate", master, conf)
    run = simulate_(spark, traffic, seed, out, multiply=multiply)
    manifest = run.manifest
    summary = {
        "run": str(out),
        "expressways": expressways * multiply,
        "minutes": minutes,
        "seed": seed,
        "vehicles": manifest.vehicles * multiply,
        "accidents": len(manifest.accidents) * multiply,
        **{f"{kind}_tuples": count for kind, count in manifest.counts.items()},
    }
    show(summary, as_json=as_json, title="Simulated")


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(simulate)
