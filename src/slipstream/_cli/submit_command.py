"""``slipstream submit``: run a command on a cluster, through Spark's own ``spark-submit``."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from slipstream._cli.common.options import Json
from slipstream._errors import Unavailable
from slipstream._spark import session


def submit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The job: command, master, and what the cluster needs.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command of spark-submit; start nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Submit a job file to a Spark cluster: standalone, YARN or Kubernetes.

    The file is YAML: `command` (of slipstream, without its name), `master`, and as needed `deploy_mode` (client or
    cluster), `environment` (a packed Python), `conf` (Spark's settings) and `name`. With deploy_mode cluster the driver
    runs on the cluster, which YARN and Kubernetes offer for Python.

    Examples:

    `slipstream submit job.yaml`

    `slipstream submit job.yaml --dry-run` # what it would start
    """
    from slipstream._spark.submission import Submission

    command = Submission.read(file).to_command()
    if dry_run:
        print(json.dumps({"command": command}) if as_json else shlex.join(command))
        return
    session.java()
    code = subprocess.run(command, check=False).returncode
    if code:
        raise Unavailable(
            f"{file}: spark-submit ended with exit code {code}.",
            hint="Its messages above have the reason. The same command resumes what was committed.",
            code="task-failed",
        )


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(submit)
