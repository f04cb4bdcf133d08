"""Fast start of Spark's Python workers: from installed modules, with the heavy ones already imported.

Spark puts archives of PySpark and Py4J first on the path of its workers. Python does not cache compiled code for
imports from an archive, so every worker would compile PySpark again, which takes 0.7 s. Here the workers get the path
of this process instead (:func:`make_python_command`), on which PySpark is installed like any package.

Spark forks workers from a daemon, and PySpark's own daemon forks before it imports. Run as the daemon
(``spark.python.daemon.module``), this module imports what all workers need once, then forks.
"""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from pathlib import Path

#: modules that every worker imports before its first tuple
_SHARED = ("pyspark.worker", "pandas", "pyarrow.parquet", "numba")


def make_python_command(folder: Path) -> str:
    """The command that starts a worker's Python: a script in ``folder``, or this Python if a script cannot be used."""
    import pyspark

    if Path(pyspark.__file__).parents[1].name not in ("site-packages", "dist-packages"):
        return sys.executable  # PySpark is on the path by other means than an installation
    path = os.environ.get("PYTHONPATH")
    set_path = f"export PYTHONPATH={shlex.quote(path)}" if path else "unset PYTHONPATH"
    script = folder / "worker-python"
    script.write_text(f'#!/bin/sh\n{set_path}\nexec {shlex.quote(sys.executable)} "$@"\n')
    script.chmod(0o700)
    # temporary files may be on a disk mounted noexec
    return str(script) if os.access(script, os.X_OK) else sys.executable


def use_this_python() -> None:
    """Make workers of a local session that somebody else started run this Python, unless ``PYSPARK_PYTHON`` is set.

    PySpark would run the ``python3`` on the path, which in a script that is not run from an activated environment has
    none of its packages. This is not a setting of the session, and functions that exist already are not affected.
    """
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or "PYSPARK_PYTHON" in os.environ:
        return
    if (context.master or "").startswith("local"):
        context.pythonExec = sys.executable


def main() -> None:
    """Run the daemon."""
    from pyspark import daemon

    for name in _SHARED:
        importlib.import_module(name)
    daemon.manager()


if __name__ == "__main__":
    main()
