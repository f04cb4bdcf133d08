"""The notebooks run from their first cell to their last, each in a kernel of its own, and find what they promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))

#: what must hold after the last cell
FOUND = {
    "cuboids": "snapshot.batch > 5 and len(members) > 0",
    "engine-builder": "not verdict.passed and verdict.tallies[0].missing > 0 and ours.passed",
    "streams": "len(alerts) > 0 and all(row['pos'] >= 40 for row in found) and found",
    "tolling": "verdict.passed and summaries['2004']['answers']['toll'] > 0",
    "trajectories": "len(longest) == 10 and len(places) > 0 and len(passed) > 0",
}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_the_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    import nbclient
    import nbformat

    body = nbformat.read(notebook, as_version=4)
    body.cells.append(nbformat.v4.new_code_cell(f"assert {FOUND[notebook.stem]}"))
    nbclient.NotebookClient(body, timeout=1200, resources={"metadata": {"path": str(tmp_path)}}).execute()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_the_notebook_is_kept_without_outputs(notebook: Path) -> None:
    cells = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
