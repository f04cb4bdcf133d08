"""Fast start of Spark's Python workers: from installed modules, with the heavy ones already imported.

Spark puts archives of PySpark and Py4J first on the path of its workers. Python does not cache compiled code for
imports from an archive, so every worker would compile PySpark again, which takes 0.7 s. Here the workers get the path
of this process instead (:func:`make_python_command`), on which PySpark is installed like any package.

Spark forks workers from a daemon, and PySpark's own daemon forks before it imports. Run as the daemon
(``spark.python.daemon.module``), this module imports what all workers need once, runs a first kernel, then
forks.

PySpark's workers also collect garbage after every task, which takes 75 ms for the imported modules alone. What has been
loaded stays, so it is left out of that (:func:`keep_loaded`).
"""

from __future__ import annotations

import gc
import importlib
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

#: modules that every worker imports before its first tuple
_SHARED = ("pyspark.worker", "pandas", "pyarrow.parquet", "numba")
#: tasks after which a worker has imported and compiled what it needs
_SETTLED = 4

#: what a worker does with the tasks that arrive at a socket, one by one
Work: TypeAlias = Callable[[Any, bool], int]


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
    import numpy as np
    from pyspark import daemon

    from slipstream._tools.numba_tools import mix

    for name in _SHARED:
        importlib.import_module(name)
    mix(np.uint64(0))  # the first kernel of a process takes a quarter of a second; workers inherit that
    gc.freeze()
    daemon.worker = keep_loaded(daemon.worker)  # type: ignore[assignment]
    daemon.manager()


def keep_loaded(work: Work) -> Work:
    """Wrap a worker: what it has loaded after some tasks is left out of later garbage collections."""
    tasks = 0

    def work_and_keep(sock: Any, authenticated: bool) -> int:
        nonlocal tasks
        code = work(sock, authenticated)
        tasks += 1
        if tasks == _SETTLED:
            gc.collect()
            gc.freeze()
        return code

    return work_and_keep


if __name__ == "__main__":
    main()
