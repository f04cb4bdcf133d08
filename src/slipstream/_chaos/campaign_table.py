"""The result of a campaign as a table of kinds, counts and outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from slipstream._chaos.campaign import ADVISED, NOT_REACHED, SAME, Record


def format_markdown(records: Sequence[Record], seed: int) -> str:
    """Return the table as Markdown, as in docs/benchmarks.md."""
    outcomes = (SAME, ADVISED, NOT_REACHED, "bad")
    lines = [f"Seed {seed}, {len(records)} faults in {len({record.chain for record in records})} chains.", ""]
    lines += [f"| fault | times | {' | '.join(outcomes)} |", "|---|---:" + "|---:" * len(outcomes) + "|"]
    for kind in sorted({record.kind for record in records}):
        lines.append(_write_row(kind, [record for record in records if record.kind == kind]))
    lines.append(_write_row("all", records, "**"))
    return "\n".join(lines) + "\n"


def _write_row(name: str, records: Sequence[Record], mark: str = "") -> str:
    found = Counter(record.outcome if record.is_good else "bad" for record in records)
    numbers = (len(records), found[SAME], found[ADVISED], found[NOT_REACHED], found["bad"])
    return "| " + " | ".join(f"{mark}{cell}{mark}" for cell in (name, *numbers)) + " |"


def describe_bad(records: Sequence[Record]) -> list[str]:
    """Describe the faults with a bad outcome, with the job's messages."""
    return [f"chain {r.chain}, {r.kind}: {r.outcome}\n{r.said}".strip() for r in records if not r.is_good]
