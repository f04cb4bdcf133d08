"""How Spark's Python workers start on this machine: from installed modules, and with the heavy ones imported already.

Spark puts archives of PySpark and Py4J first on the path of its workers. Python keeps no compiled code of what it
imports from an archive, so every worker compiled PySpark anew, 0.7 s of it. Here the workers get the path of this
process instead (:func:`python_for`), on which PySpark is installed as any package.

Spark forks workers from a daemon, and PySpark's own daemon forks before it imports. This module run as the daemon
(``spark.python.daemon.module``) imports what all workers need once, and forks then.
"""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from pathlib import Path

#: what every worker of ours imports before its first tuple
_SHARED = ("pyspark.worker", "pandas", "pyarrow.parquet", "numba")


def python_for(folder: Path) -> str:
    """The command that starts a worker's Python: a script in ``folder``, or this Python where none can be used."""
    import pyspark

    if Path(pyspark.__file__).parents[1].name not in ("site-packages", "dist-packages"):
        return sys.executable  # its path is made by somebody, not by Python itself
    path = os.environ.get("PYTHONPATH")
    set_path = f"export PYTHONPATH={shlex.quote(path)}" if path else "unset PYTHONPATH"
    script = folder / "worker-python"
    script.write_text(f'#!/bin/sh\n{set_path}\nexec {shlex.quote(sys.executable)} "$@"\n')
    script.chmod(0o700)
    # not where temporary files may not be executed
    return str(script) if os.access(script, os.X_OK) else sys.executable


def main() -> None:
    """Run the daemon."""
    from pyspark import daemon

    for name in _SHARED:
        importlib.import_module(name)
    daemon.manager()


if __name__ == "__main__":
    main()
