"""Commands that make, read and show runs."""

from __future__ import annotations

import typer


def add_to(app: typer.Typer) -> None:
    """Put the commands on the command line."""
