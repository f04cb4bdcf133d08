"""What a campaign found, as a table of kinds, counts and outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from slipstream.chaos.campaign import ADVISED, SAME, Record


def as_markdown(records: Sequence[Record], seed: int) -> str:
    """The table of docs/reliability.md."""
    kinds = Counter(record.kind for record in records)
    lines = [f"Seed {seed}, {len(records)} faults in {len({record.chain for record in records})} chains.", ""]
    lines += [f"| fault | times | {SAME} | {ADVISED} | bad |", "|---|---:|---:|---:|---:|"]
    for kind in sorted(kinds):
        mine = Counter(record.outcome for record in records if record.kind == kind)
        bad = sum(mine.values()) - mine[SAME] - mine[ADVISED]
        lines.append(f"| {kind} | {kinds[kind]} | {mine[SAME]} | {mine[ADVISED]} | {bad} |")
    outcomes = Counter(record.outcome for record in records)
    bad = len(records) - outcomes[SAME] - outcomes[ADVISED]
    lines.append(f"| **all** | **{len(records)}** | **{outcomes[SAME]}** | **{outcomes[ADVISED]}** | **{bad}** |")
    return "\n".join(lines) + "\n"


def bad_ones(records: Sequence[Record]) -> list[str]:
    """The faults that did harm, with what the engine said."""
    return [f"chain {r.chain}, {r.kind}: {r.outcome}\n{r.said}".strip() for r in records if not r.is_good]
