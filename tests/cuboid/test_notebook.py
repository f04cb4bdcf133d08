"""The notebook's cells run one after another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebooks" / "cuboids.ipynb"


@pytest.mark.long
def test_the_notebook_runs(spark: SparkSession) -> None:
    mpl.use("Agg")
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["snapshot"].batch > 5
    assert len(names["members"]) > 0
