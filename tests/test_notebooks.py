"""The notebooks run from their first cell to their last, each in a kernel of its own, and find what they promise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))

#: what must hold after the last cell
FOUND = {
    "cuboids": "out.status().has_finished and len(cars) > 0 and len(members) > 0",
    "engine-builder": "not verdict['passed'] and ours['passed']",
    "streams": "[step['alerts'] for step in steps] == [[], alerts[:1], alerts[1:]] "
    "and [a['n'] for a in alerts] == [4, 3] and found and all(row['pos'] >= 40 for row in found)",
    "tolling": "verdict['passed'] and charged['2004']['tolls'][0] > 0 and len(notices) > 0",
    "trajectories": "len(longest) == 10 and len(places) > 0 and len(passed) > 0 and len(rides) == 1",
}
#: what notebooks show: text that some output of theirs has, as HTML or plain
SHOWN = {
    "cuboids": ["<caption>car: "],
    "engine-builder": [],
    "streams": ["<svg", "Did you mean 'pos'?", "finished"],
    "tolling": ["<svg", "<caption>account: ", "finished"],
    "trajectories": ["<polyline", "not to scale"],
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
    shown = "".join(_texts(body))
    for text in SHOWN[notebook.stem]:
        assert text in shown, text
    assert "\x1b[2K" not in shown, "a progress bar, line by line"


def _texts(body: Any) -> Iterator[str]:
    """All that the cells of a notebook show."""
    for output in (output for cell in body.cells if cell.cell_type == "code" for output in cell.outputs):
        yield from ([output.text] if "text" in output else [])
        yield from (text for text in output.get("data", {}).values() if isinstance(text, str))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_the_notebook_is_kept_without_outputs(notebook: Path) -> None:
    cells = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
