"""``slipstream network``: check, draw, describe and run networks of boxes, and look into a running one."""

from __future__ import annotations

import typer

from slipstream._cli.common.command_style import Family
from slipstream._cli.network import control, design, running

app = Family(
    help="Networks of boxes over streams: the boxes of the Aurora algebra and more, run on Structured Streaming.",
    epilog="Start with: slipstream examples; slipstream network draw examples/networks/border.yaml --out border.svg",
    no_args_is_help=True,
)
for part in (design, running, control):
    part.add_to(app)


def add_to(root: typer.Typer) -> None:
    """Put the commands on the command line."""
    root.add_typer(app, name="network")
