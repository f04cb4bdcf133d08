"""``slipstream simulate``: make a run of Linear City's traffic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream._cli.common.checks import check_new
from slipstream._cli.common.options import Conf, Json, Master, show, start_spark
from slipstream._cli.common.overwriting import HINT, Overwrite, replacing
from slipstream._spark import session
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from slipstream._city.traffic import Traffic
    from slipstream._feeds.run import Run

#: the file by which a run is known
MANIFEST = "manifest.json"


def simulate(
    out: Annotated[Path, typer.Option("--out", help="The folder of the new run.")],
    expressways: Annotated[
        float, typer.Option(min=0.5, max=10_000, help="The number of expressways; 0.5 is one direction of one.")
    ] = 1.0,
    minutes: Annotated[int, typer.Option(min=1, max=1440, help="The length of the run; Linear Road uses 180.")] = 180,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The same seed gives the same tuples.")] = 1,
    demand: Annotated[
        float, typer.Option(help="Traffic as a multiple of the benchmark's; 6 is rush hour from the start.")
    ] = 1.0,
    accident_every: Annotated[
        int, typer.Option(min=0, help="Minutes per accident on each expressway; 0 for none.")
    ] = 20,
    multiply: Annotated[
        int,
        typer.Option(min=1, metavar="K", help="Present the run K times with shifted ids, without storing it K times."),
    ] = 1,
    overwrite: Overwrite = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Simulate the traffic of Linear City and write it as a run.

    Cars enter by ramps, follow and overtake each other (IDM and MOBIL), crash now and then, report every 30 seconds
    and sometimes request their balance. The run is a folder of Parquet files and a manifest; `slipstream describe`
    draws it, `slipstream export` writes it as the published text. If --out has a complete run, nothing is done.

    Example: `slipstream simulate --expressways 1 --minutes 180 --out runs/standard`
    """
    known = None if overwrite else _find_known(out)
    from slipstream._city.traffic import Traffic

    traffic = Traffic(expressways=expressways, minutes=minutes, demand=demand, accident_every=accident_every)
    if known is not None and _is_of(known, traffic, seed, multiply):
        say(f"{out}: already complete.")
        run = known
    else:
        if not overwrite:
            check_new(out, hint=HINT)
        from slipstream._city.simulate import simulate as simulate_

        with replacing(out, overwrite, MANIFEST):
            run = simulate_(start_spark("simulate", master, conf), traffic, seed, out, multiply=multiply)
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


def _find_known(out: Path) -> Run | None:
    """Return the run that exists at ``out``; refuse anything else there."""
    if not (out / MANIFEST).exists():
        check_new(out, hint=HINT)
        return None
    from slipstream._feeds.run import Run

    return Run.open(out)


def _is_of(run: Run, traffic: Traffic, seed: int, multiply: int) -> bool:
    """Whether the same command made the run."""
    made = run.manifest
    return (made.seed, made.parameters, made.multiply) == (seed, traffic.parameters(), multiply)


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(simulate)
