"""Checks that a command gives all inputs a network needs; imports nothing heavy, so mistakes show at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slipstream._errors import BadArgument


def check_given(network: str, option: str, kind: str, names: list[str], paths: Mapping[str, Path | str]) -> None:
    """Refuse files for unknown sources or tables, and sources or tables without a file."""
    if unknown := [name for name in paths if name not in names]:
        raise BadArgument(
            f"{option} {unknown[0]}={paths[unknown[0]]}: network {network} has no {kind} {unknown[0]!r}.",
            hint=f"It has: {', '.join(names)}." if names else f"Remove {option}.",
            code="unknown-name",
            found=unknown[0],
            expected=[*names],
        )
    if missing := [name for name in names if name not in paths]:
        options = " ".join(f"{option} {name}=FILE" for name in missing)
        plural = "s" if len(missing) > 1 else ""
        raise BadArgument(
            f"network {network}: no input for the {kind}{plural} {', '.join(missing)}.",
            hint=f"Give {options}.",
            code="missing-value",
        )
